"""Whether the bound that the model names is the one that a recorded change moves: more splits at the same bytes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from costmodel.accuracy import Row, grouped
from costmodel.machine import Machine
from costmodel.prediction import Bound
from costmodel.splits import SPLIT_KNOB
from costmodel.workload import workload_key

MORE = 2
"""The row to compare with has at least so many times the splits."""
FALLS, STAYS = 0.85, 0.97
"""Twice the splits make it faster, or do not: between them nothing is decided."""
BUSY_MEMORY, BUSY_COMPUTE = 0.65, 0.45
"""Share of the datasheet rate from which a row that splits do not move is bound by it."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often the named bound is the one that the records show."""

    rows: int
    agreeing: int

    @property
    def share(self) -> float:
        """Share of the decided rows."""
        return self.agreeing / self.rows


def bound_agreement(rows: Iterable[Row], machine: Machine) -> Agreement | None:
    """Compare predicted bounds with what twice the splits did to the measured time; None where nothing is decided."""
    decided = [
        (row.prediction.bound, shown)
        for group in grouped((r for r in rows if r.backend in SPLIT_KNOB), _same_but_splits).values()
        for row, shown in _shown(group, machine)
    ]
    if not decided:
        return None
    return Agreement(len(decided), sum(_class(named) == shown for named, shown in decided))


def _shown(group: list[Row], machine: Machine) -> Iterator[tuple[Row, Bound]]:
    by_splits = {row.prediction.num_splits: row for row in sorted(group, key=lambda r: -r.measured)}
    for splits, row in by_splits.items():
        more = [s for s in by_splits if s >= MORE * splits]
        if not more:
            continue
        change = by_splits[min(more)].measured / row.measured
        if change < FALLS:
            yield row, "latency"
        elif change > STAYS:
            if row.prediction.dram_bytes / row.measured > BUSY_MEMORY * machine.memory_bytes_per_s:
                yield row, "memory"
            elif row.prediction.flops / row.measured > BUSY_COMPUTE * machine.matrix_rate(row.attention.dtype):
                yield row, "compute"


def _same_but_splits(row: Row) -> tuple[str, ...]:
    own = SPLIT_KNOB[row.backend]
    others = (f"{name}={value}" for name, value in sorted(row.knobs.items()) if name != own)
    return (row.backend, workload_key(row.attention, row.batch), *others)


def _class(bound: Bound) -> Bound:
    return "compute" if bound == "softmax" else bound
