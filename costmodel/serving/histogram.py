"""Percentiles of a stream in flat memory."""

import math
from collections import defaultdict
from dataclasses import dataclass

RESOLUTION = 0.005
"""Relative width of a bin: percentiles are exact to half of it."""
_SCALE = 1 / math.log1p(RESOLUTION)
SMALLEST = 1e-9


@dataclass(frozen=True, slots=True)
class Summary:
    """A distribution in a few numbers."""

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    largest: float


class Histogram:
    """Counts over logarithmic bins."""

    def __init__(self) -> None:
        self._bins: defaultdict[int, int] = defaultdict(int)
        self._count = 0
        self._sum = 0.0
        self._largest = 0.0

    def add(self, value: float, count: int = 1) -> None:
        """Count a value of at least 0, `count` times."""
        self._bins[int(math.log(value / SMALLEST) * _SCALE) if value > SMALLEST else 0] += count
        self._count += count
        self._sum += value * count
        if value > self._largest:
            self._largest = value

    def quantile(self, share: float) -> float:
        """Give the value below which a share of the counts lies; 0 without counts."""
        wanted, seen = share * self._count, 0
        for index in sorted(self._bins):
            seen += self._bins[index]
            if seen >= wanted:
                middle = SMALLEST * math.exp((index + 0.5) / _SCALE)
                return 0.0 if index == 0 else min(self._largest, middle)
        return 0.0

    def summary(self) -> Summary:
        """Summarize what was counted."""
        mean = self._sum / self._count if self._count else 0.0
        p50, p90, p95, p99 = (self.quantile(share) for share in (0.5, 0.9, 0.95, 0.99))
        return Summary(self._count, mean, p50, p90, p95, p99, self._largest)
