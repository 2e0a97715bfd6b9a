"""From a table to what a server can be told: one choice for prefill and one for decode, and what that loses."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from executors.outcome import Candidate
from tuner.configuration import Configuration
from tuner.row import Choice, Row
from tuner.traffic import Traffic, name_of, row_weights


class NothingReachable(ValueError):
    """No choice of the table can be told to the server."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """One choice for a side of the server, over the rows it serves."""

    choice: Choice
    rows: int
    estimated: int
    """Rows where it was not measured: the model says, moved by its measurements in other rows."""
    missing: int
    """Rows where nothing is known; they are left out of the loss."""
    loss: float
    """Time over that of each row's best choice, minus one."""
    loss_to_sglang: float
    """Time over that of each row's best choice that SGLang reaches, minus one."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What one server can be told."""

    prefill: Reduced | None
    decode: Reduced | None
    loss: float
    """Of both sides together, weighted by their time in the traffic."""
    evenly: bool
    """Whether rows were weighted evenly, for want of a traffic."""


Estimate = Callable[[Row, Candidate], float | None]
"""Microseconds of a candidate in a row where it was not measured; None where nothing is known."""


def reduce_to_pair(
    configuration: Configuration, traffic: Traffic | None = None, estimate: Estimate = lambda row, candidate: None
) -> Pair:
    """Choose the pair of backends with the least time over a traffic.

    Args:
        configuration: The table.
        traffic: How often a server makes each call; without one every row counts alike.
        estimate: Fills in what was not measured.

    Raises:
        NothingReachable: No row has a choice that SGLang's flags reach.
    """
    weights = row_weights(configuration.rows, traffic)
    prefill = _reduce([*configuration.extend.values(), *configuration.mixed.values()], weights, estimate)
    decode = _reduce(list(configuration.decode.values()), weights, estimate)
    if prefill is None and decode is None:
        raise NothingReachable("no row of the configuration holds a choice that SGLang's flags reach")
    sides = [side for side in (prefill, decode) if side is not None]
    best = sum(side.best_time for side in sides)
    loss = sum(side.time for side in sides) / best - 1 if best > 0 else 0.0
    return Pair(prefill.reduced if prefill else None, decode.reduced if decode else None, loss, traffic is None)


@dataclass(frozen=True, slots=True)
class _Side:
    reduced: Reduced
    time: float
    best_time: float


def _reduce(rows: list[Row], weights: Mapping[str, float], estimate: Estimate) -> _Side | None:
    rows = [row for row in rows if row.best_sglang is not None and row.best.latency_us]
    used = [row for row in rows if weights[name_of(row)] > 0] or rows
    choices = {c.candidate.key: c for row in rows for c in _reachable(row)}
    sides = [_evaluate(choice, used, weights, estimate) for choice in choices.values()]
    return min(
        (side for side in sides if side is not None),
        key=lambda side: (side.reduced.missing, side.reduced.loss),
        default=None,
    )


def _reachable(row: Row) -> Iterable[Choice]:
    return [c for c in (row.sglang_default, row.best_sglang, row.best, row.runner_up) if c is not None and c.sglang]


def _evaluate(choice: Choice, rows: list[Row], weights: Mapping[str, float], estimate: Estimate) -> _Side | None:
    time = best = sglang = 0.0
    estimated = missing = 0
    for row in rows:
        own = _latency(row, choice.candidate)
        if own is None:
            own = estimate(row, choice.candidate)
            estimated += own is not None
        if own is None:
            missing += 1
            continue
        weight = weights[name_of(row)] or 1.0
        time += weight * own
        best += weight * (row.best.latency_us or own)
        sglang += weight * ((row.best_sglang.latency_us if row.best_sglang else None) or own)
    if time == 0.0:
        return None
    reduced = Reduced(choice, len(rows), estimated, missing, time / best - 1, time / sglang - 1)
    return _Side(reduced, time, best)


def _latency(row: Row, candidate: Candidate) -> float | None:
    if candidate.key in row.tried:
        return row.tried[candidate.key].measured_us
    known = (c for c in _reachable(row) if c.candidate.key == candidate.key)
    return next((c.latency_us for c in known if c.latency_us), None)
