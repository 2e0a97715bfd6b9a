"""Searches that are replayed, and how each does on one workload."""

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import optuna
from optuna.trial import TrialState
from replay_cases import Case

from executors.outcome import Candidate
from executors.replay import RUN_TO_RUN, laplace
from tuner.cost import TrialCost
from tuner.session import Known
from tuner.strategy import Guided, Plan
from tuner.unmeasured import choose_unmeasured

TPE, TPE_ONCE = "Optuna TPE", "Optuna TPE, repeats not counted"
STEPS = (0, 1, 3, 8)
NEAR = 0.99
TIRELESS = Plan(first=1, group=1, horizon=1e15, chance=0.0)
DRAWS = 5
"""Draws of TPE for each candidate, after which it is ended."""
LEAST_SLOWER = 0.02
"""A choice that is slower than the default by more counts as slower."""


@dataclass
class Log:
    """What a search measured on one workload, in order, with the noise of a run."""

    case: Case
    draw: random.Random
    evaluated: list[Candidate] = field(default_factory=list)
    measured: list[float] = field(default_factory=list)
    chosen: list[float] = field(default_factory=list)
    """True time of the candidate that looked best after each measurement."""

    def measure(self, candidate: Candidate) -> float:
        """Time a candidate once more."""
        true = self.case.seconds[candidate.key]
        self.evaluated.append(candidate)
        self.measured.append(true * math.exp(laplace(self.draw, RUN_TO_RUN)))
        if self.measured[-1] <= min(self.measured):
            self.chosen.append(true)
        else:
            self.chosen.append(self.chosen[-1])
        return self.measured[-1]

    @property
    def near(self) -> int | None:
        """Evaluations until one was within 1 % of the best."""
        limit = self.case.best / NEAR
        return next((i for i, c in enumerate(self.evaluated, 1) if self.case.seconds[c.key] <= limit), None)

    @property
    def ended(self) -> bool:
        """Whether the best is found, or enough seen that what is reported hardly changes, repeats counted or not."""
        if self.near is None:
            return False
        enough = max(*STEPS, len(self.case.random_search))
        return len(self.held()) >= enough or self.case.best in map(self.case.seconds.__getitem__, self.held())

    def without_repeats(self) -> "Log":
        """The same search where a candidate that was drawn again is answered from memory."""
        log, seen = Log(self.case, self.draw), set[str]()
        for candidate, seconds, chosen in zip(self.evaluated, self.measured, self.chosen, strict=True):
            if candidate.key not in seen:
                seen.add(candidate.key)
                log.evaluated.append(candidate)
                log.measured.append(seconds)
                log.chosen.append(chosen)
        return log

    def after(self, count: int) -> float:
        """True time of the choice after so many measurements."""
        return self.chosen[min(count, len(self.chosen)) - 1]

    def known(self) -> dict[str, Known]:
        """What a strategy sees."""
        return {
            c.key: Known(c, (s,), "measured", None, None) for c, s in zip(self.evaluated, self.measured, strict=True)
        }

    def held(self) -> frozenset[str]:
        """What a strategy may not choose again."""
        return frozenset(c.key for c in self.evaluated)


Method = Callable[[Log, int], None]


def guided(log: Log, seed: int) -> None:
    """The tuner's own strategy on the model's estimates; its favourite first."""
    space = log.case.space
    strategy = Guided(space, log.case.predictions, TIRELESS, TrialCost("cuda", 7))
    chosen: Candidate | None = strategy.ranking()[0]
    while chosen is not None and not log.ended:
        log.measure(chosen)
        chosen = strategy.choose(log)  # type: ignore[arg-type]


def shuffled(log: Log, seed: int) -> None:
    """Random search; no candidate twice."""
    order = list(log.case.space.candidates)
    random.Random(seed).shuffle(order)
    for candidate in order:
        log.measure(candidate)


def tpe(log: Log, seed: int) -> None:
    """Optuna's TPE alone, from nothing; a candidate that it draws again is measured again."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    space = log.case.space
    distributions = space.distributions()
    for _ in range(DRAWS * len(space)):
        trial = study.ask()
        backend = trial.suggest_categorical("backend", distributions["backend"].choices)
        prefix = f"{backend}."
        knobs = {
            name.removeprefix(prefix): trial.suggest_categorical(name, d.choices)
            for name, d in distributions.items()
            if name.startswith(prefix)
        }
        candidate = log.case.candidate(str(backend), knobs)
        if candidate is None:
            study.tell(trial, state=TrialState.PRUNED)
            continue
        study.tell(trial, log.measure(candidate))
        if log.ended:
            return


METHODS: dict[str, Method] = {
    "attnroof": guided,
    "random": shuffled,
    TPE: tpe,
}


@dataclass(frozen=True)
class Done:
    """One method on one workload, averaged over seeds."""

    losses: dict[int, float]
    """Measurements to mean log of found time over the best."""
    evaluations: float
    score: float | None
    """Where between random search (0) and the best at once (1) it was, on average; None where all are alike."""
    slower: float
    """Largest time of the choice after three measurements and the default's over that of the default."""


def run(case: Case, method: str, seeds: Sequence[int]) -> dict[str, Done]:
    """Replay one method; TPE gives a second result, in which its repeats do not count."""
    logs = []
    for seed in seeds:
        log = Log(case, random.Random(f"{method} {seed} {case.fingerprint}"))
        METHODS[method](log, seed)
        logs.append(log)
    found = {method: _done(case, logs)}
    if method == TPE:
        found[TPE_ONCE] = _done(case, [log.without_repeats() for log in logs])
    if method == "attnroof":
        found[method].losses[0] = math.log(case.seconds[unmeasured(case).key] / case.best)
    return found


def _done(case: Case, logs: Sequence[Log]) -> Done:
    losses = {k: statistics.fmean(math.log(log.after(k) / case.best) for log in logs) for k in STEPS if k}
    evaluations = statistics.fmean(log.near or len(case.space) for log in logs)
    return Done(losses, evaluations, _score(case, logs), max(_against_default(log) for log in logs))


def unmeasured(case: Case) -> Candidate:
    """What the tuner answers before anything was measured."""
    return choose_unmeasured(case.space.candidates, case.space.default, case.predictions)


def _score(case: Case, logs: Sequence[Log]) -> float | None:
    """Mean over the evaluations of how much of random search's distance to the best is gone."""
    if case.random_search[0] <= case.best:
        return None
    parts = [
        (expected - statistics.fmean(log.after(k) for log in logs)) / (expected - case.best)
        for k, expected in enumerate(case.random_search, 1)
        if expected > case.best
    ]
    return statistics.fmean(parts)


def _against_default(log: Log) -> float:
    """The choice among the first three and the default, by what was measured, over the default."""
    default = log.case.space.default
    true = log.case.seconds
    again = Log(log.case, log.draw)
    for candidate in [default, *(c for c in log.evaluated[:3] if c.key != default.key)]:
        again.measure(candidate)
    return again.chosen[-1] / true[default.key]
