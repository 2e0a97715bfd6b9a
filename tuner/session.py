"""One search as several workers share it: who measures which candidate, what came out, and what a dead worker left."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, assert_never

import optuna
from optuna.trial import FrozenTrial, TrialState

from executors.outcome import Candidate, Failed, Measured, Outcome, Rejected
from tuner.noise import timing
from tuner.owner import Owner
from tuner.sampler import GuidedSampler
from tuner.space import BACKEND, Space
from tuner.store import Store
from tuner.versions import same_implementation

MAX_ATTEMPTS = 2
"""A candidate that took its worker down this often is given up."""
GRACE_SECONDS = 60.0
"""A claim on another host that was not renewed for so long, on a clock that may be set back, is a dead worker's."""
RESULT = "result"
"""Trial attribute that holds candidate, outcome, repeats, library version, group and record."""
CONFIRMATION = "#confirmation"
"""Marks the claim of a round of fresh repeats, which is no candidate."""
_TRIES = 4


@dataclass(frozen=True, slots=True)
class Ticket:
    """A candidate that this worker has claimed."""

    candidate: Candidate
    number: int
    """Optuna's trial number."""


@dataclass(frozen=True, slots=True)
class Known:
    """A candidate that some worker has measured."""

    candidate: Candidate
    seconds: tuple[float, ...]
    """Empty where it was rejected or failed."""
    outcome: str
    """`measured`, `rejected`, `incorrect`, `oom`, `timeout` or `crashed`."""
    reason: str | None
    implementation: tuple[str, str] | None
    """Library and version that it was measured with."""
    group: str = ""
    """Names the candidates that were run together, interleaved."""
    plan_seconds: float | None = None
    eager_seconds: float | None = None
    disturbed: tuple[str, ...] = ()
    """What disturbed the device meanwhile: a busy machine, throttling."""


@dataclass(frozen=True, slots=True)
class _View:
    """What a study holds while its lock is held: only this worker claims meanwhile."""

    known: dict[str, Known]
    held: set[str]


class Strategy(Protocol):
    """Where the search looks next."""

    def choose(self, session: "Session") -> Candidate | None:
        """The next candidate, or None to let Optuna's sampler choose."""
        ...

    def done(self, session: "Session") -> bool:
        """Whether nothing is left that is worth measuring."""
        ...


@dataclass(slots=True)
class Session:
    """A study of one workload on one device."""

    store: Store
    name: str
    space: Space
    strategy: Strategy
    owner: Owner
    implementation: Callable[[Candidate], tuple[str, str] | None]
    """Library and version behind a backend; results of other versions do not count."""
    seed: int = 0
    grace_seconds: float = GRACE_SECONDS
    recovered: int = 0
    """Trials of dead workers that were put back."""
    _study: optuna.Study = field(init=False)
    _mine: dict[str, Ticket] = field(default_factory=dict)
    _view: "_View | None" = None

    def __post_init__(self) -> None:
        """Open the study."""
        sampler = GuidedSampler(self.space, lambda: self.strategy.choose(self), seed=self.seed)
        self._study = self.store.study(self.name, sampler)

    def confirmations(self) -> list[dict[str, tuple[float, ...]]]:
        """Fresh repeats of close candidates, one mapping a round; an empty tuple where a candidate failed."""
        rounds = self.store.retry(lambda: self._study.user_attrs).get("confirmations", [])
        return [{key: tuple(seconds) for key, seconds in r.items()} for r in rounds]

    def confirm(self, seconds: Mapping[str, tuple[float, ...]]) -> None:
        """Store one round of fresh repeats."""
        mark = f"{CONFIRMATION}{len(self.confirmations())}"
        rounds = [*self.confirmations(), seconds]
        self.store.retry(lambda: self._study.set_user_attr("confirmations", rounds))
        self.store.retry(lambda: self.store.claims.finish(self.name, mark))

    def propose(self, candidates: Sequence[Candidate]) -> None:
        """Queue the first candidates, except those that some worker has queued, claimed or measured."""

        def action() -> None:
            with self.store.claims.lock(self.name):
                queued = [t.system_attrs.get("fixed_params") for t in self._waiting()]
                taken = self.held() | self.known().keys()
                for candidate in candidates:
                    params = self.space.params(candidate)
                    if candidate.key not in taken and params not in queued:
                        self._study.enqueue_trial(params)

        self.store.retry(action)

    def take(self, count: int) -> list[Ticket]:
        """Claim up to `count` candidates; an empty list means that nothing is left to claim."""
        tickets = self.store.retry(lambda: self._take(count))
        self._mine.update({t.candidate.key: t for t in tickets})
        return tickets

    def others_busy(self) -> bool:
        """Whether another worker holds a claim whose outcome may change the answer."""
        claims = self.store.retry(lambda: self.store.claims.of(self.name))
        return any(not c.done and c.owner != self.owner for c in claims)

    def claim_confirmation(self) -> bool:
        """Take the right to confirm; only one worker does."""
        mark = f"{CONFIRMATION}{len(self.confirmations())}"
        if self.store.retry(lambda: self.store.claims.claim(self.name, mark, -1, self.owner)):
            return True
        held = self.store.retry(lambda: self.store.claims.of(self.name))
        return any(c.candidate == mark and c.owner == self.owner and not c.done for c in held)

    def tell(self, ticket: Ticket, outcome: Outcome, **notes: str | None) -> None:
        """Store what came out; deterministic failures end as pruned, which TPE learns from.

        Args:
            ticket: What was measured.
            outcome: How it ended.
            notes: Kept with the trial: `group` measured together, `record` line.
        """
        implementation = self.implementation(ticket.candidate)
        result = {**_result(ticket.candidate, outcome), "implementation": implementation, **notes}

        def action() -> None:
            trial = self._trial(ticket.number)
            if not trial.state.is_finished():
                self.store.storage.set_trial_user_attr(trial._trial_id, RESULT, result)
                match outcome:
                    case Measured(seconds=seconds):
                        self._study.tell(ticket.number, timing(seconds).seconds, skip_if_finished=True)
                    case Rejected() | Failed():
                        self._study.tell(ticket.number, state=TrialState.PRUNED, skip_if_finished=True)
                    case _:
                        assert_never(outcome)
            self.store.claims.finish(self.name, ticket.candidate.key)

        self.store.retry(action)
        self._mine.pop(ticket.candidate.key, None)

    def put_back(self, tickets: Iterable[Ticket]) -> None:
        """Give up claims that were not used, for example at the deadline."""
        for ticket in list(tickets):
            self.store.retry(partial(self._requeue, ticket.candidate.key, ticket.number, attempt=0))
            self._mine.pop(ticket.candidate.key, None)

    def known(self) -> dict[str, Known]:
        """What any worker has measured with the versions that count, candidate key to what came out."""
        if self._view is not None:
            return self._view.known
        trials = self.store.retry(lambda: self._study.get_trials(deepcopy=False))
        out = {}
        for trial in trials:
            if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) and RESULT in trial.user_attrs:
                known = _known(trial, self.space)
                if known is not None and self._current(known):
                    out[known.candidate.key] = known
        return out

    def held(self) -> frozenset[str]:
        """Keys of all candidates that somebody measures or has measured."""
        if self._view is not None:
            return frozenset(self._view.held)
        claims = self.store.retry(lambda: self.store.claims.of(self.name))
        return frozenset(c.candidate for c in claims if not c.candidate.startswith(CONFIRMATION))

    def release_outdated(self) -> int:
        """Let candidates that other library versions were measured with be measured again; their trials stay."""
        outdated = [c for c in self.store.retry(lambda: self.store.claims.of(self.name)) if c.done]
        known = self.known()  # read last: what another worker ends meanwhile is done and known
        outdated = [c for c in outdated if c.candidate not in known and not c.candidate.startswith(CONFIRMATION)]
        for claim in outdated:
            self.store.retry(partial(self.store.claims.drop, self.name, claim))
        return len(outdated)

    def _take(self, count: int) -> list[Ticket]:
        with self.store.claims.lock(self.name):
            self._recover()
            self._view = _View(self.known(), set(self.held()))
            try:
                return self._claim(count, self._view)
            finally:
                self._view = None

    def _claim(self, count: int, view: "_View") -> list[Ticket]:
        tickets: list[Ticket] = []
        misses = 0
        while len(tickets) < count:
            if not self._waiting() and self.strategy.done(self):
                break
            ticket = self._ask()
            if ticket is None:
                misses += 1
                if misses % _TRIES == 0:
                    self._enqueue_next()
                continue
            view.held.add(ticket.candidate.key)
            if not self._suspect(ticket):
                tickets.append(ticket)
            elif tickets:
                self._requeue(ticket.candidate.key, ticket.number, attempt=0)
                break
            else:
                return [ticket]
        return tickets

    def _suspect(self, ticket: Ticket) -> bool:
        """Whether a worker died on this candidate or one of its group: it is then run alone."""
        return bool(self._trial(ticket.number).user_attrs.get("attempts"))

    def _enqueue_next(self) -> None:
        """Queue the first open candidate, where the sampler only proposes what is taken."""
        taken = self.held() | self.known().keys()
        for candidate in self.space.candidates:
            if candidate.key not in taken:
                self._study.enqueue_trial(self.space.params(candidate))
                return

    def _ask(self) -> Ticket | None:
        trial = self._study.ask()
        candidate = self._suggest(trial)
        if candidate is not None and self.store.claims.claim(self.name, candidate.key, trial.number, self.owner):
            return Ticket(candidate, trial.number)
        why = "not a candidate" if candidate is None else "measured by another trial"
        trial.set_user_attr("dropped", why)
        self._study.tell(trial, state=TrialState.FAIL)
        return None

    def _suggest(self, trial: optuna.Trial) -> Candidate | None:
        distributions = self.space.distributions()
        backend = trial.suggest_categorical(BACKEND, distributions[BACKEND].choices)
        params: dict[str, Any] = {BACKEND: backend}
        for name, distribution in distributions.items():
            if name.startswith(f"{backend}."):
                params[name] = trial.suggest_categorical(name, distribution.choices)
        return self.space.candidate(params)

    def _waiting(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,))

    def _recover(self) -> None:
        """Put back what dead workers left; the lock is held."""
        claims = self.store.claims.of(self.name)
        for claim in claims:
            if claim.done or not self._is_dead(claim.owner, claim.candidate, claim.age):
                continue
            if claim.candidate.startswith(CONFIRMATION):
                self.store.claims.drop(self.name, claim)
            else:
                trial = self._trial(claim.trial)
                if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
                    self.store.claims.finish(self.name, claim.candidate)
                else:
                    self._requeue(claim.candidate, claim.trial, attempt=1)
                    self.recovered += 1
        claimed = {c.trial for c in self.store.claims.of(self.name)}
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if trial.number not in claimed:
                self._study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
                fixed = trial.system_attrs.get("fixed_params")
                if fixed:
                    self._study.enqueue_trial(fixed, user_attrs=trial.user_attrs)

    def _is_dead(self, owner: Owner, candidate: str, age: float) -> bool:
        if owner == self.owner:
            return candidate not in self._mine
        if owner.host == self.owner.host:
            return owner.known_dead()
        return abs(age) > self.grace_seconds

    def _requeue(self, key: str, number: int, *, attempt: int) -> None:
        trial = self._trial(number)
        attempts = int(trial.user_attrs.get("attempts", 0)) + attempt
        claim = next((c for c in self.store.claims.of(self.name) if c.candidate == key and c.trial == number), None)
        candidate = self.space.by_key().get(key)
        if candidate is not None and attempts >= MAX_ATTEMPTS:
            self.tell(Ticket(candidate, number), Failed("crashed", f"its worker died {attempts} times"))
            return
        if candidate is not None:
            self._study.enqueue_trial(self.space.params(candidate), user_attrs={"attempts": attempts})
        self._study.tell(number, state=TrialState.FAIL, skip_if_finished=True)
        if claim is not None:
            self.store.claims.drop(self.name, claim)

    def _current(self, known: Known) -> bool:
        now = self.implementation(known.candidate)
        return now is None or known.implementation is None or same_implementation(known.implementation, now)

    def _trial(self, number: int) -> FrozenTrial:
        return self._study.get_trials(deepcopy=False)[number]


def _result(candidate: Candidate, outcome: Outcome) -> dict[str, Any]:
    out: dict[str, Any] = {"candidate": candidate.key}
    match outcome:
        case Measured(seconds=seconds):
            conditions = outcome.conditions
            disturbed = [
                *([conditions.busy] if conditions.busy else []),
                *(f"throttled: {t}" for t in conditions.throttle),
            ]
            more = {
                "plan_seconds": outcome.plan_seconds,
                "eager_seconds": outcome.eager_seconds,
                "disturbed": disturbed,
            }
            return {**out, "outcome": "measured", "seconds": list(seconds), **more}
        case Rejected(reasons=reasons):
            return {**out, "outcome": "rejected", "reason": "; ".join(reasons)}
        case Failed(kind=kind, message=message):
            return {**out, "outcome": kind, "reason": message[:500]}
        case _:
            assert_never(outcome)


def _known(trial: FrozenTrial, space: Space) -> Known | None:
    attrs: Mapping[str, Any] = trial.user_attrs[RESULT]
    candidate = space.by_key().get(attrs["candidate"])
    if candidate is None:
        return None
    seconds = tuple(float(s) for s in attrs.get("seconds", ()) if math.isfinite(s))
    return Known(
        candidate,
        seconds,
        attrs["outcome"],
        attrs.get("reason"),
        tuple(attrs["implementation"]) if attrs.get("implementation") else None,
        attrs.get("group", ""),
        attrs.get("plan_seconds"),
        attrs.get("eager_seconds"),
        tuple(attrs.get("disturbed", ())),
    )
