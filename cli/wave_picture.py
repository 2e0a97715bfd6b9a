"""The wave timeline of one workload: what the slots of the device do over time, drawn with characters."""

from typing import TYPE_CHECKING

from cli.report.timeline import bars

if TYPE_CHECKING:
    from cli.report.charts import Bar
    from costmodel.explain import Explanation

WIDTH = 64
ROWS = 12
LAUNCH, MERGE, IDLE = "░", "▞", " "
TILES = "█▓"
"""Every second tile job of a slot has the paler tone."""


def wave_lines(found: "Explanation") -> list[str]:
    """Draw one line for each group of slots that do the same, then the axis and what the tones mean.

    Slots without tiles are left out; the others stand in order of what they do, most first. Of more than twelve
    groups, neighbours are shown as the first of them.
    """
    by_slot: dict[int, list[Bar]] = {}
    for bar in bars(found):
        by_slot.setdefault(bar.row, []).append(bar)
    end = max(bar.start + bar.length for own in by_slot.values() for bar in own)
    groups: dict[str, int] = {}
    for own in (own for own in by_slot.values() if any(bar.kind == "tiles" for bar in own)):
        line = _line(own, end)
        groups[line] = groups.get(line, 0) + 1
    ordered = sorted(groups.items(), key=lambda item: -sum(item[0].count(tone) for tone in TILES))
    lines = [f"  {count:5} slots |{line}|" for line, count in _shortened(ordered)]
    axis = f"{'0':<{WIDTH - 10}}{end:>7.1f} us"
    key = f"{LAUNCH} launch  {TILES} tiles, job after job"
    merged = f"  {MERGE} merge" if any(MERGE in line for line in groups) else ""
    return [*lines, f"  {'':11} {axis}", f"  {'':12}{key}{merged}"]


def _line(own: "list[Bar]", end: float) -> str:
    tones = [IDLE] * WIDTH
    for bar in sorted(own, key=lambda b: b.start):
        first, last = round(bar.start / end * WIDTH), round((bar.start + bar.length) / end * WIDTH)
        tone = {"launch": LAUNCH, "merge": MERGE}.get(bar.kind, TILES[bar.shade])
        for i in range(min(first, WIDTH - 1), max(min(last, WIDTH), min(first, WIDTH - 1) + 1)):
            tones[i] = tone
    return "".join(tones)


def _shortened(groups: list[tuple[str, int]]) -> list[tuple[str, int]]:
    size = -(-len(groups) // ROWS)
    parts = [groups[i : i + size] for i in range(0, len(groups), size)]
    return [(part[0][0], sum(count for _, count in part)) for part in parts]
