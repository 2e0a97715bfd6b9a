"""The fastest backend over a grid of decode batches."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from costmodel import Attention
    from hwprofiles import Profile

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
KV_LENS = (256, 1024, 4096, 16384, 65536, 131072)


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


def sweep_table(title: str, cells: list[Cell]) -> "Table":
    """Lay the grid out: batch sizes down, KV lengths across."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("requests", justify="right")
    for kv in KV_LENS:
        table.add_column(f"kv {kv}", justify="right")
    found = {(c.size, c.kv_len): f"{c.backend} {c.seconds * 1e6:.1f}" for c in cells}
    for n in SIZES:
        table.add_row(str(n), *(found.get((n, kv), "-") for kv in KV_LENS))
    return table
