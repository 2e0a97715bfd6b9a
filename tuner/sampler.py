"""Where the search looks next: the candidate that promises most, as an Optuna sampler."""

from collections.abc import Callable
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import FrozenTrial

from executors.outcome import Candidate
from tuner.space import Space


class GuidedSampler(BaseSampler):
    """Proposes what `choose` says; where it has nothing to say, Optuna's TPE samples."""

    def __init__(self, space: Space, choose: Callable[[], Candidate | None], *, seed: int) -> None:
        self._space = space
        self._choose = choose
        self._tpe = TPESampler(seed=seed, n_startup_trials=4)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All parameters of the space: which of them a trial uses depends on its backend."""
        return dict(self._space.distributions())

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Parameters of the chosen candidate; none where TPE is to sample one by one."""
        chosen = self._choose()
        return {} if chosen is None else self._space.params(chosen)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """One parameter that was not part of the proposal."""
        return self._tpe.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        """Draw a new seed, as Optuna asks for in worker processes."""
        self._tpe.reseed_rng()
