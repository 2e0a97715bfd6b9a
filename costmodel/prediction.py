"""What the cost model answers: latency with its interval, its parts, its bound and what it rests on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from costmodel.attention import MlaForm
from costmodel.batch import Phase

Bound = Literal["memory", "compute", "softmax", "latency", "host"]
Evidence = Literal["measured", "calibrated", "others", "structure"]
KnobValue = int | float | str | bool | None
Knobs = Mapping[str, KnobValue]


@dataclass(frozen=True, slots=True)
class Prediction:
    """One estimate of one layer's attention call on one rank."""

    backend: str
    implementation: str
    implementation_version: str
    phase: Phase
    seconds: float
    """Device time of the call."""
    low: float
    """Lower end of the 90 % interval, seconds."""
    high: float
    """Upper end of the 90 % interval, seconds."""
    plan_seconds: float
    """Host time to prepare one forward step."""
    eager_seconds: float
    """The call launched from Python: the larger of host and device time."""
    bound: Bound
    num_splits: int
    """Largest number of KV splits of any request."""
    waves: float
    """Work items over the slots that run at once."""
    dram_bytes: float
    flops: float
    workspace_bytes: int
    knobs: Knobs
    breakdown: Mapping[str, float]
    """Part to seconds; adds up to `seconds`."""
    evidence: Evidence
    reason: str = ""
    """Why it takes this long, in words."""
    margin: float = 1.0
    """Time of the binding resource over that of the next one."""
    notes: tuple[str, ...] = field(default=())
    """Remarks on what was assumed."""
    mla_form: MlaForm | None = None
    """MLA: whether the call works on the latent or on expanded heads."""
    from_l2_seconds: float | None = None
    """A prefix that all requests read: device time if the L2 serves all but the first of them; None where it cannot."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One row of a ranking: a prediction, or why there is none."""

    backend: str
    knobs: Knobs
    prediction: Prediction | None
    reasons: tuple[str, ...] = ()
