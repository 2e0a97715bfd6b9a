"""One row of a tuned configuration: what wins for one batch, by how much, and how that is known."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from costmodel import Batch, KnobValue, Phase, parse_batch_spec
from executors.outcome import Candidate
from tuner.point import Point

Status = Literal["measured", "partial", "unstable", "predicted", "untuned", "other_version"]


class Frozen(BaseModel):
    """A value read from or written to a file; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Choice(Frozen):
    """One backend with its knobs and its times, microseconds."""

    backend: str
    implementation: str
    implementation_version: str
    knobs: dict[str, KnobValue] = Field(default_factory=dict)
    sglang: bool = False
    """Whether SGLang's flags and environment reach it."""
    predicted_us: float | None = Field(default=None, gt=0)
    low_us: float | None = Field(default=None, gt=0)
    high_us: float | None = Field(default=None, gt=0)
    measured_us: float | None = Field(default=None, gt=0)
    p10_us: float | None = Field(default=None, gt=0)
    p90_us: float | None = Field(default=None, gt=0)
    repeats: int = 0
    plan_us: float | None = None
    eager_us: float | None = None

    @property
    def candidate(self) -> Candidate:
        """Backend and knobs."""
        return Candidate(self.backend, dict(self.knobs))

    @property
    def latency_us(self) -> float | None:
        """Measured latency, else the predicted one."""
        return self.measured_us if self.measured_us is not None else self.predicted_us

    @property
    def error(self) -> float | None:
        """Predicted over measured, minus one."""
        if self.measured_us is None or self.predicted_us is None:
            return None
        return self.predicted_us / self.measured_us - 1


class Tried(Frozen):
    """One measured candidate, microseconds."""

    measured_us: float = Field(gt=0)
    predicted_us: float | None = Field(default=None, gt=0)


class Counts(Frozen):
    """How many candidates there were and what became of them."""

    candidates: int
    measured: int = 0
    failed: int = 0
    """Rejected at run time, incorrect, out of memory, timed out or crashed."""
    skipped: int = 0
    """Not run because their interval cannot win, or because their backend had failed with other knobs."""
    left: int = 0
    """Not run because a better one is not worth the cost, or the budget ended."""

    def __str__(self) -> str:
        text = f"{self.measured} of {self.candidates} measured"
        parts = (("failed", self.failed), ("skipped", self.skipped), ("left", self.left))
        return ", ".join([text, *(f"{n} {name}" for name, n in parts if n)])


class Row(Frozen):
    """The answer for one batch."""

    phase: Phase
    batch_size: int = Field(ge=1)
    q_len: int = Field(ge=1)
    """Mean new tokens of a request."""
    kv_len: int = Field(ge=1)
    """Mean visible tokens of a request."""
    max_kv_len: int = Field(ge=1)
    topk: int = Field(default=1, ge=1)
    spec: str
    """The batch in vLLM's grammar."""
    layers: int = 1
    best: Choice
    best_sglang: Choice | None = None
    runner_up: Choice | None = None
    sglang_default: Choice | None = None
    gain: float | None = None
    """Time of the default over that of the best of the serving libraries, measured; 1 where the default is kept."""
    own_gain: float | None = None
    """The same for the project's own kernels, where they are the best: never counted as a gain over the libraries."""
    noise: float | None = None
    """Relative half-width of the comparison with the default."""
    status: Status
    counts: Counts
    tried: dict[str, Tried] = Field(default_factory=dict)
    """Every measured candidate."""
    notes: tuple[str, ...] = ()
    failures: dict[str, str] = Field(default_factory=dict)
    """Candidate or backend to why it gave no time."""

    @property
    def ragged(self) -> bool:
        """Whether the requests differ in length."""
        return self.max_kv_len != self.kv_len

    @property
    def key(self) -> str:
        """Key in the row's table, see `Point.key`."""
        return self.point.key

    @property
    def point(self) -> Point:
        """The batch reduced to the numbers that key the table."""
        return Point(self.phase, self.batch_size, self.q_len, self.kv_len, self.max_kv_len, self.topk)

    @property
    def versions(self) -> dict[str, tuple[str, str]]:
        """Backend to the implementation and version that its times come from."""
        choices = (self.best, self.best_sglang, self.runner_up, self.sglang_default)
        return {c.backend: (c.implementation, c.implementation_version) for c in choices if c is not None}

    def batch(self, page_size: int) -> Batch:
        """The batch itself, over pages of that many tokens."""
        batch = parse_batch_spec(self.spec, page_size=page_size, phase=self.phase)
        return Batch(batch.phase, batch.q_lens, batch.kv_lens, page_size, self.topk)

    def dump(self) -> dict[str, Any]:
        """The row as JSON values, empty fields left out."""
        return self.model_dump(mode="json", exclude_defaults=True)
