"""Least squares on log errors: parameters as logarithms with weak priors, a soft-L1 loss against outliers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from costmodel.fit.points import Point
from costmodel.parameters import Parameters

LOSS_SCALE = 0.05
"""Log errors beyond this weigh linearly."""
PRIOR_WEIGHT = 0.005
"""Error that leaving the prior by its own width is worth, over the square root of the points."""
PRIOR_WIDTH = 1.0
"""Width of a prior in natural logarithms: a factor of e."""
FACTOR = "factor:"
"""Prefix of a compiled kernel's factor among the names."""
FACTOR_WIDTH = 0.3
FACTOR_LIMITS = (0.3, 5.0)
ABSENT = 1e-12
"""Starting value of a parameter that is 0 in the prior, in its own unit."""
FIRST = {"far_fraction": 0.2}
"""Starting values of parameters that nothing is assumed of without a measurement."""

LIMITS: dict[str, tuple[float, float]] = {
    "floor_seconds": (5e-7, 1e-4),
    "tile_seconds": (1e-9, 1e-5),
    "page_seconds": (1e-12, 1e-7),
    "page_bytes": (0.1, 2000.0),
    "cta_bytes_per_s": (1e9, 2e12),
    "far_fraction": (1e-3, 4.0),
    "sm_bytes_per_s": (2e9, 4e12),
    "dram_fraction": (0.3, 1.0),
    "matrix_fraction": (0.02, 1.0),
    "exp_fraction": (0.5, 2.0),
    "overlap": (1.0, 12.0),
    "join": (1.0, 12.0),
    "job_tiles": (1e-2, 40.0),
    "row_tiles": (1e-2, 20.0),
    "merge_seconds": (1e-8, 3e-5),
    "merge_split_seconds": (1e-10, 2e-6),
    "merge_slot_seconds": (1e-11, 1e-5),
    "merge_row_seconds": (1e-13, 1e-7),
    "merge_bytes_per_s": (1e10, 1e14),
    "request_seconds": (1e-11, 7e-8),
    "empty_cta_seconds": (1e-9, 1e-5),
    "launch_seconds": (1e-7, 5e-5),
    "extra_fraction": (1e-2, 10.0),
}


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted parameters and how well the points determine them."""

    parameters: Parameters
    names: tuple[str, ...]
    condition: float
    """Condition number of the scaled Jacobian; large where parameters trade against each other."""
    uncertainty: dict[str, float]
    """Relative standard error by parameter, priors included."""
    errors: NDArray[np.float64]
    """Log of predicted over measured, one a point."""


def fit_parameters(points: Sequence[Point], start: Parameters, names: Sequence[str]) -> Fit:
    """Fit parameters to points.

    Args:
        points: Measured calls of one kernel variant on one device.
        start: Starting values, also the centers of the priors.
        names: Parameters to fit, `factor:KERNEL` for a compiled kernel's factor; others keep their starting value.
    """
    names = tuple(names)
    limits = np.log([FACTOR_LIMITS if n.startswith(FACTOR) else LIMITS[n] for n in names])
    low, high = limits[:, 0], limits[:, 1]
    middle = np.clip(np.log([parameter(start, n) or FIRST.get(n, ABSENT) for n in names]), low + 1e-6, high - 1e-6)
    measured = np.log([p.seconds for p in points])
    widths = np.array([FACTOR_WIDTH if n.startswith(FACTOR) else PRIOR_WIDTH for n in names])
    weight = PRIOR_WEIGHT * np.sqrt(len(points)) / widths

    def errors_at(x: NDArray[np.float64]) -> NDArray[np.float64]:
        parameters = with_fitted(start, names, np.exp(x).tolist())
        return np.log([p.timing(parameters).seconds for p in points]) - measured

    def residuals(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate([_soft(errors_at(x)), weight * (x - middle)])

    solution = least_squares(residuals, middle, bounds=(low, high), x_scale=0.3, max_nfev=60, diff_step=1e-3)
    singular = np.linalg.svd(solution.jac[: len(points)], compute_uv=False)
    covariance = np.linalg.pinv(solution.jac.T @ solution.jac) * max(2 * solution.cost / len(points), 1e-12)
    return Fit(
        parameters=with_fitted(start, names, np.exp(solution.x).tolist()),
        names=names,
        condition=float(singular[0] / max(singular[-1], 1e-12)),
        uncertainty=dict(zip(names, np.sqrt(np.maximum(np.diag(covariance), 0.0)).tolist(), strict=True)),
        errors=errors_at(solution.x),
    )


def with_fitted(start: Parameters, names: Sequence[str], values: Sequence[float]) -> Parameters:
    """Give parameters with fitted values in place, factors included."""
    pairs = list(zip(names, values, strict=True))
    numbers: dict[str, Any] = {name: value for name, value in pairs if not name.startswith(FACTOR)}
    factors = {name.removeprefix(FACTOR): value for name, value in pairs if name.startswith(FACTOR)}
    return start.with_values({**numbers, "factors": {**start.factors, **factors}})


def parameter(parameters: Parameters, name: str) -> float:
    """Give a parameter or factor by its fitted name."""
    if name.startswith(FACTOR):
        return parameters.factor(name.removeprefix(FACTOR))
    return float(getattr(parameters, name))


def _soft(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Square roots of the soft-L1 loss, with sign, so that priors stay quadratic beside it."""
    loss = 2 * LOSS_SCALE**2 * (np.sqrt(1 + (errors / LOSS_SCALE) ** 2) - 1)
    return np.sign(errors) * np.sqrt(loss)
