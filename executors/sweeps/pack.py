"""Packing recordings: one compressed file, the last record of each candidate of a workload."""

import lzma
import os
from collections.abc import Iterable
from pathlib import Path

from costmodel import Record


def latest(records: Iterable[Record]) -> list[Record]:
    """Keep the last record of each candidate, workload, device and version, in the order of their first ones."""
    kept: dict[str, Record] = {}
    for record in records:
        kept[_key(record)] = record
    return list(kept.values())


def pack(records: Iterable[Record], path: Path) -> None:
    """Write an `.xz` file, whole or not at all.

    Raises:
        OSError: The file cannot be written.
    """
    text = "".join(record.to_line() + "\n" for record in records)
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    os.replace(part, path)


def _key(record: Record) -> str:
    what = (record.to_attention(), record.to_batch(), record.backend, sorted(record.knobs.items()))
    return repr((what, record.device, record.implementation, record.implementation_version))
