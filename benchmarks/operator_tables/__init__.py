"""Public operator tables: other people's measurements, to test estimates against on devices that nothing was fitted to.

The extract beside this file is a sample of the attention tables of NVIDIA AIConfigurator (github.com/ai-dynamo/
aiconfigurator at 095f58a, `aic-core/src/aiconfigurator_core/systems/data`; Copyright (c) 2025-2026 NVIDIA CORPORATION &
AFFILIATES, Apache-2.0; columns renamed, rows drawn at random from those of 30 us and more). Make it again from a
checkout with

    python -m benchmarks.operator_tables.extract SYSTEMS_DATA
"""

import csv
import io
import lzma
from dataclasses import dataclass, fields
from pathlib import Path

EXTRACT = Path(__file__).with_name("extract.csv.xz")


@dataclass(frozen=True, slots=True)
class Row:
    """One measured call: attention and the KV write before it, replayed in a CUDA graph on the same buffers."""

    device: str
    """A profile's alias."""
    table: str
    """Framework and version."""
    kernel: str
    """What the table calls the kernel."""
    phase: str
    """extend or decode; every request has the same lengths."""
    mla: bool
    batch: int
    q_len: int
    kv_len: int
    """Visible tokens, the new ones included."""
    qo_heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    kv_dtype: str
    window: int
    """0: none."""
    latency_us: float


def read(path: Path = EXTRACT) -> list[Row]:
    """Read an extract."""
    text = lzma.decompress(path.read_bytes()).decode()
    kinds = {field.name: field.type for field in fields(Row)}
    return [
        Row(**{name: _value(kinds[name], value) for name, value in line.items()})  # type: ignore[arg-type]
        for line in csv.DictReader(io.StringIO(text))
    ]


def write(rows: list[Row], path: Path = EXTRACT) -> None:
    """Write an extract, compressed."""
    names = [field.name for field in fields(Row)]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(names)
    table.writerows([[_text(getattr(row, name)) for name in names] for row in rows])
    path.write_bytes(lzma.compress(text.getvalue().encode(), preset=9))


def _value(kind: object, value: str) -> str | int | float | bool:
    readers = {bool: lambda text: text == "1", int: int, float: float}
    return readers.get(kind, str)(value)


def _text(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    return f"{value:.2f}" if isinstance(value, float) else value
