"""How one run of a candidate ends: measured, rejected or failed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

FailureKind = Literal["incorrect", "oom", "timeout", "crashed"]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How far an output is from the float64 reference."""

    max_error: float
    """Largest absolute difference from the reference, in the checked row that uses most of its tolerance."""
    tolerance: float
    """That row's tolerance, derived from the reference's own error when computed in the low precision."""
    deterministic: bool | None = None
    """Two runs agree bit for bit; None where only one was made."""
    checked: float = 1.0
    """Rows compared over all rows."""

    @property
    def correct(self) -> bool:
        """Whether the output is within tolerance (NaN is not)."""
        return self.max_error <= self.tolerance


@dataclass(frozen=True, slots=True)
class Conditions:
    """State of the device during timing; None where it cannot be read."""

    sm_clock_hz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle: tuple[str, ...] = ()
    busy: str | None = None
    """Why the machine was not quiet, in words."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A correct result with its times."""

    seconds: tuple[float, ...]
    """Latency of each repeat, as the contract defines it."""
    accuracy: Accuracy
    eager_seconds: float | None = None
    plan_seconds: float | None = None
    write_seconds: float | None = None
    compile_seconds: float | None = None
    cold: bool = True
    path: str | None = None
    conditions: Conditions = field(default=Conditions())
    sustained_seconds: float | None = None
    """Latency after a while of nothing else, at the clocks that the device then holds; None where not asked for."""
    step_seconds: float | None = None
    """Plan, then KV write and call of every layer of the batch; None where the batch has one layer."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The backend cannot run this; expected, not an error."""

    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The backend ran and did not give a usable result."""

    kind: FailureKind
    message: str
    accuracy: Accuracy | None = None


Outcome = Measured | Rejected | Failed


@dataclass(frozen=True, slots=True)
class Candidate:
    """One backend with its knobs."""

    backend: str
    knobs: Mapping[str, int | float | str | bool | None]

    @property
    def key(self) -> str:
        """A stable text that names the candidate: `fa3[num_splits=4]`."""
        knobs = ",".join(f"{k}={self.knobs[k]}" for k in sorted(self.knobs))
        return f"{self.backend}[{knobs}]"
