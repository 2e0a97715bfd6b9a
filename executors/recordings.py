"""Recordings: records read back from files, damaged ones counted, and those that come with the project."""

import lzma
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from costmodel import Record
from costmodel.record import INDEPENDENT
from hwprofiles import Profile

PACKAGED = Path(__file__).parent / "records"
"""Records of real devices that come with the project, one folder a device."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The records of some files."""

    records: tuple[Record, ...]
    damaged: int
    """Lines that are no records (cut off, foreign, or of another schema), and files whose compression is broken."""


def read_records(paths: Path | Iterable[Path] | None = None, profile: Profile | None = None) -> Loaded:
    """Read `.jsonl` and `.jsonl.xz` files, or all of them in a folder but the independent ones, which are to be named.

    Args:
        paths: Files and folders; the packaged records, of several devices, if none are given.
        profile: Keep the records of this device only.

    Raises:
        OSError: A file cannot be read.
    """
    names = None if profile is None else {profile.name, *profile.driver_names}
    records: list[Record] = []
    damaged = 0
    chosen = PACKAGED if paths is None else paths
    for path in _files([chosen] if isinstance(chosen, Path) else list(chosen)):
        for line in _lines(path):
            try:
                record = Record.from_line(line)
            except (ValidationError, ValueError, TypeError):
                damaged += 1
                continue
            if names is None or record.device.name in names:
                records.append(record)
    return Loaded(tuple(records), damaged)


def independent_files(folder: Path = PACKAGED) -> list[Path]:
    """Find the records that were drawn after the fit to judge it: `read_records` gives them only when named."""
    return sorted(folder.rglob(INDEPENDENT))


def _files(paths: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        found += sorted([*path.rglob("*.jsonl"), *path.rglob("*.jsonl.xz")]) if path.is_dir() else [path]
    return [path for path in found if path.name != INDEPENDENT or path in paths]


def _lines(path: Path) -> Iterator[str]:
    """Give the lines that are not empty; one that is no record stands for what broken compression hides."""
    try:
        with _opened(path) as file:
            for line in file:
                if line.strip():
                    yield line
    except (lzma.LZMAError, EOFError):
        yield "broken compression"


def _opened(path: Path) -> AbstractContextManager[IO[str]]:
    if path.suffix == ".xz":
        return lzma.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open(encoding="utf-8", errors="replace")
