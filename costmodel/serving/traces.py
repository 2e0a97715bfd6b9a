"""Readers of the field's trace files, line by line: Azure and BurstGPT CSV, Mooncake JSONL, ShareGPT-like JSON."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from costmodel.serving.conversations import read_conversations
from costmodel.serving.request import Request
from costmodel.serving.trace_fields import BadRow, TraceError, blocks_of, finite, json_row, tokens

Unit = Literal["s", "ms"]
Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """Where one format keeps what matters."""

    name: str
    time: str
    isl: str
    osl: str
    unit: Unit
    dates: bool = False
    """Whether times are dates."""


AZURE = TraceFormat("Azure LLM inference trace", "TIMESTAMP", "ContextTokens", "GeneratedTokens", "s", dates=True)
BURST_GPT = TraceFormat("BurstGPT", "Timestamp", "Request tokens", "Response tokens", "s")
MOONCAKE = TraceFormat("Mooncake", "timestamp", "input_length", "output_length", "ms")
CSV_FORMATS = (AZURE, BURST_GPT)
LONGEST_LINE = 1 << 20
"""Characters of one line that are read at once; a file may be one line of gigabytes."""
JUMP, NEAR = 100.0, 2.0
"""A step of more than `JUMP` times the widest gap that would be below `NEAR` times it in ms is taken for a mix-up."""
LONGEST_PAUSE = 366 * 86400.0
"""No trace pauses for a year: such a step is a slip of the unit."""


@dataclass(slots=True)
class Reading:
    """How a file is read, and what came of it."""

    name: str
    """What messages call it."""
    unit: Unit | None = None
    """Unit of its times; None means the format's own."""
    skip_bad: bool = False
    """Leave rows out that cannot be used, instead of stopping."""
    untimed: bool = False
    """Whether the file has no arrival times: all requests then arrive at 0 s."""
    skipped: int = 0
    first_reason: str | None = None
    notes: list[str] = field(default_factory=list)


def read_trace(lines: Iterable[str], reading: Reading) -> Iterator[Request]:
    """Read requests in order of arrival, times counted from the first one.

    Args:
        lines: The file's lines.
        reading: How to read them; it is filled while the requests are taken.

    Raises:
        TraceError: The format is unknown, or a row cannot be used; the message names file, line, field and rule.
    """
    numbered = _lines(lines)
    first = next(((number, line) for number, line in numbered if line.strip()), None)
    if first is None:
        raise TraceError(f"{reading.name} is empty; give a trace with at least one request")
    if "\x00" in first[1] or "\ufffd" in first[1]:
        raise TraceError(f"{reading.name}, line {first[0]}: no UTF-8 text; save it as UTF-8, plain or packed by gzip")
    text = first[1].lstrip()
    if text.startswith("["):
        reading.untimed = True
        reading.notes.append("no arrival times and no token counts: tokens are taken as characters / 4")
        return _counted(read_conversations(_chain(first, numbered), reading.name), reading)
    if text.startswith("{"):
        rows: Iterator[tuple[int, Callable[[], Row]]] = _json_rows(_chain(first, numbered))
        return _counted(_requests(rows, MOONCAKE, reading), reading)
    return _csv(first, numbered, reading)


def _csv(first: tuple[int, str], lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Request]:
    header = _header(first, reading.name)
    found = next((f for f in CSV_FORMATS if f.time in header), None)
    if found is None:
        known = "; ".join(f"{f.name}: {f.time},{f.isl},{f.osl}" for f in CSV_FORMATS)
        raise TraceError(
            f"{reading.name}, line {first[0]}: no known header in {first[1][:80]!r}; known are {known}, Mooncake's "
            "JSON lines and a JSON list of conversations"
        )
    missing = [column for column in (found.isl, found.osl) if column not in header]
    if missing:
        raise TraceError(f"{reading.name}, line {first[0]}: {found.name} needs the column {missing[0]!r}")
    twice = [column for column in (found.time, found.isl, found.osl) if header.count(column) > 1]
    if twice:
        raise TraceError(f"{reading.name}, line {first[0]}: the column {twice[0]!r} is there twice; keep one of them")
    if found.dates and reading.unit is not None:
        raise TraceError(
            f"{reading.name}: times of an {found.name} are dates, which have no unit; leave out --time-unit"
        )
    return _counted(_requests(_csv_rows(header, lines), found, reading), reading)


def _header(first: tuple[int, str], name: str) -> list[str]:
    try:
        return [column.strip() for column in _cells(first[1])]
    except BadRow as error:
        raise TraceError(f"{name}, line {first[0]}: {error}") from None


def _csv_rows(header: list[str], lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, Callable[[], Row]]]:
    for number, line in lines:
        if line.strip():
            yield number, lambda line=line: _csv_row(header, line)  # type: ignore[misc]


def _csv_row(header: list[str], line: str) -> Row:
    cells = _cells(line)
    if len(cells) < len(header):
        raise BadRow(f"{len(cells)} cells for {len(header)} columns")
    return dict(zip(header, cells, strict=False))


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line]))
    except csv.Error as error:
        raise BadRow(f"cannot be split into cells ({error})") from None


def _json_rows(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, Callable[[], Row]]]:
    for number, line in lines:
        if line.strip():
            yield number, lambda line=line: json_row(line)  # type: ignore[misc]


def _requests(rows: Iterator[tuple[int, Callable[[], Row]]], form: TraceFormat, reading: Reading) -> Iterator[Request]:
    clock = _Clock(reading.unit or form.unit)
    for number, row in rows:
        try:
            cells = row()
            arrival = clock.read(_time(cells, form))
            isl, osl = tokens(cells, form.isl), tokens(cells, form.osl)
            request = Request(arrival, isl, osl, blocks=blocks_of(cells))
        except BadRow as error:
            if not reading.skip_bad:
                raise TraceError(f"{reading.name}, line {number}: {error}") from None
            reading.skipped += 1
            reading.first_reason = reading.first_reason or f"line {number}: {error}"
            continue
        yield request


def _time(row: Row, form: TraceFormat) -> float:
    """Give a row's time; dates without a time zone are UTC, so that summer time is no jump."""
    if not form.dates:
        return finite(row, form.time)
    value = row.get(form.time)
    try:
        date = datetime.fromisoformat(str(value).strip())
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise BadRow(f"{form.time}={value!r} is no date and time such as 2023-11-16 18:15:46.680590") from None


class _Clock:
    """Times in order, from the first one, in seconds."""

    def __init__(self, unit: Unit) -> None:
        self._scale = 1.0 if unit == "s" else 1e-3
        self._start: float | None = None
        self._last = 0.0
        self._widest = 0.0
        self._read = 0

    def read(self, value: float) -> float:
        """Give seconds since the first time.

        Raises:
            BadRow: Time goes back, or jumps as if its unit had changed.
        """
        if self._start is None:
            self._start = value
        now = (value - self._start) * self._scale
        if now < self._last:
            raise BadRow(
                f"time goes back from {self._last:g} s to {now:g} s after the start; sort the file by time, and check "
                "that all times have one unit (s or ms)"
            )
        gap = now - self._last
        if gap > LONGEST_PAUSE:
            raise BadRow(
                f"time jumps by {gap / 86400:,.0f} days from {self._last:g} s after the start: s and ms seem to be "
                "mixed; use one unit, or name it with --time-unit"
            )
        as_milliseconds = (value / 1e3 - self._start) * self._scale - self._last
        if self._read >= 3 and gap > JUMP * self._widest > 0 and 0 <= as_milliseconds <= NEAR * self._widest:
            raise BadRow(f"time jumps from {self._last:g} s to {now:g} s: s and ms seem to be mixed; use one unit")
        self._widest, self._last, self._read = max(self._widest, gap), now, self._read + 1
        return now


def _counted(requests: Iterator[Request], reading: Reading) -> Iterator[Request]:
    found = False
    for request in requests:
        found = True
        yield request
    if not found:
        why = f" ({reading.first_reason})" if reading.first_reason else ""
        raise TraceError(f"{reading.name} holds no request that can be used{why}")


def _lines(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Number lines; a piece of `LONGEST_LINE` characters without a line's end is a part of its line."""
    number = 1
    for line in lines:
        part = len(line) >= LONGEST_LINE and not line.endswith("\n")
        yield number, line.removeprefix("\ufeff") if part else line.removeprefix("\ufeff").rstrip("\r\n") + "\n"
        number += not part


def _chain(first: tuple[int, str], rest: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield first
    yield from rest
