"""The winners between measured rows: the model's prediction at each point, moved by how the rows around it came out."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from pydantic import model_validator

from costmodel import Attention, Batch, Phase
from executors.outcome import Candidate
from tuner.row import Choice, Frozen, Row

STEPS_PER_DOUBLING = 1
NEAREST = 4
"""Rows that move a prediction."""
MARGIN = 0.02
"""Part of the default's time that another choice has to save where nothing was measured."""
UNKNOWN = -1

Predict = Callable[[Attention, Batch, Candidate], float | None]
"""Predicted seconds, None where the model cannot say."""


class Between(Frozen):
    """The winners of one phase on a grid of powers of two between its measured rows."""

    batch_sizes: tuple[int, ...]
    q_lens: tuple[int, ...]
    kv_lens: tuple[int, ...]
    choices: tuple[Choice, ...]
    """Backends and knobs without times."""
    winners: tuple[int, ...]
    """Index into `choices`, batch size by new tokens by KV tokens; -1 where nothing is known."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        axes = (self.batch_sizes, self.q_lens, self.kv_lens)
        if any(value < 1 for axis in axes for value in axis):
            raise ValueError("batch_sizes, q_lens and kv_lens must be at least 1")
        if len(self.winners) != math.prod(map(len, axes)):
            raise ValueError(f"winners has {len(self.winners)} entries, the axes make {math.prod(map(len, axes))}")
        if any(not UNKNOWN <= index < len(self.choices) for index in self.winners):
            raise ValueError(f"winners must be from {UNKNOWN} to {len(self.choices) - 1}, an index into choices")
        return self

    def winner(self, batch_size: int, q_len: int, kv_len: int) -> Choice | None:
        """The choice at the nearest grid point, or None outside the grid or where nothing is known."""
        at = (
            nearest(self.batch_sizes, batch_size),
            nearest(self.q_lens, q_len),
            nearest(self.kv_lens, kv_len),
        )
        if at[0] is None or at[1] is None or at[2] is None:
            return None
        index = self.winners[(at[0] * len(self.q_lens) + at[1]) * len(self.kv_lens) + at[2]]
        return None if index == UNKNOWN else self.choices[index]


def nearest(axis: Sequence[int], value: int) -> int | None:
    """Index of the nearest value in doublings; None outside the axis, of which a rounding is forgiven."""
    if not axis or value < axis[0] * 0.99 or value > axis[-1] * 1.01:
        return None
    return min(range(len(axis)), key=lambda i: abs(math.log(axis[i] / value)))


def between_rows(
    attention: Attention, page_size: int, phase: Phase, rows: Iterable[Row], predict: Predict
) -> Between | None:
    """Work out the winners between the even rows of one phase; None where there are fewer than two."""
    rows = [r for r in rows if r.phase == phase and not r.ragged and r.topk == 1 and r.tried]
    if len(rows) < 2:
        return None
    axes = (
        powers(r.batch_size for r in rows),
        powers(r.q_len for r in rows),
        powers(r.kv_len for r in rows),
    )
    contenders = _contenders(rows)
    table = Estimator(attention, page_size, phase, rows, predict)
    winners = tuple(table.winner(contenders, (b, q, kv)) for b in axes[0] for q in axes[1] for kv in axes[2])
    return Between(batch_sizes=axes[0], q_lens=axes[1], kv_lens=axes[2], choices=tuple(contenders), winners=winners)


def powers(values: Iterable[int]) -> tuple[int, ...]:
    """Whole numbers from the least to the largest value, doubling."""
    values = sorted(set(values))
    low, high = values[0], values[-1]
    steps = max(1, round(math.log2(high / low) * STEPS_PER_DOUBLING)) if high > low else 0
    return tuple(dict.fromkeys(round(low * (high / low) ** (i / steps)) if steps else low for i in range(steps + 1)))


def _contenders(rows: Sequence[Row]) -> list[Choice]:
    """The default first, then every winner and runner-up."""
    found: dict[str, Choice] = {}
    for pick in ("sglang_default", "best", "best_sglang", "runner_up"):
        for row in rows:
            choice: Choice | None = getattr(row, pick)
            if choice is not None:
                found.setdefault(choice.candidate.key, _bare(choice))
    return list(found.values())


def _bare(choice: Choice) -> Choice:
    return Choice(
        backend=choice.backend,
        implementation=choice.implementation,
        implementation_version=choice.implementation_version,
        knobs=choice.knobs,
        sglang=choice.sglang,
    )


@dataclass(slots=True)
class Estimator:
    """Times between rows: the model's, moved by how the candidate's own measurements came out."""

    attention: Attention
    page_size: int
    phase: Phase
    rows: Sequence[Row]
    predict: Predict

    def winner(self, contenders: Sequence[Choice], point: tuple[int, int, int]) -> int:
        """Index of the fastest contender; the first where none saves enough."""
        times = [self.seconds(choice.candidate, point) for choice in contenders]
        known = [(t, i) for i, t in enumerate(times) if t is not None]
        if not known:
            return UNKNOWN
        best, index = min(known)
        default = times[0]
        return 0 if default is not None and best > default * (1 - MARGIN) else index

    def seconds(self, candidate: Candidate, point: tuple[int, int, int]) -> float | None:
        """Seconds at (requests, new tokens, KV tokens); None where the candidate was never measured."""
        batch_size, q_len, kv_len = point
        if q_len > kv_len:
            return None
        measured = sorted((_distance(r, point), r.key, r) for r in self.rows if candidate.key in r.tried)[:NEAREST]
        batch = Batch(self.phase, (q_len,) * batch_size, (kv_len,) * batch_size, self.page_size)
        predicted = self.predict(self.attention, batch, candidate) if measured else None
        if predicted is None:
            return None
        weights = weight = 0.0
        for distance, _, row in measured:
            tried = row.tried[candidate.key]
            if tried.predicted_us is None:
                continue
            w = 1.0 / (distance + 1e-3) ** 2
            weights += w * math.log(tried.measured_us / tried.predicted_us)
            weight += w
        return predicted * math.exp(weights / weight) if weight else predicted


def _distance(row: Row, point: tuple[int, int, int]) -> float:
    pairs = zip((row.batch_size, row.q_len, row.kv_len), point, strict=True)
    return math.sqrt(sum(math.log2(a / b) ** 2 for a, b in pairs))
