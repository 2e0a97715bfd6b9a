"""Measuring recorded candidates again, and how far two recordings of the same candidates are apart."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from costmodel import Attention, Batch, Record
from executors.outcome import Candidate
from executors.sweeps.runner import Task
from executors.sweeps.sets import Workload

EACH = 8
"""Candidates of one workload that are measured again at most, so that many workloads are among them."""
LEAST_US = 10.0
"""Shorter kernels are left out of the comparison: there a tenth of a microsecond is a per cent."""
_Key = tuple[Attention, Batch, str]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two recordings of the same candidates are apart, as shares of the first."""

    rows: int
    median: float
    p90: float
    shift: float
    """Median of the signed differences: whether everything became slower."""

    def __str__(self) -> str:
        return (
            f"{self.rows} candidates of at least {LEAST_US:g} us in both: median difference {self.median:.2%}, "
            f"p90 {self.p90:.2%}, median shift {self.shift:+.2%}"
        )


def recorded_tasks(records: Iterable[Record], *, rows: int, seed: int) -> list[Task]:
    """Draw workloads from records, and candidates of each, until there are `rows`."""
    random = Random(seed)
    known: dict[tuple[Attention, Batch], list[Candidate]] = {}
    for record in records:
        if record.outcome == "measured":
            key = (record.to_attention(), record.to_batch())
            known.setdefault(key, []).append(Candidate(record.backend, record.knobs))
    tasks: list[Task] = []
    for attention, batch in random.sample(list(known), len(known)):
        if rows <= 0:
            break
        unique = list({c.key: c for c in known[attention, batch]}.values())
        found = random.sample(unique, min(EACH, len(unique), rows))
        rows -= len(found)
        tasks.append((Workload(attention, batch, 0, tuple(found)), found))
    return tasks


def agreement(before: Iterable[Record], after: Iterable[Record]) -> Agreement:
    """Compare two recordings.

    Raises:
        ValueError: They have no measured candidate of at least `LEAST_US` in common.
    """
    old, new = _latencies(before), _latencies(after)
    pairs = [(old[key], new[key]) for key in old.keys() & new.keys() if old[key] >= LEAST_US]
    if not pairs:
        raise ValueError(f"the recordings share no measured candidate of at least {LEAST_US:g} us")
    signed = [b / a - 1 for a, b in pairs]
    apart = sorted(abs(x) for x in signed)
    return Agreement(len(apart), statistics.median(apart), _p90(apart), statistics.median(signed))


def _latencies(records: Iterable[Record]) -> dict[_Key, float]:
    found: dict[_Key, float] = {}
    for record in records:
        if record.outcome == "measured" and record.latency_us is not None:
            key = (record.to_attention(), record.to_batch(), Candidate(record.backend, record.knobs).key)
            found[key] = record.latency_us
    return found


def _p90(ordered: Sequence[float]) -> float:
    return ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
