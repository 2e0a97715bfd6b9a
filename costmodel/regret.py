"""What choosing without measuring costs: the measured time of the model's choice over that of the best."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.accuracy import Row, grouped
from costmodel.splits import SPLIT_KNOB, is_worth_asking, own_choice
from costmodel.workload import workload_key

LEAST_COUNTS = 3
"""Split counts that a workload needs for its choice to be judged."""
SLOWER = 1.03
"""Chosen over default time beyond which a choice counts as slower."""


@dataclass(frozen=True, slots=True)
class Regret:
    """Loss of a choice over several workloads."""

    workloads: int
    mean: float
    """Geometric mean of chosen over best measured time."""
    worst: float
    top1: float
    """Share of workloads where the choice is within the noise of the best."""
    default: float | None = None
    """The same mean for the library's own choice, where it was measured."""
    worst_against_default: float | None = None
    """Largest chosen over default time."""
    slower: int = 0
    """Choices that are more than 3 % slower than the library's own."""


def choice_regret(rows: Iterable[Row]) -> Regret | None:
    """Judge the choice of backend and knobs over the workloads where several candidates were measured."""
    groups = grouped(rows, lambda r: (workload_key(r.attention, r.batch),))
    return _regret([g for g in groups.values() if len({r.backend for r in g}) > 1], lambda g: None)


def split_regret(rows: Iterable[Row]) -> Regret | None:
    """Judge the choice of a split count within each backend, against the best of the measured counts."""
    splittable = [r for r in rows if r.backend in SPLIT_KNOB]
    groups = grouped(splittable, lambda r: (r.backend, workload_key(r.attention, r.batch)))
    return _regret([g for g in groups.values() if len(g) >= LEAST_COUNTS], _default)


def worth_asking(rows: Sequence[Row]) -> list[Row]:
    """Leave out split counts that do not beat the library's own choice, other knobs equal, beyond the model's doubt."""
    own = {_all_but_splits(r): r.prediction.seconds for r in rows if r.backend in SPLIT_KNOB and _is_own_choice(r)}
    return [r for r in rows if _stands(r, own.get(_all_but_splits(r)))]


def _stands(row: Row, own_seconds: float | None) -> bool:
    if own_seconds is None or _is_own_choice(row):
        return True
    return is_worth_asking(row.prediction.seconds, own_seconds, row.split_doubt)


def _all_but_splits(row: Row) -> tuple[str, ...]:
    set_by = own_choice(row.backend) if row.backend in SPLIT_KNOB else {}
    return (row.backend, *(f"{knob}={value}" for knob, value in sorted(row.knobs.items()) if knob not in set_by))


def _is_own_choice(row: Row) -> bool:
    return all(row.knobs.get(knob, value) == value for knob, value in own_choice(row.backend).items())


def _default(rows: Sequence[Row]) -> Row | None:
    return next((r for r in rows if _is_own_choice(r)), None)


def _regret(groups: Sequence[Sequence[Row]], default: Callable[[Sequence[Row]], Row | None]) -> Regret | None:
    if not groups:
        return None
    losses, hits, defaults, against = [], [], [], []
    for rows in groups:
        best = min(rows, key=lambda r: r.measured)
        chosen = min(worth_asking(rows), key=lambda r: (r.prediction.seconds, r.prediction.num_splits))
        losses.append(chosen.measured / best.measured)
        hits.append(chosen.measured <= best.measured * (1 + max(best.noise, 0.01)))
        own = default(rows)
        if own is not None:
            defaults.append(own.measured / best.measured)
            against.append(chosen.measured / own.measured)
    return Regret(
        workloads=len(losses),
        mean=float(np.exp(np.mean(np.log(losses)))),
        worst=max(losses),
        top1=float(np.mean(hits)),
        default=float(np.exp(np.mean(np.log(defaults)))) if defaults else None,
        worst_against_default=max(against) if against else None,
        slower=sum(ratio > SLOWER for ratio in against),
    )
