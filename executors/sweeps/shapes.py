"""What a sweep measures, and how workloads of each kind are drawn."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
Draw = Callable[[Random, Attention], Workload]
"""Draws one workload of a kind for a layer."""


def grown(count: int, draw: Callable[[], Workload]) -> Iterator[Workload]:
    """Draw until `count` workloads fit the cache limit."""
    while count:
        workload = draw()
        if fits(workload.attention, workload.batch, CACHE_BYTES):
            count -= 1
            yield workload


def decode_any(random: Random, batch_sizes: Span, kv_lens: Span, *, breadth: int) -> Workload:
    """Decode of one of the grouped layers, drawn by how common they are."""
    layer = pick(random, layers.GQA, layers.GQA_WEIGHTS)
    return decode_of(random, layer, batch_sizes, kv_lens, breadth=breadth, pages=PAGES)


def decode_of(
    random: Random, layer: Attention, batch_sizes: Span, kv_lens: Span, *, breadth: int, pages: tuple[int, ...]
) -> Workload:
    """Decode of one layer; about a third ragged."""
    kv = lengths(random, batch_sizes.draw(random), kv_lens.draw(random), ragged=random.random() < 0.35)
    return Workload(layer, Batch.decode(kv, page_size=random.choice(pages)), breadth)


def prefill(random: Random, layer: Attention) -> Workload:
    """One to four prompts without a prefix."""
    q = Span(128, 16384).draw(random)
    count = random.choice((1, 1, 1, 2, 4)) if q <= 4096 else 1
    q_lens = lengths(random, count, q, ragged=random.random() < 0.5, low=16)
    return Workload(layer, Batch("extend", q_lens, q_lens, random.choice(PAGES)), 1)


def chunk(random: Random, layer: Attention) -> Workload:
    """One or two chunks over a prefix."""
    q, prefix = Span(256, 8192).draw(random), Span(512, 65536).draw(random)
    count = random.choice((1, 1, 2)) if q <= 2048 else 1
    prefixes = lengths(random, count, prefix, ragged=random.random() < 0.5)
    batch = Batch("extend", (q,) * count, tuple(q + p for p in prefixes), random.choice(PAGES))
    return Workload(layer, batch, 1)


def latent_chunk(random: Random, layer: Attention) -> Workload:
    """A short chunk over a prefix, as absorbed MLA takes it."""
    q, prefix = Span(16, 1024).draw(random), Span(512, 16384).draw(random)
    return Workload(layer, Batch("extend", (q,), (q + prefix,), 64), 1)


def verify(random: Random, layer: Attention, pages: tuple[int, ...] = PAGES) -> Workload:
    """Draft chains to verify."""
    drafts = random.choice((2, 3, 4, 5, 6, 8))
    kv = lengths(random, Span(1, 128).draw(random), Span(256, 32768).draw(random), ragged=random.random() < 0.35)
    kv = tuple(max(drafts + 1, n) for n in kv)
    return Workload(layer, Batch.verify(kv, drafts, page_size=random.choice(pages)), 1)


def tree(random: Random, layer: Attention) -> Workload:
    """Draft trees to verify."""
    drafts = random.choice((4, 8, 16))
    kv = lengths(random, Span(1, 64).draw(random), Span(256, 16384).draw(random), ragged=random.random() < 0.35)
    kv = tuple(max(drafts + 1, n) for n in kv)
    topk = random.choice((2, 4))
    return Workload(layer, Batch.verify(kv, drafts, topk=topk, page_size=random.choice(PAGES)), 1)


def mixed(random: Random, layer: Attention) -> Workload:
    """One chunk beside ragged decodes."""
    q, prefix = Span(256, 4096).draw(random), Span(256, 16384).draw(random)
    decodes = lengths(random, Span(2, 64).draw(random), Span(256, 16384).draw(random), ragged=True, low=2)
    batch = Batch("mixed", (q, *(1 for _ in decodes)), (q + prefix, *decodes), random.choice(PAGES))
    return Workload(layer, batch, 1)
