"""What serving code asks at run time: backend and knobs for this batch. Pure Python; it never raises once loaded."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from costmodel import Attention, Batch, KnobValue
from tuner.configuration import TABLES, Configuration, ConfigurationError, read
from tuner.point import Point
from tuner.row import Choice, Row
from tuner.traffic import distance
from tuner.versions import device_differences

Source = Literal["measured", "interpolated", "predicted", "nearest", "default", "model", "none"]
CACHE_SIZE = 1 << 16
RAGGED = 1.25
"""Longest over mean KV length from which a batch counts as ragged."""
NEAR = 2.0
"""Doublings, all axes together, within which a ragged row answers for another ragged batch."""

_log = logging.getLogger("attnroof.policy")


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """An answer."""

    backend: str
    knobs: Mapping[str, KnobValue]
    source: Source
    """How the answer is known: a measured row, the model between rows, a near ragged row, or the default."""
    provenance: str
    """The same in words, with the row and the library version."""
    latency_us: float | None = None
    sglang: bool = False
    """Whether SGLang's flags reach it."""


NOTHING = PolicyChoice("", {}, "none", "no configuration and no model says anything about this call")
Fallback = Callable[[Attention, Batch], PolicyChoice | None]


class Policy:
    """Tuned choices of one or more attention shapes on one device.

    Answers are cached; the files behind them are looked at every few seconds and read again when their content
    changed. A file that cannot be read any more leaves the old answers in place and is warned about once.
    """

    def __init__(
        self,
        configurations: Iterable[Configuration],
        paths: Iterable[Path] = (),
        *,
        sglang_only: bool = False,
        fallback: Fallback | None = None,
        reload_seconds: float = 5.0,
    ) -> None:
        self._paths = tuple(paths)
        self._sglang_only = sglang_only
        self._fallback = fallback
        self._reload_seconds = reload_seconds
        self._state = _State.of(configurations, sglang_only)
        self._stamps = self._stat()
        self._next_look = time.monotonic() + reload_seconds
        self._lock = threading.Lock()

    @classmethod
    def load(cls, path: Path | str, *, sglang_only: bool = False, reload_seconds: float = 5.0) -> "Policy":
        """Load a configuration file, or all of a folder.

        Args:
            path: File or folder that `attnroof tune` wrote.
            sglang_only: Answer with the best choice that SGLang's flags reach.
            reload_seconds: How often the files are looked at again.

        Raises:
            ConfigurationError: There is none, it is damaged or foreign, or the folder mixes devices.
        """
        path = Path(path)
        paths = sorted(path.glob("attn,*.json")) if path.is_dir() else [path]
        if not paths:
            raise ConfigurationError(
                f"the folder {path} holds no configuration (attn,*.json); `attnroof tune` makes one"
            )
        configurations = [read(p) for p in paths]
        for other in configurations[1:]:
            if differences := device_differences(configurations[0].device, other.device):
                raise ConfigurationError(
                    f"{path} holds configurations of several devices ({'; '.join(differences)}): load one file, or "
                    "let tuner.find_policy choose those of a device"
                )
        return cls(configurations, paths, sglang_only=sglang_only, reload_seconds=reload_seconds)

    def backend(self, phase: str, batch_size: int, kv_len: int, q_len: int | None = None) -> str:
        """The backend for an even batch of the first attention shape.

        Args:
            phase: `decode`, `extend` (or `prefill`), `verify` or `mixed`.
            batch_size: Requests.
            kv_len: Mean visible tokens of a request, the new ones included.
            q_len: Mean new tokens of a request; 1 for decode, all of `kv_len` for extend if not given.
        """
        return self._even(phase, batch_size, kv_len, q_len).backend

    def num_splits(self, batch_size: int, kv_len: int, q_len: int | None = None, phase: str = "decode") -> int | None:
        """The number of KV splits for an even batch; None where the choice has no such knob."""
        knobs = self._even(phase, batch_size, kv_len, q_len).knobs
        value = knobs.get("num_splits", knobs.get("max_kv_splits"))
        return value if isinstance(value, int) else None

    def choice(self, attention: Attention, batch: Batch) -> PolicyChoice:
        """Backend, knobs and provenance for a batch; ragged ones are reduced to requests, mean and longest.

        Where nothing was tuned at the batch's page size, what was tuned at another one answers and says so.
        """
        state = self._current()
        key = (attention, batch)
        found = state.cache.get(key)
        if found is None:
            found = self._look_up(state, attention, Point.of(batch), batch)
            state.remember(key, found)
        return found

    def reload(self) -> bool:
        """Read the files again if they changed; True where new answers are in place."""
        with self._lock:
            stamps = self._stat()
            if stamps == self._stamps:
                return False
            self._stamps = stamps
            try:
                self._state = _State.of([read(p) for p in self._paths], self._sglang_only)
            except ConfigurationError as error:
                _log.warning("keeping the answers of before: %s", error)
                return False
            return True

    def _even(self, phase: str, batch_size: int, kv_len: int, q_len: int | None) -> PolicyChoice:
        state = self._current()
        key = (phase, batch_size, kv_len, q_len)
        found = state.cache.get(key)
        if found is None:
            name = "extend" if phase == "prefill" else phase
            new = q_len if q_len is not None else kv_len if name == "extend" else 1
            point = Point(name, batch_size, new, kv_len, kv_len)  # type: ignore[arg-type]
            found = self._look_up(state, state.first, point, None)
            state.remember(key, found)
        return found

    def _look_up(self, state: "_State", attention: Attention | None, point: Point, batch: Batch | None) -> PolicyChoice:
        table = state.table(attention, batch.page_size if batch else None)
        found = table.look_up(point) if table is not None else None
        if found and table and batch and table.page_size != batch.page_size:
            found = replace(found, provenance=f"{found.provenance}; tuned at page size {table.page_size}")
        if (found is None or found.source == "default") and self._fallback and attention is not None:
            try:
                lens = batch or Batch(
                    point.phase, (point.q_len,) * point.batch_size, (point.kv_len,) * point.batch_size
                )
                found = self._fallback(attention, lens) or found
            except Exception as error:
                _log.warning("the model gives no answer for %s: %s", point.key, error)
        return found or NOTHING

    def _current(self) -> "_State":
        if self._paths and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + self._reload_seconds
            self.reload()
        return self._state

    def _stat(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stamp(path) for path in self._paths)


@dataclass(slots=True)
class _State:
    """Everything that one reading of the files gave; replaced as a whole."""

    tables: "dict[Attention, dict[int, _Table]]"
    """By page size."""
    first: Attention | None
    cache: dict[object, PolicyChoice] = field(default_factory=dict)

    @classmethod
    def of(cls, configurations: Iterable[Configuration], sglang_only: bool) -> "_State":
        by_layers = sorted(configurations, key=lambda c: -(c.provenance.layers or 0))
        tables: dict[Attention, dict[int, _Table]] = {}
        for c in by_layers:
            tables.setdefault(c.to_attention(), {}).setdefault(c.page_size, _Table(c, sglang_only))
        return cls(tables, by_layers[0].to_attention() if by_layers else None)

    def table(self, attention: Attention | None, page_size: int | None) -> "_Table | None":
        """The table of an attention shape tuned at a page size, else the first of that shape."""
        tables = self.tables.get(attention, {}) if attention is not None else {}
        return tables.get(page_size or 0) or next(iter(tables.values()), None)

    def remember(self, key: object, found: PolicyChoice) -> None:
        if len(self.cache) >= CACHE_SIZE:
            self.cache.clear()
        self.cache[key] = found


class _Table:
    """One configuration, ready for looking up."""

    def __init__(self, configuration: Configuration, sglang_only: bool) -> None:
        self._configuration = configuration
        self.page_size = configuration.page_size
        self._pick: Callable[[Row], Choice | None] = (
            (lambda row: row.best_sglang) if sglang_only else (lambda row: row.best)
        )
        self._sglang_only = sglang_only
        self._ragged = {
            name: [r for r in configuration.table(name).values() if r.ragged] for name in ("decode", "extend")
        }

    def look_up(self, point: Point) -> PolicyChoice | None:
        """An exact row, then the winners between rows, then the default."""
        if point.phase not in TABLES:
            return None
        rows = self._configuration.table(point.phase)
        row = rows.get(point.key)
        if row is not None and (choice := self._pick(row)) is not None:
            source: Source = "measured" if choice.measured_us is not None else "predicted"
            return _answer(choice, source, f"row {point.phase} {row.key}, {row.status}")
        ragged = point.max_kv_len > RAGGED * point.kv_len
        if ragged and (near := self._near_ragged(point)) is not None:
            return near
        return self._between(point) or self._default(point, rows)

    def _between(self, point: Point) -> PolicyChoice | None:
        grid = self._configuration.between.get(point.phase)
        choice = grid.winner(point.batch_size, point.q_len, point.kv_len) if grid is not None else None
        if choice is None or (self._sglang_only and not choice.sglang):
            return None
        return _answer(
            choice, "interpolated", f"the model between the rows of {point.phase}, moved by their measurements"
        )

    def _near_ragged(self, point: Point) -> PolicyChoice | None:
        rows = self._ragged.get(point.phase, [])
        if not rows:
            return None
        row = min(rows, key=lambda r: distance(r, point.batch_size, point.q_len, point.kv_len))
        choice = self._pick(row)
        if choice is None or distance(row, point.batch_size, point.q_len, point.kv_len) > NEAR:
            return None
        return _answer(choice, "nearest", f"the near ragged row {point.phase} {row.key}")

    def _default(self, point: Point, rows: Mapping[str, Row]) -> PolicyChoice | None:
        for row in rows.values():
            if row.sglang_default is not None:
                text = f"SGLang's default: {point.key} lies outside what was tuned for {point.phase}"
                return _answer(row.sglang_default, "default", text, timed=False)
        return None


def _answer(choice: Choice, source: Source, text: str, *, timed: bool = True) -> PolicyChoice:
    provenance = f"{text}; {choice.implementation} {choice.implementation_version}"
    latency = choice.latency_us if timed else None
    return PolicyChoice(choice.backend, dict(choice.knobs), source, provenance, latency, choice.sglang)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
