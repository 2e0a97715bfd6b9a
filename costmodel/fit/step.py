"""Fit what products and the kernels between them cost to parts of steps that were measured one by one."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from costmodel.serving.calibrated import PassFigures, ProductFigures
from hwprofiles import Profile

LOSS_SCALE = 0.05
"""Log errors beyond this weigh linearly."""
ENDS = (0.05, 0.95)
"""Quantiles of measured over predicted that make the 90 % interval."""
DIGITS = 4
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PartPoint:
    """One part measured alone."""

    kind: str
    bytes: float
    flops: float
    group: str
    """What is left out together when errors are judged: a product's shape, a kernel's width."""
    seconds: float


def fit_step(points: Sequence[PartPoint], profile: Profile) -> dict[str, Any]:
    """Fit the products and every kind of kernel.

    Args:
        points: Parts of one device; kind `gemm` are products.
        profile: That device.

    Returns:
        The tables `product` and `passes` of a calibration file; errors are those of groups left out of their fit.
    """
    kinds: defaultdict[str, list[PartPoint]] = defaultdict(list)
    for point in points:
        kinds[point.kind].append(point)
    product = kinds.pop("gemm")
    return {
        "product": _judged(product, lambda some: _fit_product(some, profile), _product_seconds(profile)),
        "passes": {
            kind: _judged(rows, lambda some: _fit_pass(some, profile), _pass_seconds(profile))
            for kind, rows in sorted(kinds.items())
        },
    }


Fitter = Callable[[Sequence[PartPoint]], dict[str, float]]
Teller = Callable[[dict[str, float], PartPoint], float]


def _judged(points: Sequence[PartPoint], fit: Fitter, tell: Teller) -> dict[str, float]:
    """Fit all points; take interval and errors from groups that were left out one at a time."""
    ratios = []
    for group in dict.fromkeys(p.group for p in points):
        found = fit([p for p in points if p.group != group] or points)
        ratios += [p.seconds / tell(found, p) for p in points if p.group == group]
    low, high = np.quantile(ratios, ENDS)
    errors = np.abs(1 / np.array(ratios) - 1)
    judged = {
        "low": float(min(low, 1.0)),
        "high": float(max(high, 1.0)),
        "median_error": float(np.median(errors)),
        "p90_error": float(np.quantile(errors, 0.9)),
    }
    rounded = {name: float(f"{value:.{DIGITS}g}") for name, value in (fit(points) | judged).items()}
    return {**rounded, "rows": len(points)}


def _solve(
    start: dict[str, float], limits: dict[str, tuple[float, float]], model: Callable[[Floats], Floats], seconds: Floats
) -> dict[str, float]:
    """Least squares of log errors over logarithms of the parameters."""
    low, high = np.log([limits[name] for name in start]).T
    middle = np.clip(np.log(list(start.values())), low + 1e-6, high - 1e-6)
    found = least_squares(
        lambda x: np.log(model(np.exp(x)) / seconds), middle, bounds=(low, high), loss="soft_l1", f_scale=LOSS_SCALE
    )
    return dict(zip(start, map(float, np.exp(found.x)), strict=True))


def _fit_product(points: Sequence[PartPoint], profile: Profile) -> dict[str, float]:
    moved, flops, seconds = (np.array([getattr(p, n) for p in points]) for n in ("bytes", "flops", "seconds"))
    bandwidth, rate = profile.require("memory_bytes_per_s"), profile.matrix_rate("bf16")

    def model(x: Floats) -> Floats:
        floor, bandwidth_fraction, matrix_fraction, join = x
        memory, compute = moved / (bandwidth_fraction * bandwidth), flops / (matrix_fraction * rate)
        return np.asarray(floor + (memory**join + compute**join) ** (1 / join))

    start = {"floor_seconds": 3e-6, "bandwidth_fraction": 0.85, "matrix_fraction": 0.75, "join": 3.0}
    limits = {
        "floor_seconds": (2e-7, 2e-5),
        "bandwidth_fraction": (0.3, 1.0),
        "matrix_fraction": (0.2, 1.0),
        "join": (1.0, 20.0),
    }
    return _solve(start, limits, model, seconds)


def _fit_pass(points: Sequence[PartPoint], profile: Profile) -> dict[str, float]:
    moved, seconds = (np.array([getattr(p, n) for p in points]) for n in ("bytes", "seconds"))
    copy = copy_bandwidth(profile)
    start = {"floor_seconds": 2e-6, "memory_fraction": 1.0}
    limits = {"floor_seconds": (2e-7, 1e-4), "memory_fraction": (0.01, 4.0)}
    return _solve(start, limits, lambda x: np.asarray(x[0] + moved / (x[1] * copy)), seconds)


def copy_bandwidth(profile: Profile) -> float:
    """Give the bandwidth of copies, measured where it was."""
    from costmodel.serving.kernels import kernels_of

    return kernels_of(profile).copy_bytes_per_s


def _product_seconds(profile: Profile) -> Teller:
    bandwidth, rate = profile.require("memory_bytes_per_s"), profile.matrix_rate("bf16")

    def tell(found: dict[str, float], point: PartPoint) -> float:
        return ProductFigures(**found, low=1.0, high=1.0).seconds(point.bytes, point.flops, bandwidth, rate)

    return tell


def _pass_seconds(profile: Profile) -> Teller:
    copy = copy_bandwidth(profile)

    def tell(found: dict[str, float], point: PartPoint) -> float:
        return PassFigures(**found, low=1.0, high=1.0).seconds(point.bytes, copy)

    return tell
