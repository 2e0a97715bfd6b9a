"""Steps as sums of recorded parts: what is left is the cost of one kernel following another, and of long runs."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from costmodel import Incompatible, predict
from costmodel.serving.calibrated import SustainedFigures
from executors.steps.records import PartRecord, StepRecord
from executors.steps.shape import StackShape
from hwprofiles import Profile

CALLS = 1
"""Kernels of an attention call, at least."""
LEAST_ROWS = 5
LEAST_SLOWDOWN = 0.04
HALF_SECONDS = 100e-6
"""Length of a call that shows half of the slowdown; the rows on hand do not tell it apart from its double."""


@dataclass(frozen=True, slots=True)
class PartTimes:
    """Seconds of recorded parts by kind and size."""

    seconds: Mapping[tuple[str, int, int, int], float]

    @classmethod
    def of(cls, parts: Iterable[PartRecord]) -> "PartTimes":
        """Read them from records."""
        return cls({(p.part, p.n, p.k, p.tokens): (p.latency_us or 0.0) * 1e-6 for p in parts})

    def layer(self, shape: StackShape, tokens: int) -> list[float] | None:
        """Give the kernels of one layer of stored heads, attention left out; None where one was not recorded."""
        heads, hidden = 2 * shape.attention.num_kv_heads * shape.attention.head_dim, shape.hidden_size
        keys = [("gemm", product.n, product.k) for product in shape.weights.products]
        keys += [("norm", 4 * hidden, 0)] * 2 + [("gate", 3 * shape.product("down").k, 0)]
        keys += [("rotate", 2 * shape.product("qkv").n, 0), ("kv_write", 2 * heads, 0)]
        return self._all(keys, tokens)

    def ends(self, shape: StackShape, requests: int) -> list[float] | None:
        """Give head and choice; None where one was not recorded."""
        return self._all([("gemm", shape.vocab_size, shape.hidden_size), ("sample", shape.vocab_size, 0)], requests)

    def _all(self, keys: Sequence[tuple[str, int, int]], tokens: int) -> list[float] | None:
        found = [self.seconds.get((*key, tokens)) for key in keys]
        return None if None in found else [seconds for seconds in found if seconds is not None]


Shaped = tuple[StepRecord, StackShape]
"""A recorded step with the stack it ran on."""


def switch_seconds(steps: Iterable[Shaped], times: PartTimes) -> float:
    """Give what a kernel of a decode step takes longer than alone: the median of steps whose parts were recorded.

    Raises:
        ValueError: There is no such step.
    """
    left = []
    for record, shape in steps:
        batch = record.to_batch()
        layer, ends = times.layer(shape, batch.total_q), times.ends(shape, batch.size)
        if batch.phase == "decode" and layer is not None and ends is not None:
            total = record.layers * (sum(layer) + (record.attention_us or 0.0) * 1e-6) + sum(ends)
            kernels = record.layers * (len(layer) + CALLS) + len(ends)
            left.append(((record.latency_us or 0.0) * 1e-6 - total) / kernels)
    if not left:
        raise ValueError("no decode step whose parts were all recorded: the cost between kernels cannot be fitted")
    return max(0.0, statistics.median(left))


def sustained(steps: Iterable[Shaped], profile: Profile) -> dict[str, SustainedFigures]:
    """Fit how much longer recorded calls in long runs took than predicted bursts, by backend and phase.

    Only backends that are slower by more than `LEAST_SLOWDOWN` are kept; less is within the estimate's own error.
    """
    ratios: dict[str, list[tuple[float, float]]] = {}
    for record, shape in steps:
        batch = record.to_batch()
        if batch.phase == "mixed" or not record.attention_us:
            continue
        try:
            burst = predict(shape.attention, batch, backend=record.backend, profile=profile).seconds
        except Incompatible:
            continue
        share = burst / (burst + HALF_SECONDS)
        ratios.setdefault(f"{record.backend}.{batch.phase}", []).append((share, record.attention_us * 1e-6 / burst - 1))
    found = {key: _slope(rows) for key, rows in ratios.items() if len(rows) >= LEAST_ROWS}
    return {key: SustainedFigures(slope, HALF_SECONDS) for key, slope in found.items() if slope > LEAST_SLOWDOWN}


def _slope(rows: Sequence[tuple[float, float]]) -> float:
    """Least absolute deviations through the origin: the weighted median of the slopes."""
    slopes = sorted((y / x, x) for x, y in rows)
    half, seen = sum(x for _, x in slopes) / 2, 0.0
    for slope, weight in slopes:
        seen += weight
        if seen >= half:
            return slope
    return slopes[-1][0]
