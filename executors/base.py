"""The interface every backend implements: reject with reasons, name its knobs, prepare a call that is then timed."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

from costmodel import Attention, Batch
from executors.outcome import Candidate
from hwprofiles import Profile

if TYPE_CHECKING:
    import torch

    from executors.inputs import Inputs

KnobValue = int | float | str | bool | None
Knobs = Mapping[str, KnobValue]


@dataclass(frozen=True, slots=True)
class Knob:
    """One knob of a backend for one workload and device."""

    name: str
    values: tuple[KnobValue, ...]
    """Default first."""
    via: str = "library"
    """`sglang_flag`, `sglang_env` or `library`."""


@dataclass(slots=True)
class Prepared:
    """A planned, compiled and allocated call; only `run` is timed as latency."""

    run: Callable[[int], "torch.Tensor"]
    """Runs on KV copy `slot` (see `Inputs.slots`); returns `[total_q, num_qo_heads, value_dim]`."""
    plan: Callable[[], Any] | None = None
    """Host work of one forward step, shared by all layers; None where the backend has none."""
    compile_seconds: float = 0.0
    path: str | None = None
    """Library path that runs, where it is known."""
    capturable: bool = True
    """Whether `run` can be captured in a CUDA graph."""
    replannable: bool = True
    """Whether a captured `run` stays valid when `plan` is called again; False where planning makes new buffers."""
    workspace_bytes: int | None = None
    threads: int | None = None
    """CPU threads that `run` is meant for; None takes all cores."""
    keep: Sequence[Any] = ()
    """Objects that must live as long as the call."""


class Backend(ABC):
    """One attention backend; one file in `executors/backends/` and one line in `executors/registry.py`."""

    name: ClassVar[str]
    phases: ClassVar[frozenset[str]]
    devices: ClassVar[frozenset[str]] = frozenset({"cuda"})
    dtypes: ClassVar[frozenset[str]] = frozenset({"bf16", "fp16"})
    kv_dtypes: ClassVar[frozenset[str]] = frozenset({"bf16", "fp16"})
    install_hint: ClassVar[str] = ""
    """The pip command that brings the library."""

    @abstractmethod
    def implementation(self) -> tuple[str, str] | None:
        """Library and version that would run, or None where it is not installed (no heavy import)."""

    def implementation_for(self, attention: Attention, batch: Batch, knobs: Knobs) -> tuple[str, str] | None:
        """Name the library and version that run one workload, where a backend has several to choose from."""
        return self.implementation()

    def reject(self, attention: Attention, batch: Batch, profile: Profile) -> list[str]:
        """Say all reasons why this workload cannot run on this device; empty where it can."""
        reasons = []
        device = "cpu" if profile.kind == "cpu" else "cuda" if profile.vendor == "NVIDIA" else profile.vendor
        if device not in self.devices:
            reasons.append(f"runs on {', '.join(sorted(self.devices))}, not on {profile.name}")
        if batch.phase not in self.phases:
            reasons.append(f"phase {batch.phase} not among {', '.join(sorted(self.phases))}")
        if attention.dtype not in self.dtypes:
            reasons.append(f"dtype {attention.dtype} not among {', '.join(sorted(self.dtypes))}")
        if attention.kv_dtype not in self.kv_dtypes:
            reasons.append(f"KV dtype {attention.kv_dtype} not among {', '.join(sorted(self.kv_dtypes))}")
        if batch.shared_prefix:
            reasons.append("pages shared by requests are estimated only, not run")
        return reasons

    @abstractmethod
    def knobs(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Knob, ...]:
        """Name the knobs that change this workload's run on this device, defaults first."""

    def allows(self, attention: Attention, batch: Batch, knobs: Knobs) -> bool:
        """Say whether these knob values make sense together; combinations that do not are never candidates."""
        return True

    def points(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Candidate, ...]:
        """List every combination of knob values that makes sense, the default first."""
        space = self.knobs(attention, batch, profile)
        names = [knob.name for knob in space]
        points = (dict(zip(names, values, strict=True)) for values in product(*(knob.values for knob in space)))
        return tuple(Candidate(self.name, point) for point in points if self.allows(attention, batch, point))

    def candidates(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Candidate, ...]:
        """List the points that can run here, the default first; empty where the backend is missing or rejects."""
        if self.implementation() is None or self.reject(attention, batch, profile):
            return ()
        return self.points(attention, batch, profile)

    @abstractmethod
    def prepare(self, inputs: "Inputs", knobs: Knobs) -> Prepared:
        """Allocate, compile and plan.

        Raises:
            ValueError: A knob is unknown or out of range.
        """
