"""Measured steps and parts as JSON lines: their schema, and reading and writing them."""

import json
import lzma
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from costmodel import Batch
from costmodel.prediction import KnobValue
from costmodel.record import RecordedBatch, RecordedDevice
from executors.environment import Environment
from executors.steps.timing import Times

PACKAGED = Path(__file__).parent / "data"
"""Records of real devices that come with the project, one folder a device."""
SCHEMA = 1
Kind = TypeVar("Kind", bound="Line")


class Line(BaseModel):
    """What both kinds of records share; times in microseconds as stored."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_version: int = Field(SCHEMA, alias="schema")
    model: str
    tp: int = 1
    layers: int
    """Layers of the stack; products rotate over their weights."""
    dtype: str = "bf16"
    latency_us: float | None = None
    """Of the whole step as one CUDA graph, or of one part in a graph of many: median."""
    p10_us: float | None = None
    p90_us: float | None = None
    repeats: int = 0
    sm_clock_mhz: float | None = None
    power_w: float | None = None
    throttle: tuple[str, ...] = ()
    busy: str | None = None
    device: RecordedDevice
    torch: str | None = None
    cuda: str | None = None
    time: str

    def to_line(self) -> str:
        """Write one JSON line; what has its default is left out."""
        data = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return json.dumps({"schema": self.schema_version, **data}, separators=(",", ":"))


class StepRecord(Line):
    """One forward step of a stack: embedding, layers, head and greedy choice, without scheduler and all-reduce."""

    batch: RecordedBatch
    backend: str
    implementation: str
    implementation_version: str
    knobs: dict[str, KnobValue] = {}
    outcome: Literal["measured", "failed"] = "measured"
    reason: str | None = None
    attention_us: float | None = None
    """The backend's call alone, one layer, KV copies in rotation."""
    plan_us: float | None = None
    """Host time of the plan, once a step; not in `latency_us`."""
    eager_us: float | None = None
    """The step launched from Python."""
    max_error: float | None = None
    tolerance: float | None = None

    def to_batch(self) -> Batch:
        """The batch that was run."""
        return self.batch.to_batch()


class PartRecord(Line):
    """One product or kernel of a step on its own."""

    part: str
    name: str
    tokens: int
    n: int
    k: int = 0


@dataclass(frozen=True, slots=True)
class Measurement:
    """What times are written with."""

    model: str
    tp: int
    layers: int
    dtype: str
    environment: Environment

    def fields(self, times: Times | None) -> dict[str, Any]:
        """Give the shared fields of a record."""
        environment = self.environment
        shared = {name: getattr(self, name) for name in ("model", "tp", "layers", "dtype")}
        shared |= {"device": environment.recorded(), "torch": environment.torch, "cuda": environment.cuda}
        shared["time"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return shared if times is None else {**shared, **_timed(times)}


def recorded_batch(batch: Batch) -> RecordedBatch:
    """Give a batch as records store it."""
    return RecordedBatch(**asdict(batch))


def microseconds(seconds: float | None) -> float | None:
    """Five significant digits."""
    return None if seconds is None else float(f"{seconds * 1e6:.5g}")


def _timed(times: Times) -> dict[str, Any]:
    ordered, conditions = sorted(times.seconds), times.conditions
    last = len(ordered) - 1
    return {
        "latency_us": microseconds(ordered[last // 2]),
        "p10_us": microseconds(ordered[round(0.1 * last)]),
        "p90_us": microseconds(ordered[round(0.9 * last)]),
        "repeats": len(ordered),
        "sm_clock_mhz": None if conditions.sm_clock_hz is None else round(conditions.sm_clock_hz / 1e6),
        "power_w": conditions.power_w,
        "throttle": conditions.throttle,
        "busy": conditions.busy,
    }


def append(path: Path, line: Line) -> None:
    """Add one record to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(line.to_line() + "\n")


def read_steps(folder: Path = PACKAGED) -> list[StepRecord]:
    """Read the steps of a folder; lines that are no records are left out."""
    return _read(folder, "steps", StepRecord)


def read_parts(folder: Path = PACKAGED) -> list[PartRecord]:
    """Read the parts of a folder; lines that are no records are left out."""
    return _read(folder, "parts", PartRecord)


def pack(lines: Iterable[Line], path: Path) -> None:
    """Write an `.xz` file, whole or not at all."""
    text = "".join(line.to_line() + "\n" for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    os.replace(part, path)


def _read(folder: Path, stem: str, kind: type[Kind]) -> list[Kind]:
    found = []
    for path in sorted([*folder.rglob(f"{stem}.jsonl"), *folder.rglob(f"{stem}.jsonl.xz")]):
        data = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        for line in data.decode("utf-8", errors="replace").splitlines():
            try:
                found.append(kind.model_validate_json(line))
            except ValidationError:
                continue
    return found
