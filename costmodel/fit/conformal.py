"""Split conformal prediction: 90 % intervals from errors on rows that the fit has not seen, per regime."""

from collections.abc import Mapping, Sequence
from math import ceil, exp

COVERAGE = 0.9
LEAST_ROWS = 20
"""Rows that a regime needs for an interval of its own; smaller ones take the interval of all rows, if wider."""


def intervals(errors: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, float]]:
    """Give each regime's interval as factors on the estimate.

    Args:
        errors: Regime to logs of measured over predicted, of rows that were not fitted.

    Returns:
        Regime to `(low, high)`, and `all` for regimes that are not named.
    """
    everything = [e for rows in errors.values() for e in rows]
    common = half_width(everything)
    widths = {"all": common}
    for regime, rows in errors.items():
        own = half_width(rows)
        widths[regime] = own if len(rows) >= LEAST_ROWS else max(own, common)
    return {regime: (exp(-width), exp(width)) for regime, width in sorted(widths.items())}


def half_width(errors: Sequence[float]) -> float:
    """Give the conformal quantile of absolute log errors; the largest where there are too few rows for it."""
    if not errors:
        return 1.0
    ordered = sorted(abs(e) for e in errors)
    rank = ceil((len(ordered) + 1) * COVERAGE)
    return ordered[min(rank, len(ordered)) - 1]
