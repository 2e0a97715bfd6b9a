"""What repeated times say: a median, how sure it is, whether two differ, and whether the device was steady."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_RANGE_TO_SIGMA = {2: 1.128, 3: 1.693, 4: 2.059}
"""Mean range of n normal samples in units of their standard deviation (d2 of control charts)."""
_IQR_TO_SIGMA = 1.349
_MEDIAN_ERROR = math.sqrt(math.pi / 2)
"""Standard error of a median over that of a mean, normal samples."""
_T95 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753)
"""One-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom."""
_DRIFT = 0.05
_MODES = 0.05


@dataclass(frozen=True, slots=True)
class Timing:
    """Repeated times of one candidate."""

    seconds: float
    """Median."""
    error: float
    """Half-width of the median's one-sided 95 % bound, seconds; infinite for a single repeat."""
    p10: float
    p90: float
    repeats: int

    @property
    def noise(self) -> float:
        """Half-width over the median."""
        return self.error / self.seconds if self.seconds > 0 else math.inf


def timing(seconds: Sequence[float]) -> Timing:
    """Reduce repeats to a median and its uncertainty.

    Raises:
        ValueError: There are no repeats.
    """
    if not seconds:
        raise ValueError("seconds is empty: a timing needs at least one repeat")
    ordered = sorted(seconds)
    n = len(ordered)
    t = _T95[min(n - 1, len(_T95)) - 1] if n > 1 else math.inf
    error = t * _MEDIAN_ERROR * _sigma(ordered) / math.sqrt(n) if n > 1 else math.inf
    return Timing(statistics.median(ordered), error, _quantile(ordered, 0.1), _quantile(ordered, 0.9), n)


def gain(challenger: Sequence[float], default: Sequence[float]) -> Timing:
    """Time of the challenger over that of the default, with its uncertainty.

    Repeats that were taken in the same rounds are compared round by round, which cancels what slows a whole round
    down (clocks, neighbours); others are compared by their medians.
    """
    if len(challenger) == len(default) and len(default) > 1:
        return timing([c / d for c, d in zip(challenger, default, strict=True)])
    a, b = timing(challenger), timing(default)
    ratio = a.seconds / b.seconds
    error = ratio * math.hypot(a.noise, b.noise)
    return Timing(ratio, error, a.p10 / b.seconds, a.p90 / b.seconds, min(a.repeats, b.repeats))


def beats(challenger: Sequence[float], default: Sequence[float]) -> bool:
    """Whether the challenger is faster than the default by more than the measured noise."""
    ratio = gain(challenger, default)
    return ratio.seconds + ratio.error < 1.0


def unsteady(seconds: Sequence[float]) -> str | None:
    """Say in words why repeats, in the order they were taken, do not describe one state of the device.

    Two kinds are found from six repeats on: a drift of more than 5 % in one direction, and two groups more than
    5 % apart with nothing between them.
    """
    n = len(seconds)
    if n < 6:
        return None
    third = n // 3
    first, last = statistics.median(seconds[:third]), statistics.median(seconds[-third:])
    if abs(last / first - 1) > _DRIFT and abs(_kendall(seconds)) > 0.7:
        return f"drifted by {100 * (last / first - 1):+.0f} % over the repeats"
    ordered = sorted(seconds)
    cut = max(range(1, n), key=lambda i: ordered[i] - ordered[i - 1])
    low, high = ordered[:cut], ordered[cut:]
    gap = high[0] - low[-1]
    if (
        min(len(low), len(high)) >= n / 4
        and gap > _MODES * low[-1]
        and gap > 3 * max(low[-1] - low[0], high[-1] - high[0])
    ):
        return f"two states, {1e6 * statistics.median(low):.1f} us and {1e6 * statistics.median(high):.1f} us"
    return None


def _sigma(ordered: Sequence[float]) -> float:
    n = len(ordered)
    if n in _RANGE_TO_SIGMA:
        return (ordered[-1] - ordered[0]) / _RANGE_TO_SIGMA[n]
    return (_quantile(ordered, 0.75) - _quantile(ordered, 0.25)) / _IQR_TO_SIGMA


def _quantile(ordered: Sequence[float], q: float) -> float:
    at = q * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


def _kendall(values: Sequence[float]) -> float:
    n = len(values)
    signs = sum((b > a) - (b < a) for i, a in enumerate(values) for b in values[i + 1 :])
    return 2 * signs / (n * (n - 1))
