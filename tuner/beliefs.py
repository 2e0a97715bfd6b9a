"""What is known about every candidate's time: the model's prediction, moved by what was measured on its neighbours.

The error of a prediction is shared: a backend whose default runs 20 % slower than predicted runs 20 % slower with
its other knobs too, and the more so the closer the knobs. A Gaussian process over log(measured / predicted) says how
much each measurement moves each candidate.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel import KnobValue, Prediction
from executors.outcome import Candidate

Z90 = 1.645
"""Half of a 90 % interval in standard deviations."""
UNKNOWN_SIGMA = 0.7
"""Log error granted to a candidate that no model predicts: a factor of two is usual."""
SHARED = 0.12
"""Share of the log variance that all backends have in common: the workload itself is mispredicted."""
BACKEND = 0.38
"""Share that the knobs of one backend have in common."""
NEAR = 0.42
"""Share that fades with the distance of the knobs; the rest is each candidate's own.

The three shares are those of 539 workloads on an H200: `python benchmarks/replay.py --correlations`.
"""
MEASUREMENT_SIGMA = 0.005


@dataclass(frozen=True, slots=True)
class Belief:
    """The distribution of one candidate's log time."""

    mean: float
    sigma: float

    @property
    def seconds(self) -> float:
        """Median."""
        return math.exp(self.mean)

    @property
    def low(self) -> float:
        """Lower end of the 90 % interval."""
        return math.exp(self.mean - Z90 * self.sigma)

    @property
    def high(self) -> float:
        """Upper end of the 90 % interval."""
        return math.exp(self.mean + Z90 * self.sigma)

    def chance_below(self, seconds: float) -> float:
        """Probability of a time below `seconds`."""
        return _normal_cdf((math.log(seconds) - self.mean) / self.sigma)

    def expected_gain(self, best: float) -> float:
        """Expected seconds saved per call over the best so far, choosing the better of the two."""
        d = (math.log(best) - self.mean) / self.sigma
        return max(0.0, best * _normal_cdf(d) - math.exp(self.mean + self.sigma**2 / 2) * _normal_cdf(d - self.sigma))


class Beliefs:
    """Beliefs about all candidates of one workload."""

    def __init__(self, candidates: Sequence[Candidate], predictions: Mapping[str, Prediction | None]) -> None:
        self._index = {c.key: i for i, c in enumerate(candidates)}
        known = [p for p in predictions.values() if p is not None]
        typical = min((p.seconds for p in known), default=1.0)
        priors = [_prior(predictions.get(c.key), typical) for c in candidates]
        self._mean: NDArray[np.float64] = np.array([p.mean for p in priors])
        self._sigma: NDArray[np.float64] = np.array([p.sigma for p in priors])
        self._cov = np.outer(self._sigma, self._sigma) * _correlation(candidates)

    def advantage(self, key: str, over: str) -> float:
        """Predicted log gain of a candidate over another one, in standard errors of that gain."""
        a, b = self._index[key], self._index[over]
        variance = self._cov[a, a] + self._cov[b, b] - 2 * self._cov[a, b]
        return float((self._mean[b] - self._mean[a]) / math.sqrt(max(variance, MEASUREMENT_SIGMA**2)))

    def given(self, measured: Mapping[str, float]) -> dict[str, Belief]:
        """Beliefs after some candidates were measured (key to seconds)."""
        rows = [self._index[key] for key in measured if key in self._index]
        mean, var = self._mean, np.diag(self._cov)
        if rows:
            seen = np.array([math.log(measured[key]) for key in measured if key in self._index])
            block = self._cov[np.ix_(rows, rows)] + np.eye(len(rows)) * MEASUREMENT_SIGMA**2
            weights = np.linalg.solve(block, self._cov[rows])
            mean = mean + weights.T @ (seen - self._mean[rows])
            var = var - np.einsum("ij,ij->j", self._cov[rows], weights)
        sigma = np.sqrt(np.maximum(var, MEASUREMENT_SIGMA**2))
        return {key: Belief(float(mean[i]), float(sigma[i])) for key, i in self._index.items()}


def _prior(prediction: Prediction | None, typical: float) -> Belief:
    if prediction is None:
        return Belief(math.log(1.5 * typical), UNKNOWN_SIGMA)
    sigma = math.log(prediction.high / prediction.low) / (2 * Z90) if 0 < prediction.low < prediction.high else 0.0
    return Belief(math.log(prediction.seconds), max(sigma, 2 * MEASUREMENT_SIGMA))


def _correlation(candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    n = len(candidates)
    out = np.full((n, n), SHARED)
    for i, a in enumerate(candidates):
        out[i, i] = 1.0
        for j in range(i):
            b = candidates[j]
            if a.backend == b.backend:
                out[i, j] = SHARED + BACKEND + NEAR * math.exp(-distance(a.knobs, b.knobs))
                out[j, i] = out[i, j]
    return out


def distance(a: Mapping[str, KnobValue], b: Mapping[str, KnobValue]) -> float:
    """How far two settings of a backend's knobs are: numbers by quarters, others count 1, at most 1 a knob."""
    total = 0.0
    for name in a.keys() | b.keys():
        x, y = a.get(name), b.get(name)
        if x == y:
            continue
        numbers = type(x) in (int, float) and type(y) in (int, float)
        ratio = _log_ratio(float(x), float(y)) if numbers else math.inf  # type: ignore[arg-type]
        total += min(ratio, 1.0)
    return total


def _log_ratio(x: float, y: float) -> float:
    return abs(math.log2(x / y)) / 2 if x > 0 and y > 0 else math.inf


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))
