"""Fit what products and the kernels between them cost to parts of steps that were measured one by one."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from costmodel.serving.calibrated import PassFigures, ProductFigures, Rates, rates_of
from hwprofiles import Profile

LOSS_SCALE = 0.05
"""Log errors beyond this weigh linearly."""
ENDS = (0.05, 0.95)
"""Quantiles of measured over predicted that make the 90 % interval."""
DIGITS = 4
PRODUCT = "gemm"
Bounds = dict[str, tuple[float, float, float]]
"""Parameter to start, least and greatest value."""
PRODUCT_BOUNDS: Bounds = {
    "floor_seconds": (2.5e-6, 2e-7, 2e-5),
    "bandwidth_fraction": (0.9, 0.3, 1.0),
    "matrix_fraction": (0.7, 0.2, 1.0),
    "join": (3.0, 1.0, 20.0),
    "depth_overhead": (50.0, 1.0, 1000.0),
    "column_bytes_per_s": (6e10, 1e9, 1e12),
    "split_seconds": (3e-6, 1e-7, 3e-5),
}
PASS_BOUNDS: Bounds = {
    "floor_seconds": (1.5e-6, 2e-7, 1e-4),
    "row_seconds": (1e-10, 1e-12, 1e-6),
    "cache_fraction": (1.7, 0.01, 4.0),
    "memory_fraction": (0.85, 0.01, 4.0),
}
Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class PartPoint:
    """One part measured alone."""

    kind: str
    """`gemm`, or a kind of kernel."""
    tokens: int
    n: int
    """Columns of a product; width of what a kernel moves."""
    k: int
    """Depth of a product."""
    bytes: float
    """Moved by a kernel."""
    seconds: float


def fit_step(points: Sequence[PartPoint], profile: Profile) -> dict[str, Any]:
    """Fit the products and every kind of kernel.

    Args:
        points: Parts of one device; kind `gemm` are products.
        profile: That device.

    Returns:
        The tables `product` and `passes` of a calibration file; errors are those of groups left out of their fit.
    """
    rates = rates_of(profile)
    kinds: defaultdict[str, list[PartPoint]] = defaultdict(list)
    for point in points:
        kinds[point.kind].append(point)
    product = _judged(kinds.pop(PRODUCT), PRODUCT_BOUNDS, rates)
    return {"product": product, "passes": {k: _judged(p, PASS_BOUNDS, rates) for k, p in sorted(kinds.items())}}


def _judged(points: Sequence[PartPoint], bounds: Bounds, rates: Rates) -> Figures:
    """Fit all points; take interval and errors from shapes that were left out one at a time."""
    whole = _fit(points, bounds, rates)
    ratios: list[float] = []
    for shape in dict.fromkeys((p.n, p.k) for p in points):
        kept = [p for p in points if (p.n, p.k) != shape]
        again = {name: (whole[name], low, high) for name, (_, low, high) in bounds.items()}
        found = _fit(kept, again, rates) if kept else whole
        ratios += [p.seconds / _tell(found, p, rates) for p in points if (p.n, p.k) == shape]
    errors = np.abs(1 / np.array(ratios) - 1)
    least, most = np.quantile(ratios, ENDS)
    judged = whole | {
        "low": float(min(least, 1.0)),
        "high": float(max(most, 1.0)),
        "median_error": float(np.median(errors)),
        "p90_error": float(np.quantile(errors, 0.9)),
    }
    return {name: float(f"{value:.{DIGITS}g}") for name, value in judged.items()} | {"rows": len(points)}


def _fit(points: Sequence[PartPoint], bounds: Bounds, rates: Rates) -> Figures:
    """Least squares of log errors over logarithms of the parameters."""
    start, low, high = np.log(list(bounds.values())).T
    measured = np.array([p.seconds for p in points])

    def errors(x: Any) -> Any:
        figures = dict(zip(bounds, np.exp(x), strict=True))
        return np.log(np.array([_tell(figures, p, rates) for p in points]) / measured)

    inside = np.clip(start, low + 1e-6, high - 1e-6)
    found = least_squares(errors, inside, bounds=(low, high), loss="soft_l1", f_scale=LOSS_SCALE, x_scale=1.0)
    return dict(zip(bounds, map(float, np.exp(found.x)), strict=True))


def _tell(figures: Figures, point: PartPoint, rates: Rates) -> float:
    if point.kind == PRODUCT:
        product = ProductFigures(**figures, low=1.0, high=1.0)
        return float(product.seconds(point.tokens, point.n, point.k, rates))
    return float(PassFigures(**figures, low=1.0, high=1.0).seconds(point.tokens, point.bytes, rates))
