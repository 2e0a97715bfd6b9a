"""Latency against length, one curve a backend, drawn with characters."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING

from cli.sweep_table import KV_LENS, MARKS, Style, styles_of

if TYPE_CHECKING:
    from rich.text import Text

    from costmodel import Attention
    from hwprofiles import Profile

WIDEST, HEIGHT, MARGIN = 84, 18, 9
REQUESTS = 8
"""Requests of the batches that are drawn."""

Curve = tuple[float, ...]


def sweep_picture(
    attention: "Attention",
    profile: "Profile",
    page_size: int,
    backends: Sequence[str],
    *,
    styles: Mapping[str, Style] | None = None,
    width: int = WIDEST + MARGIN,
) -> "Text":
    """Draw the decode latency of a batch against the KV length of its requests, both axes logarithmic.

    Args:
        attention: The layer on one rank.
        profile: The device.
        page_size: Tokens in one page.
        backends: Names to draw; those that cannot run are left out, and of more than eight the slowest.
        styles: Mark and colour of each backend; others are left out. None takes them as they come, fastest first.
        width: Columns of the terminal.

    Raises:
        UnknownBackend: No backend of that name.
    """
    from costmodel import Incompatible
    from costmodel.sweep import sweep

    memory = profile.require("memory_bytes")
    lens = [kv for kv in KV_LENS if REQUESTS * kv * attention.kv_bytes_per_token <= memory]
    curves: dict[str, Curve] = {}
    for name in backends:
        try:
            found = sweep(
                attention, [(REQUESTS, kv) for kv in lens], backend=name, profile=profile, page_size=page_size
            )
        except Incompatible:
            continue
        curves[name] = tuple(found.tolist())
    fastest = sorted(curves, key=lambda name: sum(map(log, curves[name])))
    taken = styles if styles is not None else styles_of(fastest)
    shown = [name for name in fastest if name in taken][: len(MARKS)]
    title = f"{REQUESTS} requests, us a layer"
    return draw(lens, {name: curves[name] for name in shown}, title, styles=taken, width=width)


def draw(
    lens: Sequence[int],
    curves: Mapping[str, Curve],
    title: str,
    *,
    styles: Mapping[str, Style] | None = None,
    width: int = WIDEST + MARGIN,
) -> "Text":
    """Draw curves over lengths; where they meet, the one named first is on top."""
    from rich.text import Text

    columns = max(20, min(WIDEST, width - MARGIN))

    if not curves or not lens:
        return Text("no backend can run these batches")
    low, high = min(min(c) for c in curves.values()), max(max(c) for c in curves.values())
    cells: dict[tuple[int, int], tuple[str, str]] = {}
    found = styles if styles is not None else styles_of(list(curves))
    for name in reversed(list(curves)):
        mark, colour = found[name]
        spots = [(_column(i, len(lens), columns), _row(t, low, high)) for i, t in enumerate(curves[name])]
        for (x0, y0), (x1, y1) in pairwise(spots):
            for x in range(x0 + 1, x1):
                cells[x, round(y0 + (y1 - y0) * (x - x0) / (x1 - x0))] = ("·", colour)
        for spot in spots:
            cells[spot] = (mark, colour)
    text = Text(f"{title}\n", style="bold")
    labels = {_row(t, low, high): f"{t * 1e6:.4g}" for t in _levels(low, high)}
    for row in range(HEIGHT - 1, -1, -1):
        text.append(f"{labels.get(row, ''):>{MARGIN - 2}} {'┤' if row in labels else '│'}", style="not bold dim")
        for column in range(columns):
            mark, colour = cells.get((column, row), (" ", ""))
            text.append(mark, style=f"not bold {colour}".strip())
        text.append("\n")
    text.append(_ruler(lens, columns), style="not bold dim")
    for name in curves:
        mark, colour = found[name]
        text.append(f"  {mark}\N{NO-BREAK SPACE}", style=f"not bold {colour}")
        text.append(name, style="not bold")
    return text


def _column(index: int, count: int, columns: int) -> int:
    return round(index * (columns - 4) / max(1, count - 1)) + 2


def _row(value: float, low: float, high: float) -> int:
    return round(log(value / low) / log(high / low) * (HEIGHT - 1)) if high > low else HEIGHT // 2


def _levels(low: float, high: float) -> list[float]:
    """Give values for the axis: 1-2-5 steps inside, and both ends."""
    steps = [factor * 10.0**power for power in range(-7, 2) for factor in (1, 2, 5)]
    inside = [value for value in steps if low * 1.15 < value < high / 1.15]
    return [*inside, low, high]


def _ruler(lens: Sequence[int], columns: int) -> str:
    line = [" "] * columns
    for i, kv in enumerate(lens):
        label = f"{kv // 1024}k" if kv >= 1024 else str(kv)
        start = max(0, min(columns - len(label), _column(i, len(lens), columns) - len(label) // 2))
        line[start : start + len(label)] = label
    axis = " " * (MARGIN - 1) + "└" + "─" * columns
    return f"{axis}\n{' ' * MARGIN}{''.join(line).rstrip()}\n{' ' * MARGIN}KV tokens a request\n"
