"""The sets of workloads by name: fixed lists for a seed, shuffled so that any beginning is a fair sample."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from random import Random

from costmodel import Batch
from executors.outcome import Candidate
from executors.sweeps import layers
from executors.sweeps.draw import PAGES, Span, lengths, pick
from executors.sweeps.more import fa4, latent, masks, more
from executors.sweeps.shapes import (
    ALL,
    CACHE_BYTES,
    Workload,
    chunk,
    decode_any,
    decode_of,
    grown,
    latent_chunk,
    mixed,
    prefill,
    tree,
    verify,
)

__all__ = ["ALL", "CACHE_BYTES", "SETS", "Workload", "workloads"]


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
    yield from grown(170, partial(decode_any, random, Span(1, 256), Span(64, 131072), breadth=2))


def _splits(random: Random) -> Iterator[Workload]:
    yield from grown(72, partial(decode_any, random, Span(1, 64), Span(1024, 131072), breadth=ALL))


def _extend(random: Random) -> Iterator[Workload]:
    for kind in (prefill, prefill, chunk, chunk, verify, verify, tree, mixed):
        for _ in range(20):
            layer = pick(random, layers.GQA, layers.GQA_WEIGHTS)
            yield from grown(1, partial(kind, random, layer))


def _mla(random: Random) -> Iterator[Workload]:
    for layer in random.choices(layers.MLA, k=64):
        spans = (Span(1, 256), Span(128, 65536))
        yield from grown(1, partial(decode_of, random, layer, *spans, breadth=2, pages=(64, 64, 1)))
    for layer in random.choices(layers.MLA, k=16):
        yield from grown(1, partial(verify, random, layer, pages=(64,)))
    for layer in random.choices(layers.MLA[2:], k=8):
        yield from grown(1, partial(latent_chunk, random, layer))


def _other(random: Random) -> Iterator[Workload]:
    for layer in layers.OTHER:
        spans = (Span(1, 128), Span(256, 65536))
        yield from grown(2, partial(decode_of, random, layer, *spans, breadth=1, pages=PAGES))
        yield from grown(1, partial(prefill, random, layer))
    for layer in layers.EXPANDED:
        yield from grown(2, partial(prefill, random, layer))


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
    for layer, extending, count in layers.MODELS:
        for size, kv in ((1, 8192), (64, 4096)):
            yield Workload(layer, replace(Batch.decode([kv] * size, page_size=64), layers=count), 0)
        yield Workload(extending, replace(Batch.extend([2048], [2048], page_size=64), layers=count), 0)


def _torch(random: Random) -> Iterator[Workload]:
    """Batches for PyTorch's SDPA, which launches once a request: few requests, each long enough for a cold cache."""
    yield from grown(20, partial(decode_any, random, Span(1, 12), Span(2048, 32768), breadth=3))
    for _ in range(10):
        layer = pick(random, layers.GQA, layers.GQA_WEIGHTS)
        q = Span(512, 4096).draw(random)
        yield Workload(layer, Batch("extend", (q,), (q,), random.choice(PAGES)), 2)


def _flex(random: Random) -> Iterator[Workload]:
    """Batches for FlexAttention, which compiles for seconds."""
    yield from grown(6, partial(decode_any, random, Span(1, 12), Span(2048, 32768), breadth=1))
    for _ in range(4):
        layer = pick(random, layers.GQA, layers.GQA_WEIGHTS)
        q = Span(512, 4096).draw(random)
        yield Workload(layer, Batch("extend", (q,), (q,), random.choice(PAGES)), 0)


def _cpu(random: Random) -> Iterator[Workload]:
    """Sizes that a few CPU cores finish in milliseconds."""
    for layer in layers.CPU:
        yield from grown(3, partial(decode_of, random, layer, Span(1, 8), Span(64, 4096), breadth=ALL, pages=PAGES))
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
    "more": more,
    "latent": latent,
    "fa4": fa4,
    "masks": masks,
}
