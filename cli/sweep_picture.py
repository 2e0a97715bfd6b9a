"""Latency against length, one curve a backend, drawn with characters."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING

from cli.sweep_table import KV_LENS

if TYPE_CHECKING:
    from rich.text import Text

    from costmodel import Attention
    from hwprofiles import Profile

WIDTH, HEIGHT, MARGIN = 84, 18, 9
MARKS = "●■▲◆○□△◇"
COLOURS = ("blue", "dark_orange3", "green4", "magenta", "red", "cyan", "yellow4", "grey50")
REQUESTS = 8
"""Requests of the batches that are drawn."""

Curve = tuple[float, ...]


def sweep_picture(
    attention: "Attention", profile: "Profile", page_size: int, backends: Sequence[str], *, requests: int = REQUESTS
) -> "Text":
    """Draw the decode latency of a batch against the KV length of its requests, both axes logarithmic.

    Args:
        attention: The layer on one rank.
        profile: The device.
        page_size: Tokens in one page.
        backends: Names to draw; those that cannot run are left out, and of more than eight the slowest.
        requests: Requests of every batch.

    Raises:
        UnknownBackend: No backend of that name.
    """
    from costmodel import Incompatible
    from costmodel.sweep import sweep

    memory = profile.require("memory_bytes")
    lens = [kv for kv in KV_LENS if requests * kv * attention.kv_bytes_per_token <= memory]
    curves: dict[str, Curve] = {}
    for name in backends:
        try:
            found = sweep(
                attention, [(requests, kv) for kv in lens], backend=name, profile=profile, page_size=page_size
            )
        except Incompatible:
            continue
        curves[name] = tuple(found.tolist())
    fastest = sorted(curves, key=lambda name: sum(map(log, curves[name])))[: len(MARKS)]
    return draw(lens, {name: curves[name] for name in fastest}, f"{requests} requests, us a layer")


def draw(lens: Sequence[int], curves: Mapping[str, Curve], title: str) -> "Text":
    """Draw curves over lengths; where they meet, the one named first is on top."""
    from rich.text import Text

    if not curves or not lens:
        return Text("no backend can run these batches")
    low, high = min(min(c) for c in curves.values()), max(max(c) for c in curves.values())
    cells: dict[tuple[int, int], tuple[str, str]] = {}
    styles = dict(zip(curves, zip(MARKS, COLOURS, strict=True), strict=False))
    for name in reversed(list(curves)):
        mark, colour = styles[name]
        spots = [(_column(i, len(lens)), _row(t, low, high)) for i, t in enumerate(curves[name])]
        for (x0, y0), (x1, y1) in pairwise(spots):
            for x in range(x0 + 1, x1):
                cells[x, round(y0 + (y1 - y0) * (x - x0) / (x1 - x0))] = ("·", colour)
        for spot in spots:
            cells[spot] = (mark, colour)
    text = Text(f"{title}\n", style="bold")
    labels = {_row(t, low, high): f"{t * 1e6:.4g}" for t in _levels(low, high)}
    for row in range(HEIGHT - 1, -1, -1):
        text.append(f"{labels.get(row, ''):>{MARGIN - 2}} {'┤' if row in labels else '│'}", style="not bold dim")
        for column in range(WIDTH):
            mark, colour = cells.get((column, row), (" ", ""))
            text.append(mark, style=f"not bold {colour}".strip())
        text.append("\n")
    text.append(_ruler(lens), style="not bold dim")
    for name, (mark, colour) in styles.items():
        text.append(f"  {mark} ", style=f"not bold {colour}")
        text.append(name, style="not bold")
    return text


def _column(index: int, count: int) -> int:
    return round(index * (WIDTH - 4) / max(1, count - 1)) + 2


def _row(value: float, low: float, high: float) -> int:
    return round(log(value / low) / log(high / low) * (HEIGHT - 1)) if high > low else HEIGHT // 2


def _levels(low: float, high: float) -> list[float]:
    """Give values for the axis: 1-2-5 steps inside, and both ends."""
    steps = [factor * 10.0**power for power in range(-7, 2) for factor in (1, 2, 5)]
    inside = [value for value in steps if low * 1.15 < value < high / 1.15]
    return [*inside, low, high]


def _ruler(lens: Sequence[int]) -> str:
    line = [" "] * (WIDTH + 6)
    for i, kv in enumerate(lens):
        label = f"{kv // 1024}k" if kv >= 1024 else str(kv)
        start = max(0, _column(i, len(lens)) - len(label) // 2)
        line[start : start + len(label)] = label
    axis = " " * (MARGIN - 1) + "└" + "─" * WIDTH
    return f"{axis}\n{' ' * MARGIN}{''.join(line).rstrip()}  KV tokens a request\n"
