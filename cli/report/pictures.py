"""Charts as PNG and SVG files, drawn by matplotlib in the light palette."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from cli.report.charts import Axis, Chart, GridChart, Series, TimelineChart, XYChart
from cli.report.palette import PALETTE, colour_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "cross": "X"}
FAINT, FULL = 0.10, 0.62
SHADES = (0.88, 0.58)
FORMATS = ("png", "svg")


def write_charts(charts: Iterable[Chart], folder: Path) -> int:
    """Write every chart as PNG and SVG, charts of one name numbered.

    Args:
        charts: What to draw.
        folder: Made where it is missing.

    Returns:
        How many files were written.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: The folder cannot be written.
    """
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    names: dict[str, int] = {}
    for chart in charts:
        names[chart.name] = names.get(chart.name, 0) + 1
        stem = chart.name if names[chart.name] == 1 else f"{chart.name}-{names[chart.name]}"
        figure = draw(chart)
        for suffix in FORMATS:
            figure.savefig(folder / f"{stem}.{suffix}", dpi=150, metadata={"Title": chart.title})
    return len(FORMATS) * sum(names.values())


def draw(chart: Chart) -> "Figure":
    """Draw one chart on a figure of its own."""
    from matplotlib.figure import Figure

    size = (10, 2.6 * len(chart.panels) + 1) if isinstance(chart, TimelineChart) else (10, 5)
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    figure.suptitle(chart.title, x=0.01, ha="left", fontsize=12, fontweight="bold", color=ink("ink"))
    match chart:
        case XYChart():
            _xy(chart, figure.subplots())
        case GridChart():
            _grid(chart, figure.subplots())
        case TimelineChart():
            _timeline(chart, figure)
        case _:
            assert_never(chart)
    return figure


def ink(name: str) -> str:
    """Give a colour of the light palette."""
    return PALETTE[name][0]


def _xy(chart: XYChart, axes: "Axes") -> None:
    if chart.flip:
        _flipped(chart, axes)
        return
    for series in chart.series:
        _series(axes, series)
    for mark in chart.marks:
        axes.axvline(mark.x, color=ink(mark.colour), linestyle=":", linewidth=1.4)
        place = (mark.x, 1.0)
        axes.annotate(
            mark.text, place, xycoords=("data", "axes fraction"), xytext=(4, -10), textcoords="offset points",
            color=ink(mark.colour), fontsize=9, fontweight="bold",
        )  # fmt: skip
    _finish(axes, chart.x, chart.y)


def _flipped(chart: XYChart, axes: "Axes") -> None:
    for s in chart.series:
        colour = ink(s.colour)
        if s.high:
            axes.errorbar(s.y, s.x, xerr=_spans(s), fmt="none", ecolor=colour, elinewidth=1, capsize=2)
        axes.scatter(s.y, s.x, s=26, color=colour, zorder=3, label=s.name)
    _finish(axes, chart.y, chart.x)


def _spans(s: Series) -> tuple[list[float], list[float]]:
    low = [y - each for y, each in zip(s.y, s.low, strict=True)]
    return low, [each - y for y, each in zip(s.y, s.high, strict=True)]


def _series(axes: "Axes", s: Series) -> None:
    colour = ink(s.colour)
    if s.style != "points":
        axes.plot(s.x, s.y, "-" if s.style == "line" else "--", color=colour, linewidth=1.6, label=s.name)
        return
    if s.high:
        axes.errorbar(s.x, s.y, _spans(s), fmt="none", ecolor=colour, elinewidth=1, capsize=2)
    marker = MARKERS[s.symbol]
    axes.scatter(
        s.x, s.y, s=26, color=colour, marker=marker, edgecolors="white", linewidths=0.5, label=s.name, zorder=3
    )


def _grid(chart: GridChart, axes: "Axes") -> None:
    from matplotlib.patches import Rectangle

    labelled: set[str] = set()
    for cell in chart.cells:
        alpha = FAINT + (FULL - FAINT) * cell.strength
        label = None if cell.owner in labelled else cell.owner
        labelled.add(cell.owner)
        corner = (cell.x - 0.49, cell.y - 0.47)
        axes.add_patch(Rectangle(corner, 0.98, 0.94, facecolor=ink(colour_of(cell.owner)), alpha=alpha, label=label))
        axes.text(cell.x, cell.y, cell.text, ha="center", va="center", fontsize=8, color=ink("ink"))
    for series in chart.points:
        axes.scatter(
            series.x, series.y, s=60, color=ink(series.colour), edgecolors="white", linewidths=1.5, label=series.name
        )
    _finish(axes, chart.x, chart.y, grid=False)


def _timeline(chart: TimelineChart, figure: "Figure") -> None:
    panels = figure.subplots(len(chart.panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(panels, chart.panels, strict=True):
        for kind in ("launch", "tiles", "merge"):
            for shade, alpha in enumerate(SHADES):
                bars = [bar for bar in panel.bars if bar.kind == kind and bar.shade == shade]
                if bars:
                    rows, lengths = [bar.row for bar in bars], [bar.length for bar in bars]
                    starts = [bar.start for bar in bars]
                    label = kind if shade == 0 else None
                    axes.barh(rows, lengths, 1.0, starts, color=ink(kind), alpha=alpha, linewidth=0, label=label)
        axes.set_title(panel.title, loc="left", fontsize=9, color=ink("ink"))
        axes.set(ylim=(-0.5, panel.rows - 0.5), ylabel=f"{panel.rows} slots")
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel("µs")
    panels[0].legend(fontsize=8, frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1, 0.98))


def _finish(axes: "Axes", x: Axis, y: Axis, *, grid: bool = True) -> None:
    for axis, scale, one in ((x, axes.set_xscale, axes.xaxis), (y, axes.set_yscale, axes.yaxis)):
        if axis.log:
            scale("log")
        if axis.ticks:
            low, high = one.get_view_interval()
            inside = [(v, t) for v, t in axis.ticks if low <= v <= high] or list(axis.ticks)
            one.set_ticks([v for v, _ in inside], labels=[t for _, t in inside])
            one.set_minor_locator(_no_ticks())
    axes.set(xlabel=x.label, ylabel=y.label)
    axes.tick_params(colors=ink("muted"), labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    if grid:
        axes.grid(True, color=ink("line"), linewidth=0.8)
        axes.set_axisbelow(True)
    axes.autoscale_view()
    axes.legend(fontsize=8, frameon=False, ncols=6, loc="lower left", bbox_to_anchor=(0, 1.0))


def _no_ticks() -> "NullLocator":
    from matplotlib.ticker import NullLocator

    return NullLocator()
