"""Which workload each worker of a fleet searches, so that they work on different ones as long as there are enough."""

from collections import deque
from dataclasses import dataclass

from tuner.claims import Claim
from tuner.owner import Owner
from tuner.store import Store
from tuner.workload import Workload


@dataclass(frozen=True, slots=True)
class Seats:
    """Seats of one fleet: a worker sits at the workload that it searches, and others take another first.

    A seat is a hint: two workers that share a workload still measure no candidate twice.
    """

    store: Store
    place: str
    """Names the fleet: studies and device identity."""
    owner: Owner
    grace_seconds: float
    """Silence after which a worker of another host counts as dead."""

    def next(self, waiting: deque[Workload]) -> Workload:
        """Take out of the queue the first workload that nobody else searches, or the first where each is searched."""
        return self.store.retry(lambda: self._next(waiting))

    def leave(self, workload: Workload) -> None:
        """Give up the seat at a workload, where there is one."""
        self.store.retry(lambda: self._drop(Claim(workload.key, 0, self.owner, False, 0.0)))

    def _next(self, waiting: deque[Workload]) -> Workload:
        taken = {claim.candidate for claim in self._others()}
        for workload in waiting:
            if workload.key not in taken and self.store.claims.claim(self.place, workload.key, 0, self.owner):
                waiting.remove(workload)
                return workload
        return waiting.popleft()

    def _others(self) -> list[Claim]:
        """Seats of the living; what a dead worker left is given up."""
        others = []
        for claim in self.store.claims.of(self.place):
            if claim.owner.known_dead() or claim.age > self.grace_seconds:
                self._drop(claim)
            elif claim.owner != self.owner:
                others.append(claim)
        return others

    def _drop(self, claim: Claim) -> None:
        self.store.claims.drop(self.place, claim)
