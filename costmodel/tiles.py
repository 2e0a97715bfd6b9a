"""Mathematics of tiles shared by the emulators: how many KV tiles a query tile visits, and how splits cut them."""

from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from costmodel.attention import DTYPE_BYTES, Attention
from costmodel.machine import Machine
from costmodel.plan import Job
from costmodel.work import Requests, Work

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

L2_SHARE = 0.7
"""Share of the L2 that KV of the running heads can count on."""
SPREAD_SHARE = 0.2
"""Bytes, as a share of the L2, at which half of the latency of spread loads is seen (on an H200)."""
MOST_RUNS = 256
"""Query tiles of a call that are planned one by one; of more, neighbours of one request are joined."""
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
    return [kv_tiles(attention, q, kv, tile_tokens(i, rows, group, q), keys) for i in range(count)]


def joined_tiles(requests: Requests, rows: int, group: int) -> int:
    """Count the neighbouring query tiles that are planned as one: 1 up to `MOST_RUNS` query tiles.

    Args:
        requests: Requests to plan for; equal ones are planned once.
        rows: Packed query rows of a tile.
        group: Query heads packed into the rows of one tile.
    """
    return ceil_div(sum([ceil_div(q * group, rows) for q, _, _ in requests]), MOST_RUNS)


def query_runs(
    attention: Attention, lens: tuple[int, int], tile: tuple[int, int], group: int, joined: int = 1
) -> list[tuple[int, int]]:
    """Give `(query tiles, KV tiles of each)` of one request, first to last.

    Args:
        attention: Gives the mask.
        lens: New query tokens and KV tokens, the new ones included.
        tile: Packed query rows and keys of a tile.
        group: Query heads packed into the rows of one tile (1: none).
        joined: Neighbours that are taken as equal, of the mean of the first and the last. What rounding leaves goes
            to the next, so that the sum is kept.
    """
    (q, kv), (rows, keys) = lens, tile
    count = ceil_div(q * group, rows)
    if joined == 1 or count == 1:
        return [(1, n) for n in query_tiles(attention, q, kv, tile, group)]
    starts = range(0, count, joined)
    ends = [*starts[1:], count]
    if attention.causal and attention.sliding_window is None and attention.chunk_size is None:
        prefix, whole = kv - q, -(-kv // keys)
        first = [-((-(i + 1) * rows // group - prefix) // keys) for i in starts]
        last = [-((-i * rows // group - prefix) // keys) for i in ends[:-1]] + [whole]
        first[-1] = min(first[-1], whole)
    else:
        first = [kv_tiles(attention, q, kv, tile_tokens(i, rows, group, q), keys) for i in starts]
        last = [kv_tiles(attention, q, kv, tile_tokens(i - 1, rows, group, q), keys) for i in ends]
    runs = []
    rest = 0
    for start, end, least, most in zip(starts, ends, first, last, strict=True):
        width = end - start
        twice = (least + most) * width + min(rest, 2 * width - 1)
        mean = twice // (2 * width)
        rest = twice - 2 * width * mean
        runs.append((width, mean))
    return runs


def tile_tokens(index: int, rows: int, group: int, q: int) -> tuple[int, int]:
    """Give the first and the end of the query tokens of one query tile."""
    return index * rows // group, min(q, ceil_div((index + 1) * rows, group))


def partial_row_bytes(attention: Attention) -> float:
    """Bytes of one row of partial output and its log-sum-exp, fp32."""
    return DTYPE_BYTES["fp32"] * (attention.value_dim + 1)


def similar_requests(requests: Requests, buckets: int) -> Requests:
    """Join neighbours of a list of requests to at most `buckets` groups of mean length."""
    if len(requests) <= buckets:
        return requests
    size = ceil_div(len(requests), buckets)
    joined = []
    for i in range(0, len(requests), size):
        part = requests[i : i + size]
        count = sum([n for _, _, n in part])
        joined.append(
            (round(sum([q * n for q, _, n in part]) / count), round(sum([k * n for _, k, n in part]) / count), count)
        )
    return joined


def similar_shapes(requests: Requests, steps: int) -> Requests:
    """Join requests alike in both lengths to at most `steps` x `steps` groups; single queries are joined to no other.

    Args:
        requests: Requests of different numbers of new tokens, longest KV first.
        steps: Groups by new tokens, and groups by KV in each of them.
    """
    single = [request for request in requests if request[0] == 1]
    several = sorted(
        [request for request in requests if request[0] > 1], key=lambda request: (-request[0], -request[1])
    )
    joined = similar_requests(single, steps * steps)
    if len(several) <= steps * steps:
        joined = joined + several
    else:
        size = ceil_div(len(several), steps)
        for i in range(0, len(several), size):
            alike = sorted(several[i : i + size], key=itemgetter(1), reverse=True)
            joined = joined + similar_requests(alike, steps)
    return sorted(joined, key=itemgetter(1, 0), reverse=True)
