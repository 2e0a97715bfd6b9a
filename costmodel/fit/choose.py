"""Which points to fit: few, chosen so that every parameter moves some of them, and spread over sizes."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.fit.points import Point
from costmodel.fit.solve import parameter, with_fitted
from costmodel.parameters import Parameters

MAX_POINTS = 64
STEP = 0.02
"""Relative change of a parameter in the finite differences."""
INFORMATIVE_SHARE = 0.4
"""Share of the points chosen for their information; the others are spread evenly over measured time."""
RIDGE = 1e-3


def choose_points(
    points: Sequence[Point], parameters: Parameters, names: Sequence[str], count: int = MAX_POINTS
) -> list[int]:
    """Choose points to fit.

    `INFORMATIVE_SHARE` of them are chosen greedily by D-optimality at the given parameters, so that each term is
    active somewhere; the rest are evenly spaced over the remaining points ordered by time, so that ordinary calls
    keep their weight.

    Returns:
        Indices into `points`.
    """
    if len(points) <= count:
        return list(range(len(points)))
    slopes = sensitivities(points, parameters, names)
    chosen = _informative(slopes, round(count * INFORMATIVE_SHARE))
    rest = sorted(set(range(len(points))) - set(chosen), key=lambda i: points[i].seconds)
    spread = np.linspace(0, len(rest) - 1, count - len(chosen)).round().astype(int)
    return sorted({*chosen, *(rest[i] for i in spread)})


def sensitivities(points: Sequence[Point], parameters: Parameters, names: Sequence[str]) -> NDArray[np.float64]:
    """Change of log time by change of each log parameter, `[points, names]`."""
    base = np.log([p.timing(parameters).seconds for p in points])
    columns = []
    for name in names:
        moved = with_fitted(parameters, [name], [parameter(parameters, name) * (1 + STEP)])
        columns.append((np.log([p.timing(moved).seconds for p in points]) - base) / np.log1p(STEP))
    return np.stack(columns, axis=1)


def _informative(slopes: NDArray[np.float64], count: int) -> list[int]:
    inverse = np.eye(slopes.shape[1]) / RIDGE
    chosen: list[int] = []
    free = np.ones(len(slopes), dtype=bool)
    for _ in range(count):
        gain = np.einsum("ij,jk,ik->i", slopes, inverse, slopes)
        gain[~free] = -1.0
        best = int(np.argmax(gain))
        chosen.append(best)
        free[best] = False
        row = inverse @ slopes[best]
        inverse -= np.outer(row, row) / (1 + slopes[best] @ row)
    return chosen
