"""FlashInfer's MLA plan: pieces of at most one limit, each given to the least loaded CTA cluster."""

from heapq import heapreplace

from costmodel.call import Call
from costmodel.plan import Assigned, Plan, count_of, kernel_name, tile_work
from costmodel.schedule import EXACT_JOBS
from costmodel.tiles import ceil_div, dram_bytes, joined_tiles

ROWS = 64
MERGE_ROWS = 4
"""Rows that a CTA merges at once."""
PARTIAL_BYTES = 2
"""Partial outputs are bf16."""


def kv_limit(tokens: int) -> int:
    """Round the tokens per cluster up to the plan's steps."""
    for step, limit in ((8, 32), (16, 64), (32, 128), (64, 192)):
        if tokens <= step:
            return limit
    return ceil_div(tokens, 256) * 256


def merge_walk(seen: int, limit: int, rows: int, clusters: int) -> int:
    """Steps of the CTA that merges most: rows are dealt to as many CTAs as there are parts, four rows at once."""
    parts = max(seen * clusters // limit, 1)
    return ceil_div(seen, limit) * ceil_div(ceil_div(rows, parts), MERGE_ROWS)


def plan(call: Call) -> Plan:
    """Say what FlashInfer's MLA kernel is given."""
    attention, batch, machine = call.attention, call.batch, call.machine
    heads = attention.num_qo_heads
    clusters = 2 if batch.total_q * heads / batch.size > ROWS else 1
    rows, bins = ROWS * clusters, machine.sms // clusters
    keys = 64 if machine.shared_bytes_per_sm >= 221696 else 32 if machine.shared_bytes_per_sm >= 147968 else 16
    pieces = _pieces(call, rows)
    limit = kv_limit(ceil_div(sum(seen * count for seen, _, count in pieces), bins))
    dealt = _Bins(bins)
    first = sum([count for _, _, count in pieces]) - EXACT_JOBS
    early_jobs = early_tiles = 0
    walk, partial_rows = 1, 0.0
    for seen, valid, count in pieces:
        if seen <= limit:
            early = min(count, max(first - early_jobs, 0))
            early_jobs += early
            early_tiles += early * ceil_div(seen, keys)
            dealt.give(2 * rows + seen, ceil_div(seen, keys), count - early)
            continue
        partial_rows += count * valid * ceil_div(seen, limit)
        walk = max(walk, merge_walk(seen, limit, valid, clusters))
        full, rest = divmod(seen, limit)
        for _ in range(count):
            dealt.give(2 * rows + limit, ceil_div(limit, keys), full)
            if rest:
                dealt.give(2 * rows + rest, ceil_div(rest, keys), 1)
    dealt.spread(early_jobs, early_tiles)
    tiles, jobs = dealt.tiles, dealt.jobs
    items = sum(jobs)
    units = sum(count for _, _, count in pieces)
    splits = max(ceil_div(seen, limit) for seen, _, _ in pieces)
    tile = tile_work(machine, attention, ROWS, keys, batch.page_size)
    requested = clusters * sum(tiles) * tile.bytes
    kernel = "fa3" if _hopper_kernel(call) else "fa2"
    assigned: tuple[Assigned, ...] = tuple((float(t), j, clusters) for t, j in zip(tiles, jobs, strict=True) if j)
    return Plan(
        variant=f"mla_{kernel}",
        kernel=kernel_name(attention),
        jobs=((clusters * items, clusters * sum(tiles) / (clusters * items)),),
        tile=tile,
        slots_per_sm=1,
        dram_bytes=dram_bytes(call.work, requested / clusters, units / batch.size, call.work.kv_bytes, machine),
        units=count_of(units, "query tile"),
        unit_count=units * clusters,
        num_splits=splits,
        merge_splits=walk,
        merge_launched=splits > 1,
        merged_rows=float(batch.total_q * heads) if splits > 1 else 0.0,
        partial_rows=partial_rows,
        partial_row_bytes=PARTIAL_BYTES * attention.value_dim + 4,
        row_fill=batch.total_q * heads / (units * rows),
        requests=batch.size,
        workspace_bytes=2 * bins * rows * (PARTIAL_BYTES * attention.value_dim + 4),
        assigned=assigned,
        splittable=False,
    )


def _pieces(call: Call, rows: int) -> list[tuple[int, int, int]]:
    """Give `(KV tokens, valid rows, count)` of the query tiles in the order of the plan, many neighbours joined."""
    heads = call.attention.num_qo_heads
    joined = joined_tiles(call.arrivals, rows, heads)
    pieces = []
    for q, kv, count in call.arrivals:
        for end in range(ceil_div(q * heads, rows), 0, -joined):
            width = min(joined, end)
            last, first = min(q, ceil_div(end * rows, heads)), ceil_div((end - width + 1) * rows, heads)
            seen = kv - q + (first + last) // 2 if width > 1 else kv - q + last
            valid = min(rows, q * heads - (end - 1) * rows) if width == 1 else rows
            pieces.append((seen if call.attention.causal else kv, valid, count * width))
    return pieces


class _Bins:
    """CTA clusters that are given pieces, the least loaded first and of equal ones the first."""

    def __init__(self, bins: int) -> None:
        self.tiles = [0.0] * bins
        self.jobs = [0] * bins
        self._heap = list(range(bins))
        """Load times the number of bins, plus the bin."""

    def spread(self, jobs: int, tiles: int) -> None:
        """Add pieces that came before the others evenly: what all bins have alike changes no choice."""
        bins = len(self.jobs)
        each, rest = divmod(jobs, bins)
        self.jobs = [n + each + (i < rest) for i, n in enumerate(self.jobs)]
        self.tiles = [n + tiles / bins for n in self.tiles]

    def give(self, cost: int, tiles: int, count: int) -> None:
        """Give `count` equal pieces; while loads differ by less than one piece, whole rounds go to all bins."""
        heap, bins = self._heap, len(self._heap)
        step = cost * bins
        if count >= 2 * bins and max(heap) - heap[0] < step:
            rounds, count = divmod(count, bins)
            heap[:] = [code + rounds * step for code in heap]
            self.tiles = [n + rounds * tiles for n in self.tiles]
            self.jobs = [n + rounds for n in self.jobs]
        for _ in range(count):
            code = heap[0]
            heapreplace(heap, code + step)
            self.tiles[code % bins] += tiles
            self.jobs[code % bins] += 1


def _hopper_kernel(call: Call) -> bool:
    asked = call.knobs["kernel"]
    return asked == "fa3" or (asked == "auto" and call.machine.capability == (9, 0))
