"""The roofline with every workload's fastest candidate on it, by what binds it."""

from collections import defaultdict

from cli.report.charts import Axis, Series, XYChart, log_ticks
from cli.report.palette import SYMBOLS
from cli.report.source import Source, Workload
from cli.report.words import PHASE_NAMES, batch_name, knob_text, microseconds, percent
from costmodel.work import count_work

INTENSITIES = (0.3, 20_000.0)


def roofline(source: Source) -> XYChart | None:
    """Draw achieved FLOP/s over FLOPs per byte; None where the profile has no roof."""
    profile = source.profile
    dtype = source.workloads[0].attention.dtype
    roofs = []
    if profile.memory_bytes_per_s and dtype in profile.matrix_flops_per_s:
        roofs.append(("datasheet", profile.memory_bytes_per_s, profile.matrix_flops_per_s[dtype], "line"))
    measured = profile.measured
    if measured and measured.read_bytes_per_s and dtype in measured.matrix_flops_per_s:
        roofs.append(("measured", measured.read_bytes_per_s, measured.matrix_flops_per_s[dtype], "dash"))
    if not roofs:
        return None
    lines = [_roof(name, rate, peak, style) for name, rate, peak, style in roofs]
    ridge = roofs[0][2] / roofs[0][1]
    points = _points(source)
    counts = {name: len(series.x) for name, series in points.items()}
    return XYChart(
        name="roofline",
        title=f"Roofline of {profile.name}, {dtype}",
        alt=f"Achieved rate over arithmetic intensity under the roof; ridge at {ridge:.0f} FLOP per byte; "
        f"workloads by bound: {', '.join(f'{n} {name}' for name, n in counts.items())}",
        x=Axis("FLOP per byte of least memory traffic", log=True, ticks=log_ticks(*INTENSITIES)),
        y=Axis("TFLOP/s achieved", log=True, ticks=log_ticks(1e-3, 1e4)),
        series=(*lines, *points.values()),
    )


def _roof(name: str, bytes_per_s: float, peak: float, style: str) -> Series:
    ridge = peak / bytes_per_s
    x = (INTENSITIES[0], ridge, INTENSITIES[1])
    y = tuple(min(peak, bytes_per_s * i) / 1e12 for i in x)
    text = f"{name}: {bytes_per_s / 1e12:.2f} TB/s, {peak / 1e12:.0f} TFLOP/s, ridge at {ridge:.0f} FLOP/byte"
    return Series(f"{name} roof", x, y, "ink", "dash" if style == "dash" else "line", hover=(text,) * 3)


def _points(source: Source) -> dict[str, Series]:
    groups: dict[str, list[Workload]] = defaultdict(list)
    for workload in source.workloads:
        groups[workload.best.prediction.bound].append(workload)
    found = {}
    for bound in sorted(groups, key=lambda name: -len(groups[name])):
        own = groups[bound]
        work = [count_work(w.attention, w.batch) for w in own]
        found[bound] = Series(
            name=f"bound by {bound}",
            x=tuple(each.flops / each.bytes for each in work),
            y=tuple(each.flops / w.best.measured / 1e12 for each, w in zip(work, own, strict=True)),
            colour=bound,
            symbol=SYMBOLS[bound],
            hover=tuple(_hover(w) for w in own),
            tags={
                "shape": tuple(w.shape for w in own),
                "phase": tuple(w.batch.phase for w in own),
                "backend": tuple(w.best.backend for w in own),
            },
        )
    return found


def _hover(w: Workload) -> str:
    best = w.best
    name = f"{best.backend} {knob_text(best.backend, best.knobs)}".strip()
    return (
        f"{w.shape}<br>{PHASE_NAMES[w.batch.phase]} {batch_name(w.batch)}<br>{name}: {microseconds(best.measured)}"
        f"<br>{percent(best.limit / best.measured, 0)} of the datasheet roof, bound by {best.prediction.bound}"
    )
