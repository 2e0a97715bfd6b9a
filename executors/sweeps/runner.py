"""Measure workloads one after the other and hand every outcome on."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from executors.measurer import Measurer
from executors.outcome import Candidate, Failed, Measured, Outcome
from executors.sweeps.sets import Workload

Task = tuple[Workload, Sequence[Candidate]]
Outcomes = Sequence[tuple[Candidate, Outcome]]
Writer = Callable[[Workload, Outcomes], None]
PROGRESS_SECONDS = 10.0


@dataclass(slots=True)
class Tally:
    """What a sweep has done so far."""

    started: float = field(default_factory=time.monotonic)
    workloads: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        """Outcomes so far."""
        return self.outcomes.total()

    def count(self, outcome: Outcome) -> None:
        """Add one outcome."""
        match outcome:
            case Measured():
                self.outcomes["measured"] += 1
            case Failed(kind):
                self.outcomes[kind] += 1
            case _:
                self.outcomes["rejected"] += 1

    def line(self, total: int) -> str:
        """Say it in one line."""
        seconds = time.monotonic() - self.started
        kinds = ", ".join(f"{n} {kind}" for kind, n in self.outcomes.most_common())
        each = f"{seconds / self.rows:.3f} s a row" if self.rows else "no rows"
        return f"{self.workloads}/{total} workloads, {self.rows} rows in {seconds:.0f} s ({each}): {kinds}"


def sweep(
    measurer: Measurer,
    tasks: Sequence[Task],
    write: Writer,
    *,
    seed: int = 0,
    repeats: int = 7,
    deadline: float | None = None,
    log: Callable[[str], None] = print,
) -> Tally:
    """Measure tasks in order.

    Args:
        measurer: Gives outcomes of one workload's candidates together.
        tasks: Workloads and what to measure for each.
        write: Takes a workload's outcomes as soon as it is done.
        seed: Draws inputs; each workload has its own from it.
        repeats: Latency samples.
        deadline: `time.monotonic()` after which no further candidate is begun.
        log: Takes progress lines and what failed.
    """
    tally, shown = Tally(), time.monotonic()
    for index, (workload, found) in enumerate(tasks):
        if deadline is not None and time.monotonic() >= deadline:
            break
        outcomes = measurer.measure(
            workload.attention, workload.batch, found, seed=seed + index, repeats=repeats, deadline=deadline
        )
        ended = [(candidate, outcomes[candidate.key]) for candidate in found if candidate.key in outcomes]
        write(workload, ended)
        for candidate, outcome in ended:
            tally.count(outcome)
            if isinstance(outcome, Failed):
                log(f"{describe(workload)} {candidate.key}: {outcome.kind}: {outcome.message[:160]}")
        tally.workloads += 1
        if time.monotonic() - shown > PROGRESS_SECONDS:
            shown = time.monotonic()
            log(tally.line(len(tasks)))
    log(tally.line(len(tasks)))
    return tally


def describe(workload: Workload) -> str:
    """Name a workload in a few characters: `decode 32/8x128 b16 kv4096 p64`."""
    a, b = workload.attention, workload.batch
    heads = f"{a.num_qo_heads}/{a.num_kv_heads}x{a.head_dim}"
    query = "" if max(b.q_lens) == 1 else f" q{max(b.q_lens)}"
    return f"{b.phase} {heads} b{b.size}{query} kv{max(b.kv_lens)} p{b.page_size}"
