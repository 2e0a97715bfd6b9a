"""Predicted against measured: every row as a point, and the errors by backend and phase."""

from cli.report.charts import Axis, Series, XYChart, log_ticks
from cli.report.palette import colour_of
from cli.report.source import Source
from cli.report.tables import Cell, Column, DataTable, TableRow, number
from cli.report.words import PHASE_NAMES, batch_name, knob_text, microseconds, percent, shape_name
from costmodel.accuracy import Row, grouped, summarize

MOST_POINTS = 1500
"""Points that are drawn; of more, every n-th is. The table counts all."""
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0)
EDGE = 2.0
"""Points further off than this factor are drawn at the edge, lest one of them flatten all others."""


def judged(source: Source) -> list[Row]:
    """Rows that the parameters were not fitted on; all of them where none are left."""
    held_out = [r for r in source.rows if not r.fitted]
    return held_out or list(source.rows)


def accuracy_chart(source: Source) -> XYChart:
    """Draw the ratio of predicted to measured latency, so that errors look alike at every length."""
    rows = judged(source)
    total = summarize(rows)
    step = -(-len(rows) // MOST_POINTS)
    drawn = rows[::step]
    low, high = min(r.measured for r in rows) * 0.8e6, max(r.measured for r in rows) * 1.25e6
    ratios = [_ratio(r) for r in drawn]
    outside = sum(not 1 / EDGE <= r.prediction.seconds / r.measured <= EDGE for r in drawn)
    beyond = f"; {outside} beyond a factor of {EDGE:g}, drawn at the edge" if outside else ""
    lines = [
        Series("equal", (low, high), (1.0, 1.0), "ink", "line"),
        Series("10 % too long", (low, high), (1.1, 1.1), "muted", "dash"),
        Series("10 % too short", (low, high), (0.9, 0.9), "muted", "dash"),
    ]
    points = [_points(backend, own) for (backend,), own in grouped(drawn, lambda r: (r.backend,)).items()]
    return XYChart(
        name="accuracy",
        title=f"Predicted over measured latency{beyond}",
        alt=f"{len(drawn)} of {len(rows)} rows: median error {percent(total.median)}, "
        f"{percent(total.coverage, 0)} of measurements inside the 90 % interval{beyond}",
        x=Axis("measured µs", log=True, ticks=log_ticks(low, high)),
        y=Axis("predicted over measured", log=True, ticks=_levels(min(ratios), max(ratios))),
        series=(*lines, *points),
    )


def _levels(low: float, high: float) -> tuple[tuple[float, str], ...]:
    return tuple((v, f"{v:g}") for v in LEVELS if low * 0.9 <= v <= high * 1.1)


def _ratio(r: Row) -> float:
    return min(EDGE, max(1 / EDGE, r.prediction.seconds / r.measured))


def _points(backend: str, rows: list[Row]) -> Series:
    return Series(
        name=backend,
        x=tuple(r.measured * 1e6 for r in rows),
        y=tuple(_ratio(r) for r in rows),
        colour=colour_of(backend),
        hover=tuple(_hover(r) for r in rows),
        tags={
            "shape": tuple(shape_name(r.attention) for r in rows),
            "phase": tuple(r.phase for r in rows),
            "backend": backend,
        },
    )


def _hover(r: Row) -> str:
    knobs = knob_text(r.backend, r.knobs)
    return (
        f"{r.backend} {knobs}<br>{shape_name(r.attention)}<br>{PHASE_NAMES[r.phase]} {batch_name(r.batch)}"
        f"<br>measured {microseconds(r.measured)}, predicted {microseconds(r.prediction.seconds)}"
    )


def accuracy_table(source: Source) -> DataTable:
    """Summarize errors by backend and phase, and over all rows."""
    rows = judged(source)
    own = "not fitted on" if not rows[0].fitted else "all of which the model was fitted on"
    groups = {**grouped(rows, lambda r: (r.backend, r.phase)), ("all", ""): rows}
    lines = []
    for (backend, phase), group in groups.items():
        s = summarize(group)
        shares = (s.median, s.mean, s.p95, s.within, s.coverage, s.roofline, s.noise)
        colour = None if backend == "all" else colour_of(backend)
        tags = {} if backend == "all" else {"backend": backend, "phase": phase}
        cells = (
            Cell(backend, colour=colour),
            Cell(PHASE_NAMES.get(phase, "")),
            number(s.rows, f"{s.rows:,}"),
            *(number(share, percent(share)) for share in shares),
        )
        lines.append(TableRow(cells, tags))
    names = ("rows", "median error", "mean error", "95th percentile", "within 10 %", "in 90 % interval")
    columns = (
        Column("backend"),
        Column("phase"),
        *(Column(n, number=True) for n in (*names, "roofline error", "noise")),
    )
    return DataTable("accuracy-table", f"Errors of {len(rows):,} rows, {own}", columns, tuple(lines))
