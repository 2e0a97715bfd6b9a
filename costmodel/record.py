"""One measurement as a JSON line: its schema, reading and writing as text (no files)."""

import json
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator

from costmodel.attention import Attention
from costmodel.batch import Batch, Phase
from costmodel.prediction import KnobValue

Outcome = Literal["measured", "rejected", "incorrect", "oom", "timeout", "crashed"]
SCHEMA = 1
INDEPENDENT = "fresh.jsonl.xz"
"""Name of the packed records that nothing may be fitted to or tuned on: they were drawn after the fit, to judge it."""
POWER_CAP = "power cap"
"""The throttle reason of a device that lowers its clock to stay within its power limit."""
SUSTAINED_CLOCK_SHARE = 0.8
"""Share of the boost clock below which a capped measurement is of lasting load. On an H200 decode bound by memory is
within 3 % of its time at full clock down to 81 % of it, and 9 % slower below 80 %."""


def expand_lens(lens: Sequence[Any]) -> tuple[int, ...]:
    """Turn `[4096, "*", 64]` into 64 times 4096; other lists stay as they are."""
    if len(lens) == 3 and lens[1] == "*":
        return (int(lens[0]),) * int(lens[2])
    return tuple(int(x) for x in lens)


def compact_lens(lens: Sequence[int]) -> list[int | str]:
    """Write uniform lengths as `[4096, "*", 64]`."""
    if len(lens) > 1 and len(set(lens)) == 1:
        return [lens[0], "*", len(lens)]
    return list(lens)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RecordedBatch(_Frozen):
    """The batch of a record."""

    phase: Phase
    q_lens: tuple[int, ...]
    kv_lens: tuple[int, ...]
    page_size: int = 1
    topk: int = 1
    layers: int = 1
    shared_prefix: int = 0

    def to_batch(self) -> Batch:
        """The batch that was measured."""
        return Batch(**dict(self))

    @field_validator("q_lens", "kv_lens", mode="before")
    @classmethod
    def _expand(cls, value: Any) -> Any:
        return expand_lens(value) if isinstance(value, (list, tuple)) else value

    @field_serializer("q_lens", "kv_lens")
    def _compact(self, value: tuple[int, ...]) -> list[int | str]:
        return compact_lens(value)


class RecordedDevice(_Frozen):
    """The device that a record was measured on, as its driver described it."""

    name: str
    cc: str | None = None
    sms: int | None = None
    memory_mib: int | None = None
    driver: str | None = None


class Record(_Frozen):
    """One measurement with its environment; times in microseconds as stored."""

    schema_version: int = Field(SCHEMA, alias="schema")
    attention: dict[str, Any]
    batch: RecordedBatch
    backend: str
    implementation: str
    implementation_version: str
    knobs: dict[str, KnobValue] = {}
    outcome: Outcome
    reason: str | None = None
    latency_us: float | None = None
    p10_us: float | None = None
    p90_us: float | None = None
    repeats: int = 0
    eager_us: float | None = None
    plan_us: float | None = None
    compile_s: float | None = None
    write_us: float | None = None
    """KV write of the new tokens, one layer."""
    sustained_us: float | None = None
    """Latency after a while of nothing else, at the clocks that the device then holds."""
    step_us: float | None = None
    """Plan, then KV write and call of each of the batch's layers."""
    l2: Literal["cold", "warm"] = "cold"
    max_error: float | None = None
    tolerance: float | None = None
    deterministic: bool | None = None
    """Two runs agree bit for bit."""
    checked: float | None = None
    """Rows compared with the reference over all rows, where not all were."""
    path: str | None = None
    """Library path that ran, where it is known."""
    sm_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle: tuple[str, ...] = ()
    busy: str | None = None
    """Why the machine was not quiet, in words."""
    device: RecordedDevice
    torch: str | None = None
    cuda: str | None = None
    time: str

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @classmethod
    def from_line(cls, line: str) -> "Record":
        """Read one JSON line.

        Raises:
            pydantic.ValidationError: The line is not a record of this schema.
        """
        return cls.model_validate_json(line)

    def to_line(self) -> str:
        """Write one JSON line, fields that are None left out where they are optional."""
        data = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        data = {"schema": self.schema_version, **{k: v for k, v in data.items() if k != "schema"}}
        return json.dumps(data, separators=(",", ":"))

    def is_sustained(self, boost_clock_hz: float) -> bool:
        """Whether the power cap held the clock well below boost: latency under lasting load, not of one step."""
        if POWER_CAP not in self.throttle or self.sm_clock_mhz is None:
            return False
        return self.sm_clock_mhz * 1e6 < SUSTAINED_CLOCK_SHARE * boost_clock_hz

    def to_attention(self) -> Attention:
        """The attention that was measured."""
        return Attention(**self.attention)

    def to_batch(self) -> Batch:
        """The batch that was measured."""
        return self.batch.to_batch()
