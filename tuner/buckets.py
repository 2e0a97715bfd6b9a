"""Which batches to tune: where the model says that the winner changes, and the ends of what a server sees."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from costmodel import Attention, Batch, Phase, rank
from hwprofiles import Profile

DECODE_SIZES = tuple(2**i for i in range(9))
DECODE_LENGTHS = tuple(2**i for i in range(9, 18))
PREFILL_LENGTHS = tuple(2**i for i in range(7, 16))
PREFILL_SIZES = (1, 4)
CHUNKS = (512, 2048, 8192)
PREFIXES = (0, 2048, 8192, 32768)
DRAFTS = 4
KV_SHARE = 0.8
"""Largest part of the memory that a KV cache takes."""
SAME = 0.02
"""A choice that costs less than this over the best counts as the same choice."""

Times = Mapping[str, float]
"""Choice to predicted seconds; a choice is a backend, or a backend with other knobs than its own."""
RankTimes = Callable[[Batch], Times]


@dataclass(frozen=True, slots=True)
class Bucket:
    """One batch worth tuning."""

    batch: Batch
    stake: float
    """Part of the time that the choice of its neighbour would lose here; infinite for the ends of the range."""


def choose_buckets(
    attention: Attention,
    profile: Profile,
    *,
    page_size: int = 1,
    limits: Mapping[Phase, int],
    most_tokens: float = math.inf,
    times: RankTimes | None = None,
) -> list[Batch]:
    """Choose batches for each phase, at most so many as `limits` says.

    Args:
        attention: The layer on one rank.
        profile: The device; batches beyond its memory are left out.
        page_size: Tokens in one page of the KV cache.
        limits: Phase to the most batches.
        most_tokens: KV tokens that fit the device beside each other, in all layers; larger batches never run there.
        times: The model's times of a batch; ranks all backends if not given.
    """
    model = times or (lambda batch: ranked_times(attention, batch, profile))

    def ask(batch: Batch) -> Times:
        return model(batch) if batch.total_kv <= most_tokens else {}

    chosen: list[Batch] = []
    for phase, limit in limits.items():
        chosen += [b.batch for b in _thin(_buckets(list(lines(phase, page_size)), ask), limit)]
    return sorted(chosen, key=lambda b: (b.phase != "extend", b.phase, b.size, b.q_lens[0], b.kv_lens[0]))


def lines(phase: Phase, page_size: int) -> Iterable[list[Batch]]:
    """Batches in rows along which one number grows; the rows cross each other."""
    if phase == "extend":
        for size in PREFILL_SIZES:
            yield [Batch.extend([n] * size, [n] * size, page_size) for n in PREFILL_LENGTHS]
        for q in CHUNKS:
            yield [Batch.extend([q], [q + prefix], page_size) for prefix in PREFIXES]
        return
    make = _decode if phase == "decode" else _verify
    for size in DECODE_SIZES:
        yield [make(size, n, page_size) for n in DECODE_LENGTHS]
    for n in DECODE_LENGTHS:
        yield [make(size, n, page_size) for size in DECODE_SIZES]


def ranked_times(attention: Attention, batch: Batch, profile: Profile) -> dict[str, float]:
    """Predicted time of every backend, by itself and with its best knobs; empty where the batch does not fit."""
    try:
        rows = rank(attention, batch, profile=profile)
    except ValueError:
        return {}
    times: dict[str, float] = {}
    for row in rows:
        if row.prediction is not None:
            name = f"{row.backend} tuned" if row.knobs else row.backend
            times[name] = min(times.get(name, row.prediction.seconds), row.prediction.seconds)
    return times


def tokens_that_fit(profile: Profile, kv_bytes_per_token: float) -> float:
    """KV tokens that fit the device's memory beside a model's weights; infinite where the memory is not known."""
    return KV_SHARE * (profile.memory_bytes or math.inf) / kv_bytes_per_token


def _buckets(rows: Sequence[Sequence[Batch]], ask: RankTimes) -> list[Bucket]:
    times = {batch: ask(batch) for batch in dict.fromkeys(itertools.chain.from_iterable(rows))}
    stakes: dict[Batch, float] = {}
    for row in rows:
        there = [batch for batch in row if times[batch]]
        if not there:
            continue
        for end in (there[0], there[-1]):
            stakes[end] = float("inf") if _is_corner(end, times) else stakes.get(end, 0.0)
        for a, b in itertools.pairwise(there):
            stake = max(_loss(times[a], times[b]), _loss(times[b], times[a]))
            if stake > SAME:
                stakes[a], stakes[b] = max(stakes.get(a, 0.0), stake), max(stakes.get(b, 0.0), stake)
    return [Bucket(batch, stake) for batch, stake in stakes.items()]


def _is_corner(batch: Batch, times: Mapping[Batch, Times]) -> bool:
    sizes = sorted({b.size for b in times})
    lengths = sorted({b.kv_lens[0] for b in times if b.size == batch.size and times[b]})
    return batch.size in (sizes[0], sizes[-1]) and batch.kv_lens[0] in (lengths[0], lengths[-1])


def _loss(times: Times, others: Times) -> float:
    """What the winner of `others` loses where `times` hold."""
    winner = min(others, key=others.__getitem__)
    return times.get(winner, float("inf")) / min(times.values()) - 1


def _thin(buckets: Sequence[Bucket], limit: int) -> list[Bucket]:
    """The buckets with the highest stakes, none within a doubling of another unless room is left."""
    ordered = sorted(buckets, key=lambda b: (-b.stake, b.batch.size, b.batch.kv_lens[0], b.batch.q_lens[0]))
    apart: list[Bucket] = []
    for bucket in ordered:
        if len(apart) < limit and all(_far(bucket.batch, other.batch) for other in apart):
            apart.append(bucket)
    return [*apart, *[b for b in ordered if b not in apart][: limit - len(apart)]]


def _far(a: Batch, b: Batch) -> bool:
    numbers = ((a.size, b.size), (a.q_lens[0], b.q_lens[0]), (a.kv_lens[0], b.kv_lens[0]))
    return sum(max(x, y) / min(x, y) for x, y in numbers) - len(numbers) > 1.5


def _decode(size: int, length: int, page_size: int) -> Batch:
    return Batch.decode([length] * size, page_size)


def _verify(size: int, length: int, page_size: int) -> Batch:
    return Batch.verify([length] * size, DRAFTS, page_size=page_size)
