"""The fastest backend over a grid of decode batches."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from costmodel import Attention
    from hwprofiles import Profile

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
KV_LENS = (256, 1024, 4096, 16384, 65536, 131072)
MARKS = "●■▲◆○□△◇"
COLOURS = ("blue", "dark_orange3", "green4", "magenta", "red", "cyan", "yellow4", "grey50")

Style = tuple[str, str]
"""Mark and colour of a backend."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The fastest backend of one batch at default knobs."""

    size: int
    kv_len: int
    backend: str
    seconds: float


def fastest(attention: "Attention", profile: "Profile", page_size: int, backends: list[str]) -> list[Cell]:
    """Give the fastest backend for every batch of the grid whose KV fits the device; backends that cannot run are out.

    Raises:
        UnknownBackend: No backend of that name.
    """
    from costmodel import Incompatible
    from costmodel.sweep import sweep

    memory = profile.require("memory_bytes")
    pairs = [(n, kv) for n in SIZES for kv in KV_LENS if n * kv * attention.kv_bytes_per_token <= memory]
    times = {}
    for backend in backends:
        try:
            times[backend] = sweep(attention, pairs, backend=backend, profile=profile, page_size=page_size)
        except Incompatible:
            continue
    cells = []
    for i, (n, kv) in enumerate(pairs):
        if times:
            best = min(times, key=lambda name: times[name][i])
            cells.append(Cell(n, kv, best, float(times[best][i])))
    return cells


def styles_of(names: Sequence[str]) -> dict[str, Style]:
    """Give the first names a mark and a colour each, as many as there are marks."""
    return dict(zip(names, zip(MARKS, COLOURS, strict=True), strict=False))


def winners_first(cells: Sequence[Cell], backends: Sequence[str]) -> list[str]:
    """Order backends by how often they are the fastest, then as given."""
    wins = Counter(cell.backend for cell in cells)
    return sorted(dict.fromkeys(backends), key=lambda name: -wins[name])


def sweep_table(title: str, cells: Sequence[Cell], styles: Mapping[str, Style]) -> "Table":
    """Lay the grid out: batch sizes down, KV lengths across; a mark for the fastest backend, then its microseconds."""
    from rich.table import Table
    from rich.text import Text

    used = [name for name in styles if any(cell.backend == name for cell in cells)]
    caption = Text("  ").join(Text.assemble((styles[name][0], styles[name][1]), f" {name}") for name in used)
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    table.add_column("requests", justify="right")
    for kv in KV_LENS:
        table.add_column(f"kv {kv // 1024}k" if kv >= 1024 else f"kv {kv}", justify="right", no_wrap=True)
    found = {(c.size, c.kv_len): _cell(c, styles) for c in cells}
    for n in SIZES:
        table.add_row(str(n), *(found.get((n, kv), Text("-")) for kv in KV_LENS))
    return table


def _cell(cell: Cell, styles: Mapping[str, Style]) -> "Text":
    from rich.text import Text

    mark, colour = styles.get(cell.backend, (cell.backend, ""))
    micros = cell.seconds * 1e6
    return Text.assemble((mark, colour), f" {micros:.1f}" if micros < 1000 else f" {micros:.0f}")
