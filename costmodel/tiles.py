"""Mathematics of tiles shared by the emulators: how many KV tiles a query tile visits, and how splits cut them."""

from typing import TYPE_CHECKING, TypeVar

from costmodel.attention import DTYPE_BYTES, Attention
from costmodel.machine import Machine
from costmodel.plan import Job
from costmodel.work import Work

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

L2_SHARE = 0.7
"""Share of the L2 that KV of the running heads can count on."""
SPREAD_SHARE = 0.2
"""Bytes, as a share of the L2, at which half of the latency of spread loads is seen (on an H200)."""
T = TypeVar("T", float, "NDArray[np.float64]")


def ceil_div(a: int, b: int) -> int:
    """Divide and round up."""
    return -(-a // b)


def kv_range(attention: Attention, q: int, kv: int, rows: tuple[int, int]) -> tuple[int, int]:
    """Give the first and the end of the KV positions that query positions `rows` of one request see.

    Args:
        attention: Gives causality, window and chunk.
        q: New query tokens, the last of `kv` positions.
        kv: KV tokens, the new ones included.
        rows: First and end of the query tokens, counted from the first new one.
    """
    offset = kv - q
    end = min(kv, offset + rows[1]) if attention.causal else kv
    first = 0
    if attention.sliding_window is not None:
        first = max(0, offset + rows[0] + 1 - attention.sliding_window)
    if attention.chunk_size is not None:
        first = max(first, (offset + rows[0]) // attention.chunk_size * attention.chunk_size)
    return min(first, end - 1), end


def kv_tiles(attention: Attention, q: int, kv: int, rows: tuple[int, int], keys: int) -> int:
    """Count the KV tiles of `keys` tokens that query positions `rows` visit, tiles aligned to position 0."""
    if attention.causal and q == 1 and attention.sliding_window is None and attention.chunk_size is None:
        return -(-kv // keys)
    first, end = kv_range(attention, q, kv, rows)
    return ceil_div(end, keys) - first // keys


def split_jobs(tiles: int, splits: int, copies: int) -> list[Job]:
    """Cut `tiles` into `splits` parts of equal whole size; the last is shorter, parts without work are left out."""
    if splits <= 1:
        return [(copies, tiles)]
    size = -(-tiles // splits)
    full, rest = divmod(tiles, size)
    if not rest:
        return [(copies * full, size)]
    return [(copies * full, size), (copies, rest)] if full else [(copies, rest)]


def merged_runs(jobs: list[Job]) -> tuple[Job, ...]:
    """Join neighbours of equal size."""
    runs: list[Job] = []
    joined, size = 0, 0.0
    for count, tiles in jobs:
        if tiles == size:
            joined += count
        elif count:
            if joined:
                runs.append((joined, size))
            joined, size = count, tiles
    return (*runs, (joined, size)) if joined else tuple(runs)


def dram_bytes(work: Work, requested: float, visits: float, working_set: float, machine: Machine) -> float:
    """DRAM traffic when several tiles load the same KV: what the L2 cannot hold is fetched again.

    Args:
        work: Least traffic.
        requested: KV bytes that all tiles load together.
        visits: How many tiles load the same KV, on average.
        working_set: KV bytes of the heads that run at the same time.
        machine: Gives the L2.
    """
    if visits <= 1:
        return work.bytes
    return work.bytes + missing(working_set, machine) * requested * (1 - 1 / visits)


def missing(working_set: float, machine: Machine) -> float:
    """Share of repeated loads that the L2 cannot serve while `working_set` bytes are in use."""
    return max(0.0, 1.0 - L2_SHARE * machine.l2_bytes / working_set)


def spread(dram_bytes: T, l2_bytes: float) -> T:
    """Say how far apart loads are: 0 for few bytes, 1 for far more than the L2 (translation and row misses)."""
    return dram_bytes / (dram_bytes + SPREAD_SHARE * l2_bytes)


def query_tiles(attention: Attention, q: int, kv: int, tile: tuple[int, int], group: int) -> list[int]:
    """KV tiles of each query tile of one request, first to last.

    Args:
        attention: Gives the mask.
        q: New query tokens.
        kv: KV tokens, the new ones included.
        tile: Packed query rows and keys of a tile.
        group: Query heads packed into the rows of one tile (1: none).
    """
    rows, keys = tile
    count = ceil_div(q * group, rows)
    if count == 1:
        return [kv_tiles(attention, q, kv, (0, q), keys)]
    if attention.sliding_window is None and attention.chunk_size is None:
        whole = -(-kv // keys)
        if not attention.causal:
            return [whole] * count
        below = range(-rows, -rows * count, -rows)
        prefix = kv - q
        return [-((minus_rows // group - prefix) // keys) for minus_rows in below] + [whole]
    counts = []
    for i in range(count):
        span = (i * rows // group, min(q, ceil_div((i + 1) * rows, group)))
        counts.append(kv_tiles(attention, q, kv, span, keys))
    return counts


def partial_row_bytes(attention: Attention) -> float:
    """Bytes of one row of partial output and its log-sum-exp, fp32."""
    return DTYPE_BYTES["fp32"] * (attention.value_dim + 1)


def similar_requests(requests: list[tuple[int, int, int]], buckets: int) -> list[tuple[int, int, int]]:
    """Join neighbours of a list of requests to at most `buckets` groups of mean length."""
    if len(requests) <= buckets:
        return requests
    size = ceil_div(len(requests), buckets)
    joined = []
    for i in range(0, len(requests), size):
        part = requests[i : i + size]
        count = sum(n for _, _, n in part)
        joined.append(
            (round(sum(q * n for q, _, n in part) / count), round(sum(k * n for _, k, n in part) / count), count)
        )
    return joined
