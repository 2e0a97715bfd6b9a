"""Charts as values: what is drawn, without saying by which library."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, floor, log10
from typing import Literal

Tags = Mapping[str, str | tuple[str, ...]]
"""What the page filters by: `shape`, `phase`, `backend`; one text for a whole series, or one for each point."""
Style = Literal["points", "line", "dash"]

TICKS = 6
SHORT_DECADES = 0.9


def log_ticks(low: float, high: float) -> tuple[tuple[float, str], ...]:
    """Give ticks for a logarithmic axis: decades, 1-2-5, or even steps where the axis is short."""
    decades = log10(high / low)
    if decades <= SHORT_DECADES:
        rough = (high - low) / TICKS
        power = 10.0 ** floor(log10(rough))
        step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
        values = [step * n for n in range(ceil(low / step), floor(high / step) + 1)]
    else:
        factors = (1.0,) if decades > 3 else (1.0, 2.0, 5.0)
        powers = range(floor(log10(low)) - 1, ceil(log10(high)) + 1)
        values = [factor * 10.0**power for power in powers for factor in factors]
    return tuple((v, f"{v:,.6g}") for v in values if low * 0.999 <= v <= high * 1.001)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis; ticks are `(value, text)` where the numbers are not shown as they are."""

    label: str
    log: bool = False
    ticks: tuple[tuple[float, str], ...] = ()
    span: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Points or a line; `colour` is a name of the palette."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    colour: str
    style: Style = "points"
    symbol: str = "circle"
    hover: tuple[str, ...] = ()
    low: tuple[float, ...] = ()
    """Lower ends of the intervals in y; empty where none are drawn."""
    high: tuple[float, ...] = ()
    tags: Tags = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line with a word."""

    x: float
    text: str
    colour: str = "ink"


@dataclass(frozen=True, slots=True)
class XYChart:
    """Series over two number axes."""

    name: str
    title: str
    alt: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    marks: tuple[Mark, ...] = ()
    flip: bool = False
    """Draw x upwards and y to the right: long names of x then stand in lines of their own."""
    tags: Tags = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    """One field of a grid: who owns it and how clearly, from 0 to 1."""

    x: float
    y: float
    owner: str
    strength: float
    text: str
    hover: str


@dataclass(frozen=True, slots=True)
class GridChart:
    """Fields coloured by their owner, with measured points on top; both axes count doublings."""

    name: str
    title: str
    alt: str
    x: Axis
    y: Axis
    cells: tuple[Cell, ...]
    points: tuple[Series, ...] = ()
    tags: Tags = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bar:
    """What one row of a timeline does for a while; times in microseconds."""

    row: int
    start: float
    length: float
    kind: str
    shade: int = 0
    """1 for a paler tone: every second job of a row, so that jobs can be told apart."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One timeline: `rows` slots from the bottom up."""

    title: str
    rows: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class TimelineChart:
    """Timelines under each other, over one time axis."""

    name: str
    title: str
    alt: str
    panels: tuple[Panel, ...]
    tags: Tags = field(default_factory=dict)


Chart = XYChart | GridChart | TimelineChart
