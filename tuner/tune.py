"""One tuning run: every workload searched within the budget, every finished answer saved at once."""

import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from costmodel import Attention
from tuner.attention_fields import attention_fields
from tuner.budget import Budget
from tuner.configuration import Configuration, Provenance, write_atomically
from tuner.events import Note, Started
from tuner.filename import slug
from tuner.heart import Heart
from tuner.request import Request
from tuner.row import Row
from tuner.search import Tools, search, study_name
from tuner.seats import Seats
from tuner.space import NoCandidate
from tuner.target import Target
from tuner.workload import Workload

PAUSE_SECONDS = 1.0
"""Between two looks at what other workers still measure."""


class StudyExists(ValueError):
    """A study of the same name is there and was not asked to go on."""


class NothingRuns(Exception):
    """No backend can run any of the workloads here."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a run found."""

    rows: tuple[tuple[Workload, Row], ...]
    files: tuple[Path, ...]
    recovered: int
    """Trials of a killed run that were run again."""
    trials: int
    seconds: float
    left_out: tuple[str, ...]
    """Workloads that no backend can run, with the reasons."""


def tune(request: Request, tools: Tools, budget: Budget, out: Path, provenance: Provenance) -> Result:
    """Search all workloads and save one configuration per attention shape.

    Args:
        request: What to tune.
        tools: Measurer, storage and the rest.
        budget: Trials and seconds for all workloads together.
        out: Folder of the configurations.
        provenance: Who asked for it; what the run itself knows is filled in.

    Raises:
        ConfigurationError: The folder cannot be written, or holds a damaged file in the place of a result.
        NothingRuns: No backend can run any workload; the message says why.
    """
    device = tools.measurer.environment().recorded()
    check_folder(out)
    profile = "cpu" if tools.profile.kind == "cpu" else tools.profile.id
    provenance = provenance.model_copy(update={"profile": profile})
    saved = {a: _target(a, request, tools, out, provenance) for a in request.attentions}
    tools.observe(Started(request.workloads, device.name))
    rows: dict[Workload, Row] = {}
    left_out: list[str] = []
    waiting = deque(request.workloads)
    seats = Seats(tools.store, f"{tools.prefix}/{slug(device.name)}/seats", tools.owner, tools.grace_seconds)
    with Heart(tools.store.claims, tools.owner):
        while waiting:
            workload = seats.next(waiting)
            try:
                row = search(workload, tools, budget.share(len(waiting) + 1))
            except NoCandidate as error:
                left_out.append(f"{workload.spec}: {error}")
                tools.observe(Note(left_out[-1]))
                continue
            finally:
                seats.leave(workload)
            if row is None:
                waiting.append(workload)
                time.sleep(PAUSE_SECONDS / len(waiting))
                continue
            rows[workload] = row
            saved[workload.attention].add(row)
    for each in saved.values():
        each.fill(tools.profile)
    if not rows:
        raise NothingRuns("no backend can run any of these workloads here: " + "; ".join(left_out))
    files = tuple(s.path for s in saved.values() if s.written)
    in_order = tuple((w, rows[w]) for w in request.workloads if w in rows)
    return Result(in_order, files, tools.recovered, budget.used_trials, budget.elapsed, tuple(left_out))


def check_new(request: Request, tools: Tools) -> None:
    """See that no study of the request exists.

    Raises:
        StudyExists: One does; the message says how to go on.
    """
    device = tools.measurer.environment().recorded()
    names = tools.store.names()
    for workload in request.workloads:
        name = study_name(tools.prefix, device, workload)
        if any(known.startswith(name) for known in names):
            raise StudyExists(
                f"the storage {tools.store.shown} already holds a study of {workload.spec} under the prefix "
                f"{tools.prefix!r}: go on with --resume, or take another --study or --out"
            )


def check_folder(folder: Path) -> None:
    """See that a file can be written there, before any time is spent.

    Raises:
        ConfigurationError: It cannot.
    """
    probe = folder / f".attnroof-probe-{id(folder)}"
    write_atomically(probe, "")
    probe.unlink(missing_ok=True)


def _target(attention: Attention, request: Request, tools: Tools, out: Path, provenance: Provenance) -> Target:
    empty = Configuration(
        device=tools.measurer.environment().recorded(),
        attention=attention_fields(attention),
        page_size=request.page_size,
        provenance=provenance.model_copy(update={"layers": request.layers(attention)}),
    )
    return Target(empty, out)
