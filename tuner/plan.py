"""What a run would do, without doing it: candidates per workload, the model's favourite, and the expected time."""

from dataclasses import dataclass

from costmodel import Prediction
from executors.outcome import Candidate
from tuner.reachable import reachable_keys
from tuner.request import Request
from tuner.search import Tools
from tuner.space import Space, pick_default
from tuner.strategy import PLANS, Guided
from tuner.workload import Workload


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """One workload of a plan."""

    workload: Workload
    candidates: int
    skipped: int
    """Candidates that will not be run because their interval cannot win."""
    first: tuple[Candidate, ...]
    """Candidates that are run before anything is decided, the default first."""
    favourite: Candidate
    prediction: Prediction | None
    """Of the favourite."""
    seconds: float
    """Expected time of the first candidates."""
    most_seconds: float
    """Expected time if every candidate that may win were run."""


def plan_run(request: Request, tools: Tools) -> tuple[PlannedWorkload, ...]:
    """Plan every workload that some backend can run.

    Raises:
        ValueError: A batch cannot be run on the device at all.
    """
    planned = (_plan(workload, tools) for workload in request.workloads)
    return tuple(p for p in planned if p is not None)


def _plan(workload: Workload, tools: Tools) -> PlannedWorkload | None:
    attention, batch = workload.attention, workload.batch
    candidates = tools.measurer.candidates(attention, batch, tools.profile)
    if not candidates:
        return None
    space = Space(
        candidates,
        pick_default(candidates, tools.defaults(batch.phase)),
        reachable_keys(workload, candidates),
    )
    predictions = tools.predict(workload, candidates, tools.profile)
    strategy = Guided(space, predictions, PLANS[tools.effort], tools.cost)
    first, losers = strategy.first(), strategy.cannot_win({})
    favourite = strategy.ranking()[0]

    def cost(some: list[Candidate]) -> float:
        known = ((c, predictions[c.key]) for c in some)
        return tools.cost.total((c, p.seconds if p else 1e-3) for c, p in known)

    return PlannedWorkload(
        workload=workload,
        candidates=len(space),
        skipped=len(losers),
        first=tuple(first),
        favourite=favourite,
        prediction=predictions[favourite.key],
        seconds=cost(first),
        most_seconds=cost([c for c in candidates if c.key not in losers]),
    )
