"""Progress of a tuning run on stderr: a live bar with the best so far on a terminal, plain lines elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cli.output import stderr_console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from tuner.events import Event, Observer
    from tuner.workload import Workload


@contextmanager
def progress() -> "Iterator[Observer]":
    """Show progress while the block runs; gives what the tuner reports to."""
    console = stderr_console()
    if not console.is_terminal:
        yield _Lines(console)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[best]}"),
    )
    with Progress(*columns, console=console, transient=False) as bars:
        yield _Bars(bars)


class _Lines:
    """One line for each thing that happened."""

    def __init__(self, console: "Console") -> None:
        self._console = console

    def __call__(self, event: "Event") -> None:
        from tuner.events import Finished, Measuring, Note, Searching, Started, Tried

        match event:
            case Started(workloads=workloads, device=device):
                self._say(f"{len(workloads)} workloads on {device}")
            case Searching(workload=workload, candidates=candidates, known=known):
                again = f", {known} known from before" if known else ""
                self._say(f"{_title(workload)}: {candidates} candidates{again}")
            case Tried(candidate=candidate, outcome=outcome, best=best, best_seconds=seconds):
                so_far = f"; best {best.key} {_time(seconds)}" if best and seconds else ""
                self._say(f"  {candidate.key}: {outcome_text(outcome)}{so_far}")
            case Finished(workload=workload, row=row):
                self._say(f"{_title(workload)}: {row.best.candidate.key} ({row.status}; {row.counts})")
            case Note(text=text):
                self._say(f"note: {text}")
            case Measuring():
                pass

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)


class _Bars:
    """One bar for the workloads, one line for what runs now."""

    def __init__(self, bars: "Progress") -> None:
        self._bars = bars
        self._all = bars.add_task("workloads", total=None, best="")
        self._now = bars.add_task("", total=None, best="", visible=False)

    def __call__(self, event: "Event") -> None:
        from tuner.events import Finished, Measuring, Note, Searching, Started, Tried

        bars = self._bars
        match event:
            case Started(workloads=workloads, device=device):
                bars.update(self._all, total=len(workloads), description=f"workloads on {device}")
            case Searching(workload=workload, candidates=candidates, known=known):
                bars.update(
                    self._now, total=candidates, completed=known, description=_title(workload), best="", visible=True
                )
            case Measuring(candidates=candidates):
                bars.update(self._now, best=f"running {', '.join(sorted({c.backend for c in candidates}))} ...")
            case Tried(best=best, best_seconds=seconds):
                text = f"best {best.key} {_time(seconds)}" if best and seconds else ""
                bars.update(self._now, advance=1, best=text)
            case Finished(workload=workload, row=row):
                bars.update(self._all, advance=1, best=f"{workload.spec}: {row.best.candidate.key}")
                bars.update(self._now, visible=False)
            case Note(text=text):
                bars.console.print(f"note: {text}", markup=False)


def outcome_text(outcome: object) -> str:
    """Say in a few words how a run ended."""
    from executors.outcome import Failed, Measured, Rejected
    from tuner.noise import timing

    match outcome:
        case Measured(seconds=seconds):
            spread = timing(seconds)
            return f"{_time(spread.seconds)} (+-{100 * spread.noise:.1f} %)"
        case Rejected(reasons=reasons):
            return f"rejected: {'; '.join(reasons)}"
        case Failed(kind=kind, message=message):
            return f"{kind}: {' '.join(message.split())[:120]}"
    return ""


def _title(workload: "Workload") -> str:
    return f"{workload.batch.phase} {workload.spec}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{1e3 * seconds:.2f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.1f} us"
