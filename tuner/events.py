"""What a running search tells its observer; the command line turns these into a progress bar."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from executors.outcome import Candidate, Outcome
from tuner.workload import Workload

if TYPE_CHECKING:
    from tuner.row import Row


@dataclass(frozen=True, slots=True)
class Started:
    """The whole run begins."""

    workloads: tuple[Workload, ...]
    device: str


@dataclass(frozen=True, slots=True)
class Searching:
    """The search of one workload begins or goes on."""

    workload: Workload
    candidates: int
    known: int
    """Candidates measured by an earlier run."""


@dataclass(frozen=True, slots=True)
class Measuring:
    """Candidates are about to be run."""

    workload: Workload
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """One candidate was run."""

    workload: Workload
    candidate: Candidate
    outcome: Outcome
    best: Candidate | None
    best_seconds: float | None


@dataclass(frozen=True, slots=True)
class Finished:
    """One workload has its answer."""

    workload: Workload
    row: "Row"


@dataclass(frozen=True, slots=True)
class Note:
    """Something a person should know."""

    text: str


Event = Started | Searching | Measuring | Tried | Finished | Note
Observer = Callable[[Event], None]


def silent(_: Event) -> None:
    """Ignore all events."""
