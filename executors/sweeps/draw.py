"""Random workload shapes: lengths on and off the powers of two, uniform and ragged batches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from costmodel import Attention, Batch

PAGES = (1, 64)
RAGGED_SIGMA = 0.8
"""Spread of the logarithm of lengths in a ragged batch."""


@dataclass(frozen=True, slots=True)
class Span:
    """Inclusive range of a length or count, drawn evenly in its logarithm."""

    low: int
    high: int

    def draw(self, random: Random, *, off_grid: float = 0.5) -> int:
        """Draw a power of two, or any whole number with probability `off_grid`."""
        exponent = random.uniform(math.log2(self.low), math.log2(self.high))
        value = 2**exponent if random.random() < off_grid else 2 ** round(exponent)
        return min(self.high, max(self.low, round(value)))


def lengths(random: Random, count: int, mean: int, *, ragged: bool, low: int = 1) -> tuple[int, ...]:
    """Give `count` KV lengths: all `mean`, or log-normal around it and clipped to four times the mean."""
    if not ragged or count == 1:
        return (mean,) * count
    shift = math.log(mean) - RAGGED_SIGMA**2 / 2
    return tuple(max(low, min(4 * mean, round(random.lognormvariate(shift, RAGGED_SIGMA)))) for _ in range(count))


def fits(attention: Attention, batch: Batch, cache_bytes: int) -> bool:
    """Whether one copy of the KV cache stays within `cache_bytes`."""
    return batch.total_kv * attention.kv_bytes_per_token <= cache_bytes


def pick(random: Random, options: Sequence[Attention], weights: Sequence[float] | None = None) -> Attention:
    """Choose one layer."""
    return random.choices(list(options), weights)[0]
