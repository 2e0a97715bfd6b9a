"""Sets added to the first ones, which stay as they were recorded: what those hold few of, and FlashAttention-4."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from random import Random

from costmodel import Attention
from executors.sweeps import layers
from executors.sweeps.draw import Span, pick
from executors.sweeps.shapes import Draw, Workload, chunk, decode_of, grown, mixed, prefill, tree, verify

FA4_PAGES = (1, 64, 128)
"""Pages of 128 are loaded by TMA, others row by row: two kernels."""


def more(random: Random) -> Iterator[Workload]:
    """Mixed batches, fp8 caches and windows, chunks and prompts."""
    spans = (Span(1, 128), Span(512, 65536))
    for layer in layers.FP8:
        yield from grown(3, partial(decode_of, random, layer, *spans, breadth=1, pages=(64, 64, 1)))
        for kind in (prefill, chunk, verify, mixed):
            yield from grown(1, partial(kind, random, layer))
    for layer in (*layers.WINDOWED, *layers.SINKS):
        yield from grown(2, partial(decode_of, random, layer, *spans, breadth=1, pages=(64, 1)))
        yield from grown(1, partial(chunk, random, layer))
    for kind, count in ((mixed, 20), (chunk, 6), (prefill, 6)):
        for _ in range(count):
            yield from grown(1, partial(kind, random, pick(random, layers.GQA, layers.GQA_WEIGHTS)))


def latent(random: Random) -> Iterator[Workload]:
    """Absorbed MLA over fp8 caches, all of it and selections of 2048 tokens."""
    spans = (Span(1, 256), Span(512, 65536))
    for layer in (*layers.MLA_FP8, *layers.SPARSE):
        yield from grown(6, partial(decode_of, random, layer, *spans, breadth=0, pages=(64,)))
        yield from grown(1, partial(verify, random, layer, pages=(64,)))


def fa4(random: Random) -> Iterator[Workload]:
    """Few layers, since the CuTe DSL compiles each for seconds, in every phase."""
    spans = (Span(1, 256), Span(256, 65536))
    for layer in layers.FA4:
        yield from grown(5, partial(decode_of, random, layer, *spans, breadth=0, pages=FA4_PAGES))
        for kind in (prefill, prefill, chunk, chunk, verify, mixed):
            yield from grown(1, partial(_repaged, random, kind, layer))
    for layer in layers.FA4_SPECIAL:
        yield from grown(2, partial(decode_of, random, layer, *spans, breadth=0, pages=(64,)))


def masks(random: Random) -> Iterator[Workload]:
    """Windows, trees, chunks and mixed batches for FlexAttention, which compiles each mask for seconds."""
    spans = (Span(1, 8), Span(2048, 32768))
    for layer in layers.WINDOWED:
        yield from grown(1, partial(decode_of, random, layer, *spans, breadth=0, pages=(64,)))
        yield from grown(1, partial(_default, random, chunk, layer))
    for kind in (tree, verify, chunk, mixed):
        yield from grown(1, partial(_default, random, kind, pick(random, layers.GQA, layers.GQA_WEIGHTS)))


def _default(random: Random, kind: Draw, layer: Attention) -> Workload:
    return replace(kind(random, layer), breadth=0)


def _repaged(random: Random, kind: Draw, layer: Attention) -> Workload:
    """Draw a batch, on pages that FlashAttention-4 treats differently."""
    drawn = kind(random, layer)
    return replace(drawn, batch=replace(drawn.batch, page_size=random.choice(FA4_PAGES)), breadth=0)
