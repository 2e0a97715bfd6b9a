"""The tables of choices: measured winners by workload, and what cannot run here and why."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cli.report.palette import colour_of
from cli.report.source import Source, Workload
from cli.report.tables import Cell, Column, DataTable, TableRow, number
from cli.report.words import PHASE_NAMES, batch_name, count_of, knob_text, microseconds, percent, shape_name
from costmodel import Attention
from costmodel.emulators import EMULATORS
from costmodel.library import OWN_KERNELS, library_reasons

if TYPE_CHECKING:
    from tuner.row import Choice
    from tuner.row import Row as TunedRow


def winners_table(source: Source) -> DataTable:
    """List the measured winner of every workload, against the runner-up and against the defaults."""
    names = ("measured", "predicted", "next backend", "best default", OWN_KERNELS, "noise")
    columns = (
        Column("workload"),
        Column("phase"),
        Column("winner"),
        Column("knobs"),
        *(Column(name, number=True) for name in names),
    )
    rows = tuple(_winner(w) for w in source.workloads)
    return DataTable(
        "winners-table",
        f"Fastest measured candidate of {count_of(len(rows), 'workload')}; × is another's time over the winner's",
        columns,
        rows,
    )


def _winner(w: Workload) -> TableRow:
    best = w.best
    others = [r.measured for r in w.rivals if r.backend != best.backend]
    default = next(iter(w.defaults.values()), None)
    lead = min(others) / best.measured if others else None
    gain = default.measured / best.measured if default else None
    own = w.own.measured / best.measured if w.own and w.own is not best else None
    cells = (
        Cell(batch_name(w.batch), order=w.batch.total_kv),
        Cell(PHASE_NAMES[w.batch.phase]),
        Cell(best.backend, colour=colour_of(best.backend)),
        Cell(knob_text(best.backend, best.knobs) or "default"),
        number(best.measured, microseconds(best.measured)),
        number(best.prediction.seconds, microseconds(best.prediction.seconds)),
        number(lead, f"{lead or 0:.2f}×"),
        number(gain, f"{gain or 0:.2f}×"),
        number(own, f"{own or 0:.2f}×"),
        number(best.noise, percent(best.noise)),
    )
    return TableRow(cells, {"shape": w.shape, "phase": w.batch.phase, "backend": best.backend})


def rejected_table(source: Source) -> DataTable:
    """List backends that cannot run a shape on this device, and runs that gave no time."""
    found: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for shape, workloads in source.shapes.items():
        samples = {w.batch.phase: w for w in sorted(workloads, key=lambda w: w.batch.page_size)}
        for phase, sample in samples.items():
            for name in EMULATORS:
                reasons = library_reasons(name, sample.attention, sample.batch, source.profile)
                if reasons:
                    found[name, "; ".join(reasons)].add((phase, shape))
    lines = [_rejected(key, where) for key, where in sorted(found.items())]
    failed: Counter[tuple[str, str, str, str]] = Counter(
        (r.backend, r.batch.phase, r.outcome, r.reason or "no reason recorded")
        for r in source.records
        if r.outcome != "measured"
    )
    failed.update(_told(source))
    lines += [_failed(key, count) for key, count in sorted(failed.items())]
    columns = (Column("backend"), Column("reason"), Column("phases"), Column("where"))
    return DataTable("rejected-table", "What cannot run, by the rules of the library calls", columns, tuple(lines))


def _told(source: Source) -> Iterator[tuple[str, str, str, str]]:
    """Give what configurations say about candidates without a time: backend, phase, what and why."""
    for configuration in source.configurations:
        for row in configuration.rows:
            for name, why in row.failures.items():
                outcome, _, reason = why.partition(": ")
                yield name.partition("[")[0], row.phase, outcome, reason or "no reason recorded"


def tuned_table(source: Source) -> DataTable:
    """List the rows of configurations: what wins, what the server can be told, its default, and what is gained."""
    columns = (
        Column("batch"),
        Column("phase"),
        Column("best"),
        Column("best by SGLang's flags"),
        Column("SGLang's default"),
        *(Column(name, number=True) for name in ("latency", "gain over default", "noise")),
        Column("status"),
    )
    rows = [
        _tuned(configuration.to_attention(), row)
        for configuration in source.configurations
        for row in configuration.rows
    ]
    return DataTable(
        "tuned-table", f"{count_of(len(rows), 'batch', 'batches')} of the configuration", columns, tuple(rows)
    )


def _tuned(attention: Attention, row: "TunedRow") -> TableRow:
    latency = row.best.latency_us
    cells = (
        Cell(row.spec, order=row.batch_size * row.kv_len),
        Cell(PHASE_NAMES[row.phase]),
        *(_choice(choice) for choice in (row.best, row.best_sglang, row.sglang_default)),
        number(latency, microseconds((latency or 0) * 1e-6)),
        number(row.gain, f"{row.gain or 0:.2f}×"),
        number(row.noise, percent(row.noise or 0)),
        Cell(row.status),
    )
    return TableRow(cells, {"shape": shape_name(attention), "phase": row.phase})


def _choice(choice: "Choice | None") -> Cell:
    if choice is None:
        return Cell("–")
    return Cell(f"{choice.backend} {knob_text(choice.backend, choice.knobs)}".strip(), colour=colour_of(choice.backend))


def _rejected(key: tuple[str, str], where: set[tuple[str, str]]) -> TableRow:
    name, reason = key
    phases = [p for p in PHASE_NAMES if p in {phase for phase, _ in where}]
    shapes = sorted({shape for _, shape in where})
    cells = (
        Cell(name, colour=colour_of(name)),
        Cell(reason),
        Cell(", ".join(PHASE_NAMES[p] for p in phases)),
        Cell(shapes[0] if len(shapes) == 1 else f"{len(shapes)} shapes"),
    )
    return TableRow(cells, {"phases": tuple(phases), "shapes": tuple(shapes)})


def _failed(key: tuple[str, str, str, str], count: int) -> TableRow:
    name, phase, outcome, reason = key
    cells = (Cell(name, colour=colour_of(name)), Cell(f"{outcome}: {reason[:300]}"), Cell(PHASE_NAMES[phase]))
    return TableRow((*cells, Cell(count_of(count, "run"))), {"phase": phase})
