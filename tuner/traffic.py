"""How often a server makes each call of a table: from input and output lengths and concurrency, or evenly."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from costmodel import Phase
from tuner.row import Row


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests of one kind served at a fixed concurrency.

    Raises:
        ValueError: A number is not positive.
    """

    isl: int
    """Input tokens of a request."""
    osl: int
    """Output tokens of a request."""
    concurrency: int

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("isl", "osl", "concurrency"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")

    def calls(self) -> list[tuple[Phase, int, int, int, float]]:
        """Calls for `concurrency` requests: phase, requests, new tokens, KV tokens, how often."""
        steps = 4
        per_step = self.osl / steps
        kv = [self.isl + round((i + 0.5) * per_step) for i in range(steps)]
        decode: list[tuple[Phase, int, int, int, float]] = [("decode", self.concurrency, 1, n, per_step) for n in kv]
        return [("extend", 1, self.isl, self.isl, float(self.concurrency)), *decode]


def row_weights(rows: Iterable[Row], traffic: Traffic | None) -> dict[str, float]:
    """Calls that each row stands for, by `phase/key`; a call of the traffic counts for the nearest row.

    Without a traffic every row counts as often as makes all rows take equal time with their best choice, so that
    long calls do not drown short ones.
    """
    rows = list(rows)
    if traffic is None:
        return {name_of(row): 1.0 / (row.best.latency_us or 1.0) for row in rows}
    weights = dict.fromkeys((name_of(row) for row in rows), 0.0)
    for phase, size, q, kv, count in traffic.calls():
        same = [row for row in rows if row.phase == phase and not row.ragged]
        if same:
            nearest = min(same, key=lambda row: distance(row, size, q, kv))
            weights[name_of(nearest)] += count
    return weights


def distance(row: Row, batch_size: int, q_len: int, kv_len: int) -> float:
    """How far a batch is from a row, in doublings of requests, new tokens and KV tokens."""
    pairs = ((row.batch_size, batch_size), (row.q_len, q_len), (row.kv_len, kv_len))
    return sum(abs(math.log2(a / b)) for a, b in pairs)


def name_of(row: Row) -> str:
    """Name of a row within a configuration."""
    return f"{row.phase}/{row.key}"
