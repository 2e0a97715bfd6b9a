"""The sets of workloads by name: fixed lists for a seed, shuffled so that any beginning is a fair sample."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from costmodel import Attention, Batch
from executors.outcome import Candidate
from executors.sweeps import layers
from executors.sweeps.draw import PAGES, Span, fits, lengths, pick

CACHE_BYTES = 6 << 30
"""Largest KV cache of one workload."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One layer and batch, and how thoroughly its knobs are swept."""

    attention: Attention
    batch: Batch
    breadth: int
    """Candidates beside the default per backend; `ALL` sweeps every split count."""
    only: tuple[Candidate, ...] = field(default=(), hash=False)
    """Measure these and no others."""


ALL = 1_000


def workloads(name: str, *, seed: int = 0, limit: int | None = None) -> tuple[Workload, ...]:
    """List one set.

    Args:
        name: A key of `SETS`.
        seed: Draws shapes and order.
        limit: Keep the first so many.

    Raises:
        ValueError: No set of that name.
    """
    if name not in SETS:
        raise ValueError(f"unknown sweep set {name!r}; known: {', '.join(SETS)}")
    random = Random(f"{name}/{seed}")
    found = list(dict.fromkeys(SETS[name](random)))
    random.shuffle(found)
    return tuple(found[:limit])


def _decode(random: Random) -> Iterator[Workload]:
    yield from _grown(170, partial(_decode_any, random, Span(1, 256), Span(64, 131072), breadth=2))


def _splits(random: Random) -> Iterator[Workload]:
    yield from _grown(72, partial(_decode_any, random, Span(1, 64), Span(1024, 131072), breadth=ALL))


def _extend(random: Random) -> Iterator[Workload]:
    for kind in (_prefill, _prefill, _chunk, _chunk, _verify, _verify, _tree, _mixed):
        for _ in range(20):
            layer = pick(random, layers.GQA, layers.GQA_WEIGHTS)
            yield from _grown(1, partial(kind, random, layer))


def _mla(random: Random) -> Iterator[Workload]:
    for layer in random.choices(layers.MLA, k=64):
        spans = (Span(1, 256), Span(128, 65536))
        yield from _grown(1, partial(_decode_of, random, layer, *spans, breadth=2, pages=(64, 64, 1)))
    for layer in random.choices(layers.MLA, k=16):
        yield from _grown(1, partial(_verify, random, layer, pages=(64,)))
    for layer in random.choices(layers.MLA[2:], k=8):
        yield from _grown(1, partial(_latent_chunk, random, layer))


def _other(random: Random) -> Iterator[Workload]:
    for layer in layers.OTHER:
        spans = (Span(1, 128), Span(256, 65536))
        yield from _grown(2, partial(_decode_of, random, layer, *spans, breadth=1, pages=PAGES))
        yield from _grown(1, partial(_prefill, random, layer))
    for layer in layers.EXPANDED:
        yield from _grown(2, partial(_prefill, random, layer))


def _builds(random: Random) -> Iterator[Workload]:
    """Absorbed MLA on each FA3 build: the one without the 64/512 kernel answers with garbage, which must be seen."""
    builds = ("flash_attn_interface", "fa3_fwd_interface")
    only = tuple(Candidate("fa3", {"build": build}) for build in builds)
    for layer in layers.MLA:
        for _ in range(2):
            kv = lengths(random, Span(4, 64).draw(random), Span(1024, 16384).draw(random), ragged=False)
            yield Workload(layer, Batch.decode(kv, page_size=64), 0, only)


def _stack(random: Random) -> Iterator[Workload]:
    """Whole steps of models: plan once, then KV write and call layer by layer."""
    for layer, prefill, count in layers.MODELS:
        for size, kv in ((1, 8192), (64, 4096)):
            yield Workload(layer, replace(Batch.decode([kv] * size, page_size=64), layers=count), 0)
        yield Workload(prefill, replace(Batch.extend([2048], [2048], page_size=64), layers=count), 0)


def _torch(random: Random) -> Iterator[Workload]:
    """Batches for PyTorch's SDPA, which launches once a request: few requests, each long enough for a cold cache."""
    yield from _grown(20, partial(_decode_any, random, Span(1, 12), Span(2048, 32768), breadth=3))
    for _ in range(10):
        layer = pick(random, layers.GQA, layers.GQA_WEIGHTS)
        q = Span(512, 4096).draw(random)
        yield Workload(layer, Batch("extend", (q,), (q,), random.choice(PAGES)), 2)


def _flex(random: Random) -> Iterator[Workload]:
    """Batches for FlexAttention, which compiles for seconds."""
    yield from _grown(6, partial(_decode_any, random, Span(1, 12), Span(2048, 32768), breadth=1))
    for _ in range(4):
        layer = pick(random, layers.GQA, layers.GQA_WEIGHTS)
        q = Span(512, 4096).draw(random)
        yield Workload(layer, Batch("extend", (q,), (q,), random.choice(PAGES)), 0)


def _cpu(random: Random) -> Iterator[Workload]:
    """Sizes that a few CPU cores finish in milliseconds."""
    for layer in layers.CPU:
        yield from _grown(3, partial(_decode_of, random, layer, Span(1, 8), Span(64, 4096), breadth=ALL, pages=PAGES))
        q, prefix = Span(16, 256).draw(random), Span(16, 1024).draw(random)
        yield Workload(layer, Batch("extend", (q,), (q,), 16), ALL)
        yield Workload(layer, Batch("extend", (q,), (q + prefix,), 16), ALL)


SETS: dict[str, Callable[[Random], Iterator[Workload]]] = {
    "decode": _decode,
    "splits": _splits,
    "extend": _extend,
    "mla": _mla,
    "other": _other,
    "builds": _builds,
    "stack": _stack,
    "torch": _torch,
    "flex": _flex,
    "cpu": _cpu,
}


def _grown(count: int, draw: Callable[[], Workload]) -> Iterator[Workload]:
    """Draw until `count` workloads fit the cache limit."""
    while count:
        workload = draw()
        if fits(workload.attention, workload.batch, CACHE_BYTES):
            count -= 1
            yield workload


def _decode_any(random: Random, batch_sizes: Span, kv_lens: Span, *, breadth: int) -> Workload:
    layer = pick(random, layers.GQA, layers.GQA_WEIGHTS)
    return _decode_of(random, layer, batch_sizes, kv_lens, breadth=breadth, pages=PAGES)


def _decode_of(
    random: Random, layer: Attention, batch_sizes: Span, kv_lens: Span, *, breadth: int, pages: tuple[int, ...]
) -> Workload:
    kv = lengths(random, batch_sizes.draw(random), kv_lens.draw(random), ragged=random.random() < 0.35)
    return Workload(layer, Batch.decode(kv, page_size=random.choice(pages)), breadth)


def _prefill(random: Random, layer: Attention) -> Workload:
    q = Span(128, 16384).draw(random)
    count = random.choice((1, 1, 1, 2, 4)) if q <= 4096 else 1
    q_lens = lengths(random, count, q, ragged=random.random() < 0.5, low=16)
    return Workload(layer, Batch("extend", q_lens, q_lens, random.choice(PAGES)), 1)


def _chunk(random: Random, layer: Attention) -> Workload:
    q, prefix = Span(256, 8192).draw(random), Span(512, 65536).draw(random)
    count = random.choice((1, 1, 2)) if q <= 2048 else 1
    prefixes = lengths(random, count, prefix, ragged=random.random() < 0.5)
    batch = Batch("extend", (q,) * count, tuple(q + p for p in prefixes), random.choice(PAGES))
    return Workload(layer, batch, 1)


def _latent_chunk(random: Random, layer: Attention) -> Workload:
    q, prefix = Span(16, 1024).draw(random), Span(512, 16384).draw(random)
    return Workload(layer, Batch("extend", (q,), (q + prefix,), 64), 1)


def _verify(random: Random, layer: Attention, pages: tuple[int, ...] = PAGES) -> Workload:
    drafts = random.choice((2, 3, 4, 5, 6, 8))
    kv = lengths(random, Span(1, 128).draw(random), Span(256, 32768).draw(random), ragged=random.random() < 0.35)
    kv = tuple(max(drafts + 1, n) for n in kv)
    return Workload(layer, Batch.verify(kv, drafts, page_size=random.choice(pages)), 1)


def _tree(random: Random, layer: Attention) -> Workload:
    drafts = random.choice((4, 8, 16))
    kv = lengths(random, Span(1, 64).draw(random), Span(256, 16384).draw(random), ragged=random.random() < 0.35)
    kv = tuple(max(drafts + 1, n) for n in kv)
    topk = random.choice((2, 4))
    return Workload(layer, Batch.verify(kv, drafts, topk=topk, page_size=random.choice(PAGES)), 1)


def _mixed(random: Random, layer: Attention) -> Workload:
    q, prefix = Span(256, 4096).draw(random), Span(256, 16384).draw(random)
    decodes = lengths(random, Span(2, 64).draw(random), Span(256, 16384).draw(random), ragged=True, low=2)
    batch = Batch("mixed", (q, *(1 for _ in decodes)), (q + prefix, *decodes), random.choice(PAGES))
    return Workload(layer, batch, 1)
