"""Which rows of the output are checked: all within a time limit, else whole requests and a sample of the rest."""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from costmodel import Attention, Batch

SAMPLED_ROWS = 64
"""Rows of a request that is not checked as a whole: the first, the last and random ones between."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """Rows to check, by request."""

    rows: dict[int, tuple[int, ...]]
    """Request to query indices within it, in rising order."""
    fraction: float
    """Rows to check over all rows."""

    def alike(self, batch: Batch) -> Iterator[list[int]]:
        """Group the requests that are computed as one batch: KV lengths within a factor of two, same number of rows."""
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for request, rows in self.rows.items():
            groups[batch.kv_lens[request].bit_length(), len(rows)].append(request)
        yield from groups.values()


@dataclass(frozen=True, slots=True)
class _Speed:
    """Rough rates of the reference, to turn a time limit into rows; being off costs time, never correctness."""

    seconds_per_flop: float
    seconds_per_logit: float
    seconds_per_kv_element: float


_SPEEDS = {"cpu": _Speed(5e-11, 1e-8, 6e-9), "cuda": _Speed(5e-14, 2e-11, 5e-12)}


def plan_rows(attention: Attention, batch: Batch, device: str, *, seed: int, limit_seconds: float) -> RowPlan:
    """Choose the rows to check.

    Half the limit goes to whole requests in random order, half to a sample of rows of the others. The longest
    request is always among those checked, whatever it costs.
    """
    speed = _SPEEDS[device.partition(":")[0]]
    whole = [_seconds(attention, speed, q, kv) for q, kv in zip(batch.q_lens, batch.kv_lens, strict=True)]
    if sum(whole) <= limit_seconds:
        return RowPlan({r: tuple(range(q)) for r, q in enumerate(batch.q_lens)}, 1.0)
    draw = random.Random(seed)
    order = list(range(batch.size))
    draw.shuffle(order)
    longest = max(order, key=lambda r: batch.kv_lens[r])
    order.remove(longest)
    chosen = {longest: _sample(batch.q_lens[longest], draw)}
    left_whole = left_sampled = limit_seconds / 2
    for request in order:
        q, kv = batch.q_lens[request], batch.kv_lens[request]
        if whole[request] <= left_whole:
            left_whole -= whole[request]
            chosen[request] = tuple(range(q))
            continue
        rows = _sample(q, draw)
        seconds = _seconds(attention, speed, len(rows), kv)
        if seconds <= left_sampled:
            left_sampled -= seconds
            chosen[request] = rows
    return RowPlan(dict(sorted(chosen.items())), sum(map(len, chosen.values())) / batch.total_q)


def _seconds(attention: Attention, speed: _Speed, q: int, kv: int) -> float:
    width = attention.head_dim + attention.value_dim
    logits = q * kv * attention.num_qo_heads
    return (
        2 * logits * width * speed.seconds_per_flop
        + logits * speed.seconds_per_logit
        + kv * attention.num_kv_heads * width * speed.seconds_per_kv_element
    )


def _sample(q: int, draw: random.Random) -> tuple[int, ...]:
    if q <= SAMPLED_ROWS:
        return tuple(range(q))
    return (0, *sorted(draw.sample(range(1, q - 1), SAMPLED_ROWS - 2)), q - 1)
