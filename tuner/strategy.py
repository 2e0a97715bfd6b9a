"""The search itself: what to measure first, what next, what never, and when to stop."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from costmodel import Prediction
from executors.outcome import Candidate
from tuner.beliefs import Belief, Beliefs
from tuner.cost import TrialCost
from tuner.noise import timing
from tuner.session import Known, Session
from tuner.space import Space

Effort = Literal["quick", "full"]
MAX_FAILURES = 2
"""A backend that failed so often, and was never measured, is not tried with further knobs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much a search tries."""

    first: int
    """Candidates by prediction that are measured beside the default before anything is decided."""
    group: int
    """Candidates measured together afterwards."""
    horizon: float
    """Calls that a tuned choice will serve: what one call gains, times this, has to pay for the trial."""
    repeats: int = 7
    chance: float = 0.01
    """A candidate with a smaller chance of winning is skipped."""
    every_backend: bool = False
    """Whether each backend's favourite is measured even where it cannot win, so that all are known to be right."""


PLANS: dict[Effort, Plan] = {
    "quick": Plan(first=3, group=2, horizon=1e5),
    "full": Plan(first=5, group=4, horizon=1e8, every_backend=True),
}


class Guided:
    """Measures the model's favourites, then whatever promises most given what was seen."""

    def __init__(self, space: Space, predictions: Mapping[str, Prediction | None], plan: Plan, cost: TrialCost) -> None:
        self._space = space
        self._predictions = predictions
        self._plan = plan
        self._cost = cost
        self._guided = any(p is not None for p in predictions.values())
        self._beliefs = Beliefs(space.candidates, predictions)

    @property
    def guided(self) -> bool:
        """Whether the cost model knows any candidate; TPE searches alone where it knows none."""
        return self._guided

    def ranking(self) -> list[Candidate]:
        """Candidates by predicted time, the order of the space where equal."""
        belief = self._beliefs.given({})
        return sorted(self._space.candidates, key=lambda c: belief[c.key].mean)

    def first(self) -> list[Candidate]:
        """The default, then favourites with plans of their own; all backends that may win, as far as room allows."""
        belief = self._beliefs.given({})
        limits = self._limits(belief, {})
        ranking = [c for c in self.ranking() if any(belief[c.key].low <= limit for limit in self._goals(c, limits))]
        reachable = [c for c in ranking if c.key in self._space.reachable]
        leaders = {c.backend: c for c in reversed(ranking)}
        chosen = [self._space.default]
        for candidate in [*ranking[:1], *reachable[:1], *sorted(leaders.values(), key=ranking.index), *ranking]:
            if len(chosen) > self._plan.first:
                break
            if not any(self._same_plan(candidate, other) for other in chosen):
                chosen.append(candidate)
        if self._plan.every_backend:
            favourites = {c.backend: c for c in reversed(self.ranking())}
            chosen += [c for name, c in favourites.items() if name not in {other.backend for other in chosen}]
        return chosen

    def _same_plan(self, a: Candidate, b: Candidate) -> bool:
        """Whether the model sees no difference: knobs that lead the library to the same plan take the same time."""
        p, q = self._predictions.get(a.key), self._predictions.get(b.key)
        return a.key == b.key or (a.backend == b.backend and p is not None and q is not None and p.seconds == q.seconds)

    def choose(self, session: Session) -> Candidate | None:
        """The candidate that is most worth its cost, or None where none is or no model says."""
        if not self._guided:
            return None
        known = session.known()
        held = session.held()
        hopeless = given_up(known)
        open_candidates = [
            c for c in self._space.candidates if c.key not in held and c.key not in known and c.backend not in hopeless
        ]
        if not open_candidates:
            return None
        times = measured_seconds(known)
        belief = self._beliefs.given(times)
        limits = self._limits(belief, times)
        worth = {c.key: self._worth(c, belief[c.key], limits) for c in open_candidates}
        favourite = max(open_candidates, key=lambda c: (worth[c.key], -belief[c.key].mean))
        return favourite if worth[favourite.key] > 0 else None

    def done(self, session: Session) -> bool:
        """Whether nothing is left that is worth measuring."""
        if self._guided:
            return self.choose(session) is None
        return len(session.held() | session.known().keys()) >= len(self._space)

    def cannot_win(self, known: Mapping[str, Known]) -> frozenset[str]:
        """Keys of candidates that were not measured: their interval cannot win, or their backend failed too often."""
        times = measured_seconds(known)
        hopeless = given_up(known)
        belief = self._beliefs.given(times)
        limits = self._limits(belief, times)
        return frozenset(
            c.key
            for c in self._space.candidates
            if c.key not in known
            and (c.backend in hopeless or all(self._hopeless(belief[c.key], limit) for limit in self._goals(c, limits)))
        )

    def _limits(self, belief: Mapping[str, Belief], times: Mapping[str, float]) -> tuple[float, float]:
        """What has to be beaten: the best time of all, and the best that SGLang's flags reach."""
        reachable = self._space.reachable
        return _limit(belief, times), _limit(
            {k: b for k, b in belief.items() if k in reachable}, {k: t for k, t in times.items() if k in reachable}
        )

    def _goals(self, candidate: Candidate, limits: tuple[float, float]) -> tuple[float, ...]:
        return limits if candidate.key in self._space.reachable else limits[:1]

    def _hopeless(self, belief: Belief, limit: float) -> bool:
        return belief.chance_below(limit) < self._plan.chance

    def _worth(self, candidate: Candidate, belief: Belief, limits: tuple[float, float]) -> float:
        goals = [limit for limit in self._goals(candidate, limits) if not self._hopeless(belief, limit)]
        if not goals:
            return -math.inf
        gain = max(belief.expected_gain(limit) for limit in goals)
        return gain * self._plan.horizon - self._cost.expect(candidate, belief.seconds)


def _limit(belief: Mapping[str, Belief], times: Mapping[str, float]) -> float:
    return min(times.values()) if times else min((b.high for b in belief.values()), default=math.inf)


def given_up(known: Mapping[str, Known]) -> frozenset[str]:
    """Backends that failed `MAX_FAILURES` times and were never measured."""
    measured = {k.candidate.backend for k in known.values() if k.seconds}
    failed = Counter(k.candidate.backend for k in known.values() if not k.seconds)
    return frozenset(name for name, times in failed.items() if times >= MAX_FAILURES and name not in measured)


def measured_seconds(known: Mapping[str, Known]) -> dict[str, float]:
    """Median time of every candidate that gave one."""
    return {key: timing(k.seconds).seconds for key, k in known.items() if k.seconds}
