"""How right and how steady each backend was over a recording, as a Markdown table."""

import statistics
from collections.abc import Iterable, Sequence

from costmodel import Record

_HEADS = ("backend", "rows", "largest error / tolerance", "same bits twice", "spread", "not cold", "busy")


def table(records: Iterable[Record]) -> str:
    """Summarise the measured records of each backend.

    The largest error is in units of that row's tolerance; the spread is the median over rows of half the distance
    between the 10th and 90th percentile of the repeats, over their median.
    """
    rows: dict[str, list[Record]] = {}
    for record in records:
        if record.outcome == "measured" and record.latency_us:
            rows.setdefault(record.backend, []).append(record)
    lines = [_line(_HEADS), _line(["---", *["---:"] * (len(_HEADS) - 1)])]
    lines += [_line([f"`{backend}`", *_cells(found)]) for backend, found in sorted(rows.items())]
    return "\n".join(lines)


def _cells(found: Sequence[Record]) -> list[str]:
    errors = [r.max_error / r.tolerance for r in found if r.max_error is not None and r.tolerance]
    twice = [r.deterministic for r in found if r.deterministic is not None]
    spread = [(r.p90_us - r.p10_us) / 2 / r.latency_us for r in found if r.p90_us and r.p10_us and r.latency_us]
    return [
        str(len(found)),
        f"{max(errors):.2f}" if errors else "-",
        f"{sum(twice) / len(twice):.0%}" if twice else "-",
        f"{statistics.median(spread):.2%}" if spread else "-",
        str(sum(r.l2 == "warm" for r in found)),
        str(sum(r.busy is not None for r in found)),
    ]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
