"""Recorded workloads with the time of every candidate: what searches are replayed on."""

import hashlib
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from costmodel import Attention, Batch, KnobValue, Prediction
from executors.outcome import Candidate, Measured
from executors.recordings import read_records
from executors.replay import ReplayMeasurer
from hwprofiles import Profile, load_profile
from tuner.noise import timing
from tuner.predictions import predict_all
from tuner.space import Space, pick_default
from tuner.spec import spec_of
from tuner.workload import Workload

SGLANG_ON_HOPPER = ("fa3", "flashmla", "triton")
"""What SGLang chooses there by itself, first choice first."""
CUTOFF = 0.95
"""Part of the way from the median candidate to the best that random search goes while methods are scored."""


@dataclass(frozen=True)
class Case:
    """One recorded workload; the recorded medians count as the true times."""

    workload: Workload
    space: Space
    seconds: dict[str, float]
    profile: Profile

    @property
    def key(self) -> tuple[Attention, Batch]:
        """The call."""
        return self.workload.attention, self.workload.batch

    @property
    def best(self) -> float:
        """Seconds of the fastest candidate."""
        return min(self.seconds.values())

    @cached_property
    def fingerprint(self) -> str:
        """Name the workload by what was recorded: a search without a model depends on nothing else."""
        what = (self.workload.attention, self.workload.batch, self.space.default.key, sorted(self.seconds.items()))
        return hashlib.sha256(repr(what).encode()).hexdigest()[:16]

    def candidate(self, backend: str, knobs: Mapping[str, KnobValue]) -> Candidate | None:
        """The candidate with these knobs; None where it is none."""
        return self._by_key.get(Candidate(backend, knobs).key)

    @cached_property
    def _by_key(self) -> dict[str, Candidate]:
        return self.space.by_key()

    @cached_property
    def predictions(self) -> dict[str, Prediction | None]:
        """The model's estimates by key."""
        return dict(predict_all(self.workload, self.space.candidates, self.profile))

    @cached_property
    def random_search(self) -> list[float]:
        """Expected best time after 1, 2, ... random candidates without repeats, up to the cutoff."""
        ordered = sorted(self.seconds.values())
        least = ordered[0] + (1 - CUTOFF) * (statistics.median(ordered) - ordered[0])
        expected: list[float] = []
        while len(expected) < len(ordered) - 1 and (not expected or expected[-1] > least):
            k = len(expected) + 1
            chances = [math.comb(len(ordered) - i, k - 1) for i in range(1, len(ordered) + 1)]
            expected.append(sum(c * s for c, s in zip(chances, ordered, strict=True)) / math.comb(len(ordered), k))
        return expected


def load_cases(records: Path, least: int) -> Iterator[Case]:
    """Read the workloads with at least so many candidates that have a time, of the device with the most records."""
    loaded = read_records(records).records
    counts = Counter(r.device.name for r in loaded)
    device = max(counts, key=lambda name: counts[name], default=None)
    measurer = ReplayMeasurer([r for r in loaded if r.device.name == device], spread=0.0)
    profile = load_profile(measurer.environment().name)
    for attention, batch in measurer.workloads():
        case = _case(measurer, attention, batch, profile)
        if case is not None and len(case.space) >= least:
            yield case


def _case(measurer: ReplayMeasurer, attention: Attention, batch: Batch, profile: Profile) -> Case | None:
    candidates = measurer.candidates(attention, batch, profile)
    outcomes = measurer.measure(attention, batch, candidates, seed=0, repeats=7)
    seconds = {key: timing(o.seconds).seconds for key, o in outcomes.items() if isinstance(o, Measured)}
    usable = _same_knobs([c for c in candidates if c.key in seconds])
    if not usable:
        return None
    space = Space(usable, pick_default(usable, SGLANG_ON_HOPPER))
    return Case(Workload(attention, batch, spec_of(batch)), space, {c.key: seconds[c.key] for c in usable}, profile)


def _same_knobs(candidates: list[Candidate]) -> tuple[Candidate, ...]:
    """Those with the knob names of their backend's default."""
    names = {c.backend: c.knobs.keys() for c in reversed(candidates)}
    return tuple(c for c in candidates if c.knobs.keys() == names[c.backend])
