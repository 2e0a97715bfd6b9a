"""What changed between two configurations, or between two sets of records: did an upgrade make something slower?"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from costmodel import Record
from executors.recordings import read_records
from tuner.configuration import Configuration, ConfigurationError, loads, read_text
from tuner.row import Choice, Row

Change = Literal["slower", "faster", "same", "only_a", "only_b"]
FLOOR = 0.02
"""Smallest relative change that counts, unless the noise of either side is larger."""


@dataclass(frozen=True, slots=True)
class Side:
    """One measured call on one side."""

    latency_us: float
    noise: float
    """Relative."""
    version: str
    winner: str | None = None
    """Configurations: the winning candidate."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One call on both sides."""

    key: str
    change: Change
    a: Side | None
    b: Side | None

    @property
    def ratio(self) -> float | None:
        """Latency of b over that of a."""
        return self.b.latency_us / self.a.latency_us if self.a and self.b else None

    @property
    def winner_changed(self) -> bool:
        """Whether both sides name a winner and it is another one."""
        return bool(self.a and self.b and self.a.winner != self.b.winner)


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file or folder holds, as calls to sides."""

    sides: Mapping[str, Side]
    device: str
    damaged: int = 0
    """Lines that are no record and were skipped."""


def read_contents(path: Path) -> Contents:
    """Read a configuration, a file of records, or a folder of either.

    Raises:
        ConfigurationError: It is neither.
    """
    if path.is_dir():
        files = sorted(file for pattern in ("*.json", "*.jsonl", "*.jsonl.xz") for file in path.glob(pattern))
        if not files:
            raise ConfigurationError(f"the folder {path} holds no configuration (.json) and no records (.jsonl)")
        return _merge([read_contents(file) for file in files])
    if path.suffix in (".jsonl", ".xz"):
        return _of_records(path)
    text = read_text(path)
    if _first_is_record(text):
        return _of_records(path)
    return _of_configuration(loads(text, str(path)))


def compare(a: Contents, b: Contents) -> list[Difference]:
    """Compare call by call, the largest slowdown first."""
    differences = [
        _difference(key, a.sides.get(key), b.sides.get(key)) for key in sorted(a.sides.keys() | b.sides.keys())
    ]
    return sorted(differences, key=lambda d: -(d.ratio or 0.0))


def _difference(key: str, a: Side | None, b: Side | None) -> Difference:
    if a is None or b is None:
        return Difference(key, "only_b" if a is None else "only_a", a, b)
    limit = max(FLOOR, (a.noise**2 + b.noise**2) ** 0.5)
    ratio = b.latency_us / a.latency_us
    change: Change = "slower" if ratio > 1 + limit else "faster" if ratio < 1 / (1 + limit) else "same"
    return Difference(key, change, a, b)


def _of_configuration(configuration: Configuration) -> Contents:
    shape = ",".join(configuration.file_name.split(",")[2:]).removesuffix(".json")
    rows = {f"{shape} {row.phase} {row.key}": _row_side(row) for row in configuration.rows}
    return Contents({k: side for k, side in rows.items() if side is not None}, configuration.device.name)


def _row_side(row: Row) -> Side | None:
    best: Choice = row.best
    if best.measured_us is None:
        return None
    return Side(
        best.measured_us, _noise(best.measured_us, best.p10_us, best.p90_us), _version(best), best.candidate.key
    )


def _of_records(path: Path) -> Contents:
    if not path.exists():
        raise ConfigurationError(f"no file {path}; `attnroof tune` makes one")
    loaded = read_records(path)
    found: dict[str, list[Record]] = {}
    for record in loaded.records:
        if record.outcome == "measured" and record.latency_us:
            found.setdefault(_record_key(record), []).append(record)
    if not found:
        raise ConfigurationError(f"{path} holds no measured record ({loaded.damaged} damaged lines)")
    device = next(iter(found.values()))[0].device.name
    return Contents({key: _record_side(records) for key, records in found.items()}, device, loaded.damaged)


def _record_side(records: list[Record]) -> Side:
    latency = median(r.latency_us for r in records if r.latency_us)
    last = records[-1]
    noise = _noise(latency, last.p10_us, last.p90_us)
    return Side(latency, noise, f"{last.implementation} {last.implementation_version}")


def _record_key(record: Record) -> str:
    batch = record.batch.model_dump(mode="json", exclude_defaults=True)
    what = {"attention": record.attention, "batch": batch, "knobs": record.knobs}
    return f"{record.backend} {json.dumps(what, sort_keys=True, separators=(',', ':'))}"


def _noise(latency: float, p10: float | None, p90: float | None) -> float:
    return (p90 - p10) / (2 * latency) if p10 is not None and p90 is not None else 0.0


def _version(choice: Choice) -> str:
    return f"{choice.implementation} {choice.implementation_version}"


def _first_is_record(text: str) -> bool:
    first = text.lstrip().partition("\n")[0]
    return first.startswith('{"schema"')


def _merge(contents: Iterable[Contents]) -> Contents:
    contents = list(contents)
    sides = {key: side for c in contents for key, side in c.sides.items()}
    return Contents(sides, contents[0].device, sum(c.damaged for c in contents))
