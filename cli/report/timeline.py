"""How tiles and splits fill the device over time, before and after tuning, as the model schedules them."""

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush

from cli.report.charts import Bar, Panel, TimelineChart
from cli.report.source import Source, Workload
from cli.report.splits import best_row, default_row, main_backend, most_telling
from cli.report.words import PHASE_NAMES, batch_name, count_of, knob_text, microseconds, percent
from costmodel import KnobValue
from costmodel.accuracy import Row
from costmodel.explain import Explanation, explain
from hwprofiles import Profile

MOST_JOBS = 2500
"""Jobs that are drawn one by one; of more, each slot is one bar."""
UNEVEN = ("memory", "compute", "softmax", "latency")


def timelines(source: Source) -> list[TimelineChart]:
    """Draw, for each shape, the default and the best measured candidate of its most telling workload.

    Records are asked where a split count gains most; a configuration, where its best choice gains most.
    """
    charts = []
    for shape, workloads in source.shapes.items():
        swept = most_telling(workloads)
        tuned = max((w for w in workloads if w.defaults), key=_gain, default=None) if source.configurations else None
        pairs = ((w, pair(w)) for w, pair in ((swept, before_after), (tuned, fastest_pair)) if w is not None)
        found = next(((w, pair) for w, pair in pairs if pair is not None), None)
        if found is not None:
            charts.append(_chart(source.profile, shape, *found))
    return charts


def fastest_pair(w: Workload) -> tuple[Row, Row] | None:
    """Give the fastest default and the fastest candidate; None where they are the same."""
    default = next(iter(w.defaults.values()))
    return None if default is w.best else (default, w.best)


def _gain(w: Workload) -> float:
    return next(iter(w.defaults.values())).measured / w.best.measured


def before_after(w: Workload) -> tuple[Row, Row] | None:
    """Give the default and the best count of the backend whose counts were measured; None where they are the same."""
    backend = main_backend(w)
    own, best = default_row(w, backend), best_row(w, backend)
    if own is None or own.prediction.num_splits == best.prediction.num_splits:
        return None
    return own, best


def _chart(profile: Profile, shape: str, w: Workload, pair: tuple[Row, Row]) -> TimelineChart:
    panels = []
    for word, row in zip(("Default", "Tuned"), pair, strict=True):
        found = take_apart(profile, w, row.backend, row.knobs)
        knobs = knob_text(row.backend, row.knobs) or "default knobs"
        busy = busy_share(found)
        title = (
            f"{word}: {row.backend}, {knobs}, {count_of(found.prediction.num_splits, 'split')}: "
            f"{microseconds(row.measured)} measured, {microseconds(found.prediction.seconds)} predicted, "
            f"slots {percent(busy, 0)} busy while tiles run"
        )
        panels.append(Panel(title, found.slots, tuple(bars(found))))
    gain = pair[0].measured / pair[1].measured
    device = count_of(profile.num_sms or 1, profile.sm_kind)
    return TimelineChart(
        name="timeline",
        title=f"{PHASE_NAMES[w.batch.phase].capitalize()} {batch_name(w.batch)} on {device}: {gain:.2f}×",
        alt=f"{shape}: " + "; ".join(panel.title for panel in panels),
        panels=tuple(panels),
        tags={"shape": shape},
    )


def take_apart(profile: Profile, w: Workload, backend: str, knobs: Mapping[str, KnobValue]) -> Explanation:
    """Explain one candidate of a workload."""
    return explain(w.attention, w.batch, backend=backend, profile=profile, knobs=knobs)


def busy_share(found: Explanation) -> float:
    """Share of slot time with work, from the start of the tiles to the end of the last."""
    longest = found.loads[-1][0]
    return sum(load * width for load, width in found.loads) / (longest * found.slots)


def bars(found: Explanation) -> list[Bar]:
    """Draw launch, tiles and merge; tiles are drawn at an even pace."""
    parts = {name: seconds * 1e6 for name, seconds in found.prediction.breakdown.items()}
    start, merge = parts.get("floor", 0.0) + parts.get("overhead", 0.0), parts.get("merge", 0.0)
    span = sum(parts.get(name, 0.0) for name in UNEVEN) + parts.get("limit", 0.0)
    pace = span / found.loads[-1][0]
    drawn = []
    waves: dict[int, int] = {}
    for slot, begin, length in schedule(found):
        wave = waves.get(slot, 0)
        waves[slot] = wave + 1
        drawn.append(Bar(slot, start + pace * begin, pace * length, "tiles", wave % 2))
    drawn += [Bar(slot, 0.0, start, "launch") for slot in range(found.slots)]
    if merge:
        drawn += [Bar(slot, start + span, merge, "merge") for slot in range(found.slots)]
    return drawn


def schedule(found: Explanation) -> Iterable[tuple[int, float, float]]:
    """Give `(slot, start, length)` in tiles: jobs in launch order, each to the slot that is free first."""
    plan = found.plan
    if plan.assigned or plan.job_count > MOST_JOBS:
        slot = found.slots
        for load, width in found.loads:
            for _ in range(width):
                slot -= 1
                yield slot, 0.0, load
        return
    free: list[tuple[float, int]] = [(0.0, slot) for slot in range(found.slots)]
    for count, tiles in plan.jobs:
        length = tiles + found.job_tiles
        for _ in range(count):
            start, slot = heappop(free)
            yield slot, start, length
            heappush(free, (start + length, slot))
