"""Latency against split count for two workloads a shape, the library's own and the best count marked."""

from collections.abc import Sequence

from cli.report.charts import Axis, Mark, Series, XYChart, log_ticks
from cli.report.palette import colour_of
from cli.report.source import Source, Workload
from cli.report.words import PHASE_NAMES, batch_name, count_of, microseconds
from costmodel.accuracy import Row
from costmodel.explain import explain
from costmodel.splits import SPLIT_KNOB
from hwprofiles import Profile

LEAST_COUNTS = 4
OWN_CHOICE = {"triton": 8}
"""Knob value that leaves the count to the library; 0 for backends that are not listed."""


def split_charts(source: Source) -> list[XYChart]:
    """Draw, for each shape, where the best count gains most over the library's own, and where counts differ most."""
    charts = []
    for shape, workloads in source.shapes.items():
        swept = swept_workloads(workloads)
        if swept:
            pair = {w.batch: w for w in (max(swept, key=_gain), max(swept, key=_spread))}
            charts += [_chart(source.profile, shape, w) for w in pair.values()]
    return charts


def swept_workloads(workloads: Sequence[Workload]) -> list[Workload]:
    """Give the even workloads with enough measured counts."""
    return [w for w in workloads if w.batch.uniform and any(len(_counts(w, b)) >= LEAST_COUNTS for b in SPLIT_KNOB)]


def most_telling(workloads: Sequence[Workload]) -> Workload | None:
    """Give the even workload where the best measured count gains most over the library's own."""
    return max(swept_workloads(workloads), key=_gain, default=None)


def main_backend(w: Workload) -> str:
    """Give the backend with the most measured counts."""
    return max(SPLIT_KNOB, key=lambda name: len(_counts(w, name)))


def default_row(w: Workload, backend: str) -> Row | None:
    """Give the measurement that leaves the count to the library."""
    return w.defaults.get(backend)


def best_row(w: Workload, backend: str) -> Row:
    """Give the fastest measured count."""
    rows = [*_counts(w, backend).values(), *([w.defaults[backend]] if backend in w.defaults else [])]
    return min(rows, key=lambda r: r.measured)


def _gain(w: Workload) -> float:
    backend = main_backend(w)
    own = default_row(w, backend)
    return own.measured / best_row(w, backend).measured if own else 0.0


def _spread(w: Workload) -> float:
    times = [row.measured for row in _counts(w, main_backend(w)).values()]
    return max(times) / min(times)


def _counts(w: Workload, backend: str) -> dict[int, Row]:
    """Measured rows by literal split count; other knobs at their defaults."""
    knob, own = SPLIT_KNOB[backend], OWN_CHOICE.get(backend, 0)
    found: dict[int, Row] = {}
    for row in w.rows:
        value = row.knobs.get(knob)
        literal = isinstance(value, int) and value > 0 and (value != own or row.knobs.get("split_mode") == "fixed")
        plain = row.knobs.get("pack_gqa", "auto") == "auto" and row.knobs.get("scheduler_metadata") != "per_call"
        if row.backend == backend and isinstance(value, int) and literal and plain:
            found.setdefault(value, row)
    return dict(sorted(found.items()))


def _chart(profile: Profile, shape: str, w: Workload) -> XYChart:
    series: list[Series] = []
    for backend in SPLIT_KNOB:
        counts = _counts(w, backend)
        if len(counts) >= LEAST_COUNTS:
            series += [*_predicted(profile, w, backend), _measured(w, backend, counts)]
    backend = main_backend(w)
    own, best = default_row(w, backend), best_row(w, backend)
    chosen = best.prediction.num_splits
    marks = [Mark(chosen, f"best: {chosen}", colour_of(backend))]
    words = f"{batch_name(w.batch)}: {backend} takes {microseconds(best.measured)} with {count_of(chosen, 'split')}"
    if own is not None and own.prediction.num_splits != chosen:
        usual = own.prediction.num_splits
        marks.append(Mark(usual, f"library: {usual}", "muted"))
        words += f", {microseconds(own.measured)} with its own {usual}"
    elif own is not None:
        words += ", its own choice"
    times = [t for s in series for t in s.y]
    return XYChart(
        name="splits",
        title=f"{PHASE_NAMES[w.batch.phase].capitalize()} {words}",
        alt=f"{shape}, {words}",
        x=Axis("KV splits", log=True, ticks=tuple((2.0**k, str(2**k)) for k in range(9))),
        y=Axis("µs", log=True, ticks=log_ticks(min(times) * 0.9, max(times) * 1.1)),
        series=tuple(series),
        marks=tuple(marks),
        tags={"shape": shape},
    )


def _predicted(profile: Profile, w: Workload, backend: str) -> list[Series]:
    found = explain(w.attention, w.batch, backend=backend, profile=profile).splits
    if found is None:
        return []
    x, y = tuple(map(float, found.seconds)), tuple(s * 1e6 for s in found.seconds.values())
    return [Series(f"{backend}, predicted", x, y, colour_of(backend), "line", tags={"backend": backend})]


def _measured(w: Workload, backend: str, counts: dict[int, Row]) -> Series:
    rows = counts.values()
    return Series(
        name=f"{backend}, measured",
        x=tuple(map(float, counts)),
        y=tuple(r.measured * 1e6 for r in rows),
        colour=colour_of(backend),
        hover=tuple(f"{backend}, {n} splits: {microseconds(r.measured)}" for n, r in counts.items()),
        low=tuple(r.measured * (1 - r.noise / 2) * 1e6 for r in rows),
        high=tuple(r.measured * (1 + r.noise / 2) * 1e6 for r in rows),
        tags={"backend": backend},
    )
