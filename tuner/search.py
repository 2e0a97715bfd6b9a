"""The search for one workload: propose, measure, learn, stop, and measure once more what is close."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from costmodel.record import RecordedDevice
from executors.measurer import Measurer
from executors.outcome import Candidate, Measured, Outcome
from hwprofiles import Profile
from tuner.assemble import Findings, assemble
from tuner.budget import Share
from tuner.cost import TrialCost
from tuner.events import Finished, Measuring, Note, Observer, Searching, Tried, silent
from tuner.filename import slug
from tuner.noise import timing
from tuner.owner import Owner
from tuner.plausible import checked
from tuner.predictions import Predictor, predict_all
from tuner.reachable import reachable_keys
from tuner.row import Row
from tuner.session import GRACE_SECONDS, Known, Session, Ticket
from tuner.space import NoCandidate, Space, pick_default
from tuner.store import Store
from tuner.strategy import PLANS, Effort, Guided
from tuner.verdict import undecided
from tuner.workload import Workload

MAX_CONFIRMATIONS = 2
NAMED = 3
"""Candidates named in a note."""
Record = Callable[[Workload, Candidate, Outcome], str | None]
Defaults = Callable[[str], tuple[str, ...]]


@dataclass(slots=True)
class Tools:
    """What every search of a run uses."""

    measurer: Measurer
    profile: Profile
    store: Store
    owner: Owner
    cost: TrialCost
    record: Record
    """Writes the record of one outcome and returns its line."""
    defaults: Defaults
    """Phase to backends that an engine would choose by itself, first choice first."""
    predict: Predictor = predict_all
    effort: Effort = "quick"
    prefix: str = "attnroof"
    seed: int = 0
    observe: Observer = silent
    grace_seconds: float = GRACE_SECONDS
    """Silence after which a worker of another host counts as dead."""
    recovered: int = 0
    """Trials of dead workers that this run put back."""


def study_name(prefix: str, device: RecordedDevice, workload: Workload) -> str:
    """Name a study by device identity, attention shape, phase and bucket, so that mixed fleets stay apart."""
    identity = f"{slug(device.name)}-cc{device.cc or 'none'}-sms{device.sms or 'none'}"
    return f"{prefix}/{identity}/{workload.key}"


def search(workload: Workload, tools: Tools, share: Share) -> Row | None:
    """Find the best candidate of one workload within a share of the budget.

    Returns:
        The answer, or None where other workers still measure what may change it: ask again later.

    Raises:
        NoCandidate: No backend can run the workload.
        ValueError: It does not fit the device.
    """
    return _Search(workload, tools, share).run()


class _Search:
    def __init__(self, workload: Workload, tools: Tools, share: Share) -> None:
        self._workload, self._tools, self._share = workload, tools, share
        attention, batch, profile = workload.attention, workload.batch, tools.profile
        candidates = tools.measurer.candidates(attention, batch, profile)
        if not candidates:
            rejected = tools.measurer.rejections(attention, batch, profile)
            raise NoCandidate(
                "; ".join(f"{name}: {', '.join(r.reasons)}" for name, r in rejected.items()) or "no backend"
            )
        self._space = Space(
            candidates,
            pick_default(candidates, tools.defaults(batch.phase)),
            reachable_keys(workload, candidates),
        )
        self._predictions = tools.predict(workload, candidates, profile)
        self._plan = PLANS[tools.effort]
        self._strategy = Guided(self._space, self._predictions, self._plan, tools.cost)
        name = study_name(tools.prefix, tools.measurer.environment().recorded(), workload)
        self._session = Session(
            tools.store,
            f"{name}-{self._space.digest}",
            self._space,
            self._strategy,
            tools.owner,
            partial(tools.measurer.implementation_of, attention=attention, batch=batch),
            tools.seed,
            tools.grace_seconds,
        )
        self._complete = False
        self._cut: list[str] = []
        """Keys of candidates that were worth a run, and that the budget left out."""

    def run(self) -> Row | None:
        """Search until nothing is worth its cost or the share is used up; None where others have to end first."""
        outdated = self._session.release_outdated()
        if outdated:
            self._tools.observe(Note(f"{self._workload.spec}: {outdated} results are of other library versions"))
        self._tools.observe(Searching(self._workload, len(self._space), len(self._session.known())))
        self._session.propose(self._strategy.first())
        size = self._plan.first + 1
        while not self._share.exhausted:
            tickets = self._session.take(int(min(size, self._share.trials_left)))
            if not tickets:
                self._complete = True
                break
            fitting = self._fitting(tickets)
            self._put_back(t for t in tickets if t not in fitting)
            if not fitting:
                break
            self._run(fitting)
            size = self._plan.group
        self._tools.recovered += self._session.recovered
        if self._waits() or not self._confirm():
            return None
        return self._finish()

    def _waits(self) -> bool:
        """Whether other workers measure what may change the answer, and there is time to wait for them."""
        return self._session.others_busy() and self._share.budget.seconds_left > 0

    def _fitting(self, tickets: list[Ticket]) -> list[Ticket]:
        """Those that what is left of the share is enough for; the first of all is always run."""
        first = [t for t in tickets[:1] if not self._session.known()]
        expected = [(t.candidate, self._expected_latency(t.candidate)) for t in tickets if t not in first]
        fitting = {c.key for c in self._tools.cost.fitting(expected, self._share.seconds_left)}
        return [*first, *(t for t in tickets if t.candidate.key in fitting)]

    def _expected_latency(self, candidate: Candidate) -> float:
        prediction = self._predictions.get(candidate.key)
        return 0.0 if prediction is None else prediction.seconds

    def _put_back(self, tickets: Iterable[Ticket]) -> None:
        unused = list(tickets)
        self._cut += [t.candidate.key for t in unused]
        self._session.put_back(unused)

    def _run(self, tickets: list[Ticket]) -> None:
        outcomes = self._measure([t.candidate for t in tickets])
        group = uuid.uuid4().hex[:8]
        told = [t for t in tickets if t.candidate.key in outcomes]
        for ticket in told:
            outcome = outcomes[ticket.candidate.key]
            line = self._tools.record(self._workload, ticket.candidate, outcome)
            self._session.tell(ticket, outcome, group=group, record=line)
        self._put_back(t for t in tickets if t not in told)
        self._observe([(t.candidate, outcomes[t.candidate.key]) for t in told])

    def _measure(self, candidates: list[Candidate]) -> dict[str, Outcome]:
        self._tools.observe(Measuring(self._workload, tuple(candidates)))
        attention, batch, profile = self._workload.attention, self._workload.batch, self._tools.profile
        answers = self._tools.measurer.measure(
            attention,
            batch,
            candidates,
            seed=self._tools.seed,
            repeats=self._plan.repeats,
            deadline=self._share.deadline,
        )
        outcomes = dict(answers)
        if self._tools.measurer.environment().source != "simulated":
            outcomes = {key: checked(attention, batch, outcome, profile) for key, outcome in answers.items()}
        self._share.budget.spend(len(outcomes))
        for candidate in candidates:
            outcome = outcomes.get(candidate.key)
            if isinstance(outcome, Measured):
                self._tools.cost.seen(candidate, outcome)
        return outcomes

    def _confirm(self) -> bool:
        """Measure close candidates again, with fresh repeats; False while another worker does."""
        while len(self._session.confirmations()) < MAX_CONFIRMATIONS:
            close = self._close()
            if not close or self._share.exhausted:
                return True
            if not self._session.claim_confirmation():
                return not self._waits()
            outcomes = self._measure(close)
            for candidate in close:
                if candidate.key in outcomes:
                    self._tools.record(self._workload, candidate, outcomes[candidate.key])
            self._session.confirm({c.key: _seconds(outcomes[c.key]) for c in close if c.key in outcomes})
        return True

    def _times(self) -> dict[str, tuple[float, ...]]:
        """Repeats that decide: fresh ones where there are any, since the first ones chose what was measured again."""
        times = {key: k.seconds for key, k in self._session.known().items()}
        fresh: dict[str, tuple[float, ...]] = {}
        for confirmation in self._session.confirmations():
            for key, seconds in confirmation.items():
                fresh[key] = fresh.get(key, ()) + seconds if seconds else ()
        return {key: seconds for key, seconds in {**times, **fresh}.items() if seconds}

    def _close(self) -> list[Candidate]:
        """Candidates whose order is not clear yet, among all and among those that SGLang's flags reach."""
        space, times, groups = self._space, self._times(), self._groups()
        reachable = [c for c in space.candidates if c.key in space.reachable]
        both = [*undecided(space.candidates, space.default, times, groups)]
        if space.default.key in space.reachable:
            both += undecided(reachable, space.default, times, groups)
        return list({c.key: c for c in both}.values())

    def _groups(self) -> dict[str, str]:
        """Candidate to the group that its deciding repeats were measured in."""
        groups = {key: k.group for key, k in self._session.known().items()}
        for confirmation in self._session.confirmations():
            groups |= dict.fromkeys(confirmation, "confirmation")
        return groups

    def _finish(self) -> Row:
        known = self._session.known()
        attention, batch = self._workload.attention, self._workload.batch
        rejections = self._tools.measurer.rejections(attention, batch, self._tools.profile)
        found = Findings(
            space=self._space,
            predictions=self._predictions,
            known=known,
            times=self._times(),
            skipped=len(self._strategy.cannot_win(known)),
            complete=self._complete,
            implementation=partial(self._tools.measurer.implementation_of, attention=attention, batch=batch),
            notes=self._notes(known),
            rejections={backend: "; ".join(r.reasons) for backend, r in rejections.items()},
        )
        row = assemble(self._workload, found)
        self._tools.observe(Finished(self._workload, row))
        return row

    def _notes(self, known: Mapping[str, Known]) -> tuple[str, ...]:
        """Say what the budget left out."""
        cut = [key for key in dict.fromkeys(self._cut) if key not in known]
        more = f" and {len(cut) - NAMED} more" if len(cut) > NAMED else ""
        return (f"the budget ended before {', '.join(cut[:NAMED])}{more} could be run",) if cut else ()

    def _observe(self, outcomes: list[tuple[Candidate, Outcome]]) -> None:
        times = self._times()
        best = min(times, key=lambda key: timing(times[key]).seconds, default=None)
        found = self._space.by_key()[best] if best else None
        seconds = timing(times[best]).seconds if best else None
        for candidate, outcome in outcomes:
            self._tools.observe(Tried(self._workload, candidate, outcome, found, seconds))


def _seconds(outcome: Outcome) -> tuple[float, ...]:
    return outcome.seconds if isinstance(outcome, Measured) else ()
