"""What it costs to run one candidate: preparing, compiling, checking and repeating, in seconds."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from executors.outcome import Candidate, Measured

_COMPILE_GUESS = {"flex_attention": 15.0, "attnroof_triton": 2.0, "triton": 1.0, "fa4": 10.0}
"""Seconds before any was seen; replaced by what this run sees."""
_OVERHEAD = {"cpu": 0.3, "cuda": 0.2}
_CALLS = {"cpu": 1, "cuda": 32}
"""Calls behind one repeat."""


@dataclass(slots=True)
class TrialCost:
    """Expected seconds of a trial on one device, learnt while the run goes on."""

    kind: str
    """`cpu` or `cuda`."""
    repeats: int
    _compile: dict[str, list[float]] = field(default_factory=dict)

    def compiled(self) -> None:
        """Take it that kernels were compiled beforehand, until a trial shows otherwise."""
        self._compile = {backend: [0.0] for backend in _COMPILE_GUESS}

    def seen(self, candidate: Candidate, outcome: Measured) -> None:
        """Learn from one measurement."""
        if outcome.compile_seconds is not None:
            self._compile.setdefault(candidate.backend, []).append(outcome.compile_seconds)

    def expect(self, candidate: Candidate, seconds: float) -> float:
        """Seconds that a trial of this candidate takes, given the latency of one call."""
        seen = self._compile.get(candidate.backend, [])
        compiling = sum(seen) / len(seen) if seen else _COMPILE_GUESS.get(candidate.backend, 0.0)
        return _OVERHEAD.get(self.kind, 0.3) + compiling + (self.repeats + 2) * _CALLS.get(self.kind, 1) * seconds

    def fitting(self, candidates: Iterable[tuple[Candidate, float]], seconds: float) -> list[Candidate]:
        """Those that a time is enough for, one after the other, each with the latency of one call."""
        chosen = []
        for candidate, latency in candidates:
            needed = self.expect(candidate, latency)
            if needed <= seconds:
                chosen.append(candidate)
                seconds -= needed
        return chosen

    def total(self, candidates: Iterable[tuple[Candidate, float]]) -> float:
        """Seconds that several trials take."""
        return sum(self.expect(candidate, seconds) for candidate, seconds in candidates)
