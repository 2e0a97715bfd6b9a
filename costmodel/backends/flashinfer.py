"""FlashInfer: host plans that pick a KV chunk by binary search; CUDA-core decode, FA2 and FA3 kernels."""

from costmodel.attention import DTYPE_BYTES, Attention
from costmodel.backends.flashinfer_mla import plan as plan_mla
from costmodel.call import Call
from costmodel.plan import Job, Plan, TileWork, converting_tile, count_of, kernel_name, tile_work
from costmodel.schedule import EXACT_WAVES
from costmodel.tiles import (
    ceil_div,
    dram_bytes,
    joined_tiles,
    kv_range,
    merged_runs,
    partial_row_bytes,
    query_runs,
    tile_tokens,
)
from costmodel.work import Requests

MIN_CHUNK_TOKENS = 128
CUDA_CORE_GROUPS = (1, 2, 3, 4, 8)
MOST_KEYS = 128
"""Keys that a tile is counted in: fp8 tiles have twice as many, but the empty half of one costs little."""
TENSOR_CORE_SLOTS = 2
CUDA_CORE_SLOTS = 7
"""CTAs of decode on CUDA cores that the registers of one SM hold (seen on an H200: the grid that it splits for)."""
FEW_HEADS = 3
"""Query heads of a group up to which decode on CUDA cores waits for loads; with more it waits for its arithmetic."""
SAME_SCHEDULE_TILES = 4096
"""Tiles per head beyond which the Hopper plan uses one schedule for all heads."""


def plan(call: Call) -> Plan:
    """Say what FlashInfer launches: decode under a graph, extend and verify without."""
    if call.attention.is_latent:
        return plan_mla(call)
    if call.batch.phase == "decode":
        if uses_tensor_cores(call):
            converts = call.attention.kv_dtype.startswith("fp8")
            return _plan_fa2(call, graph=True, variant="decode_converting" if converts else "decode_tensor_cores")
        return _plan_cuda_cores(call)
    if extend_kernel(call) == "fa3":
        return _plan_fa3(call)
    return _plan_fa2(call, graph=False, variant="extend_fa2")


def uses_tensor_cores(call: Call) -> bool:
    """Whether decode runs on the matrix units: as asked, else as SGLang chooses (fp8 KV or groups of 4 and more)."""
    asked = call.knobs["use_tensor_cores"]
    if asked != "auto":
        return bool(asked)
    if fixes_splits(call):
        return True
    return call.attention.kv_dtype.startswith("fp8") or call.attention.group_size >= 4


def extend_kernel(call: Call) -> str:
    """Kernel family of extend and verify: as asked, else the library's choice (fa3 on Hopper without fp8 KV)."""
    asked = call.knobs["kernel"]
    if asked != "auto":
        return str(asked)
    if fixes_splits(call):
        return "fa2"
    tree = call.batch.topk > 1
    hopper = call.machine.capability == (9, 0)
    return "fa3" if hopper and not tree and not call.attention.kv_dtype.startswith("fp8") else "fa2"


def fixes_splits(call: Call) -> bool:
    """Whether the caller fixes how KV is split, which the FA2 plan alone can do."""
    return bool(call.number("fixed_split_size") or call.knobs.get("disable_split_kv"))


def chunk_pages(lengths: list[tuple[int, int]], limit: int, smallest: int) -> int:
    """Find the smallest chunk whose items stay within `limit`.

    Args:
        lengths: `(pages, count)`: that many query tiles over KV of that many pages.
        limit: Items that fit the grid, per KV head.
        smallest: Smallest chunk allowed, in pages.
    """
    longest = max(pages for pages, _ in lengths)
    if len(lengths) == 1:
        parts = limit // lengths[0][1]
        return max(smallest, ceil_div(longest, parts)) if parts else max(smallest, longest)
    low, high = smallest, max(longest, smallest)
    while low < high:
        middle = (low + high) // 2
        if sum(count * ceil_div(pages, middle) for pages, count in lengths) > limit:
            low = middle + 1
        else:
            high = middle
    return low


def _plan_cuda_cores(call: Call) -> Plan:
    attention, batch, machine = call.attention, call.batch, call.machine
    page, heads = batch.page_size, attention.num_kv_heads
    grid = CUDA_CORE_SLOTS * machine.sms
    tokens = [(_visible(attention, q, kv), count) for q, kv, count in call.requests]
    lengths = _in_pages(tokens, page)
    split = batch.size * heads < grid
    chunk = max(pages for pages, _ in lengths)
    if split:
        chunk = chunk_pages(lengths, grid // heads, max(MIN_CHUNK_TOKENS // page, 1))
    keys = _cuda_core_keys(attention)
    arrived = [(_visible(attention, q, kv), count) for q, kv, count in call.arrivals]
    jobs = _chunk_jobs(arrived, chunk * page, keys, heads)
    splits = max(ceil_div(pages, chunk) for pages, _ in lengths)
    rows = float(attention.num_qo_heads * sum(count * ceil_div(pages, chunk) for pages, count in lengths))
    padded = grid // heads if split else batch.size
    vector = 2.0 * attention.group_size * keys * (attention.head_dim + attention.value_dim)
    base = tile_work(machine, attention, attention.group_size, keys, batch.page_size)
    tile = TileWork(attention.group_size, keys, base.bytes, vector / machine.sm_vector_flops_per_s, base.exp_seconds)
    return Plan(
        variant="decode_cuda_cores" if attention.group_size > FEW_HEADS else "decode_cuda_cores_few_heads",
        kernel=f"{kernel_name(attention)}_g{attention.group_size}",
        jobs=jobs,
        tile=tile,
        slots_per_sm=CUDA_CORE_SLOTS,
        dram_bytes=call.work.bytes,
        units=f"{count_of(heads, 'KV head')} x {count_of(batch.size, 'request')}",
        unit_count=heads * batch.size,
        num_splits=splits,
        merge_splits=splits,
        merge_slots=int(splits > 1),
        merge_launched=split,
        merged_rows=float(attention.num_qo_heads * sum(count for pages, count in lengths if pages > chunk)),
        partial_rows=rows if split else 0.0,
        partial_row_bytes=partial_row_bytes(attention),
        requests=batch.size,
        empty_ctas=max(0, padded * heads - sum(count for count, _ in jobs)),
        workspace_bytes=int(attention.num_qo_heads * padded * partial_row_bytes(attention)) if split else 0,
    )


def _plan_fa2(call: Call, *, graph: bool, variant: str) -> Plan:
    attention, batch, machine = call.attention, call.batch, call.machine
    group, heads, page = attention.group_size, attention.num_kv_heads, batch.page_size
    mean_rows = group * batch.total_q / batch.size if not graph else group * (batch.total_q - batch.size + 1)
    rows = query_rows(attention, mean_rows)
    keys = min(kv_tile(attention, rows, machine.shared_bytes_per_sm), MOST_KEYS)
    limit = TENSOR_CORE_SLOTS * machine.sms // heads
    lengths = _in_pages(_tile_tokens(call, call.requests, rows), page)
    longest = max(pages for pages, _ in lengths)
    smallest = max(MIN_CHUNK_TOKENS // page, 1)
    whole = call.knobs.get("disable_split_kv") is True
    fixed = longest if whole else ceil_div(call.number("fixed_split_size"), page)
    chunk = fixed or chunk_pages(lengths, limit, smallest)
    split = (graph or chunk < longest) and not whole
    if graph:
        jobs = _chunk_jobs(_tile_tokens(call, call.arrivals, rows), chunk * page, keys, heads)
    else:
        jobs = _masked_jobs(call, rows, keys, chunk * page if split else 0)
    tiles = sum(count for _, count in lengths)
    items = sum(count * ceil_div(pages, chunk) for pages, count in lengths)
    padded = max(limit, tiles) if graph else items
    splits = ceil_div(longest, chunk) if split else 1
    merged = sum(q * n for (q, _, n), (pages, _) in zip(call.requests, lengths, strict=True) if pages > chunk)
    tile = converting_tile(machine, attention, rows, keys, batch.page_size)
    total = sum(count * n for count, n in jobs)
    partial = float(items * min(rows, mean_rows) * heads) if split else 0.0
    return Plan(
        variant=variant,
        kernel=kernel_name(attention, batch),
        jobs=jobs,
        tile=tile,
        slots_per_sm=TENSOR_CORE_SLOTS,
        dram_bytes=dram_bytes(
            call.work, total * tile.bytes, tiles / batch.size, _running_kv(call, tiles * heads), machine
        ),
        row_fill=batch.total_q * group / (tiles * rows),
        units=f"{count_of(heads, 'KV head')} x {count_of(tiles, 'query tile')}",
        unit_count=heads * tiles,
        num_splits=splits,
        merge_splits=splits,
        merge_slots=int(splits > 1),
        merge_launched=split,
        merged_rows=float(merged * attention.num_qo_heads) if split else 0.0,
        partial_rows=partial,
        partial_row_bytes=partial_row_bytes(attention),
        requests=batch.size,
        empty_ctas=empty_before_last(padded, items, heads),
        workspace_bytes=int(attention.num_qo_heads * padded * rows * partial_row_bytes(attention)) if split else 0,
    )


def _plan_fa3(call: Call) -> Plan:
    attention, batch, machine = call.attention, call.batch, call.machine
    rows = 192 if attention.value_dim == 64 else 128
    keys = 96 if attention.head_dim <= 128 else 32
    head: list[Job] = []
    joined = joined_tiles(call.requests, rows, 1)
    for q, kv, count in call.requests:
        head.extend(
            (count * width, n) for width, n in reversed(query_runs(attention, (q, kv), (rows, keys), 1, joined))
        )
    runs = by_head(head, attention.num_qo_heads, machine.sms)
    tile = tile_work(machine, attention, rows, keys, batch.page_size)
    total = sum(count * n for count, n in runs)
    units = sum(count for count, _ in runs)
    visits = units / (attention.num_kv_heads * batch.size)
    heads_at_once = machine.sms * attention.num_qo_heads / units / attention.group_size
    running = call.work.kv_bytes / attention.num_kv_heads * min(max(heads_at_once, 1.0), attention.num_kv_heads)
    return Plan(
        variant="extend_fa3",
        kernel=kernel_name(attention, batch),
        jobs=runs,
        tile=tile,
        slots_per_sm=1,
        dram_bytes=dram_bytes(call.work, total * tile.bytes, visits, running, machine),
        row_fill=batch.total_q * attention.num_qo_heads / (units * rows),
        units=f"{count_of(attention.num_qo_heads, 'head')} x {units // attention.num_qo_heads} query tiles",
        unit_count=units,
        requests=batch.size,
        splittable=False,
    )


def by_head(head: list[Job], heads: int, slots: int) -> tuple[Job, ...]:
    """Order the jobs of the Hopper plan: head after head, in each the longest requests first.

    Heads before the last few are given as one: only the end of the schedule depends on the order.
    """
    jobs = sum([count for count, _ in head])
    last = min(heads, EXACT_WAVES * slots // jobs + 1)
    early = [(count * (heads - last), tiles) for count, tiles in head] if heads > last else []
    return merged_runs(early + head * last)


def empty_before_last(padded: int, items: int, heads: int) -> int:
    """Count the CTAs of a padded grid without work that are launched before the last one with work.

    The grid is launched head after head, each head's padding after its items; what comes after the last item ends
    beside it.
    """
    return max(0, padded - items) * (heads - 1)


def query_rows(attention: Attention, mean_rows: float) -> int:
    """Packed query rows of a tile of the FA2 family."""
    if attention.value_dim >= 512:
        return 16 if mean_rows <= 32 else 32
    if mean_rows > 64 and attention.value_dim < 256:
        return 128
    return 64 if mean_rows > 16 else 16


def kv_tile(attention: Attention, rows: int, shared_bytes: int) -> int:
    """Keys of a tile of the FA2 family: what shared memory for two CTAs and the registers allow."""
    warps = 4 if rows <= 32 else 1
    item = DTYPE_BYTES[attention.kv_dtype]
    step = 16 * warps * (attention.head_dim + attention.value_dim) * item
    query = rows * attention.head_dim * DTYPE_BYTES[attention.dtype]
    half = shared_bytes / 2
    room = half if half >= query + step else shared_bytes
    fits = max(1, int((room - query) // step))
    most = min(fits, 8 // (2 if rows in (32, 128) else 1))
    return 16 * warps * (8 if most >= 8 else 4 if most >= 4 else 2 if most >= 2 else 1)


def _tile_tokens(call: Call, requests: Requests, rows: int) -> list[tuple[int, int]]:
    """Give `(tokens, query tiles)` of each request: what the window leaves of its KV."""
    attention = call.attention
    lengths = []
    for q, kv, count in requests:
        seen = kv if attention.sliding_window is None else min(kv, attention.sliding_window + rows)
        lengths.append((seen, count * ceil_div(q * attention.group_size, rows)))
    return lengths


def _in_pages(lengths: list[tuple[int, int]], page: int) -> list[tuple[int, int]]:
    return [(ceil_div(tokens, page), count) for tokens, count in lengths]


def _chunk_jobs(lengths: list[tuple[int, int]], chunk_tokens: int, keys: int, heads: int) -> tuple[Job, ...]:
    """Cut KV into whole pages; the kernel walks the last one to the last token only."""
    jobs: list[Job] = []
    for tokens, count in lengths:
        full, rest = divmod(tokens, chunk_tokens)
        if full:
            jobs.append((full * count * heads, ceil_div(chunk_tokens, keys)))
        if rest:
            jobs.append((count * heads, ceil_div(rest, keys)))
    if len(lengths) == 1:
        jobs.sort(key=lambda job: -job[1])
    return merged_runs(jobs)


def _masked_jobs(call: Call, rows: int, keys: int, chunk_tokens: int) -> tuple[Job, ...]:
    attention, group, heads = call.attention, call.attention.group_size, call.attention.num_kv_heads
    jobs: list[Job] = []
    joined = joined_tiles(call.arrivals, rows, group)
    for q, kv, count in call.arrivals:
        tiles = ceil_div(q * group, rows)
        for i in range(0, tiles, joined):
            width = min(joined, tiles - i)
            last = i + (width - 1) // 2
            first, end = kv_range(attention, q, kv, tile_tokens(last, rows, group, q))
            alike = count * width * heads
            if not chunk_tokens:
                jobs.append((alike, ceil_div(end - first, keys)))
                continue
            full, rest = divmod(end - first, chunk_tokens)
            if full:
                jobs.append((full * alike, ceil_div(chunk_tokens, keys)))
            if rest:
                jobs.append((alike, ceil_div(rest, keys)))
    return merged_runs(jobs)


def _cuda_core_keys(attention: Attention) -> int:
    item = int(DTYPE_BYTES[attention.kv_dtype])
    vector = max(16 // item, attention.head_dim // 32)
    x = max(1, attention.head_dim // vector)
    y = attention.group_size
    z = max(1, max(128, x * y) // (x * y))
    per_thread = (2 if item == 1 else 4) if y == 1 else 1
    return per_thread * y * z


def _visible(attention: Attention, q: int, kv: int) -> int:
    first, end = kv_range(attention, q, kv, (0, q))
    return end - first


def _running_kv(call: Call, units: int) -> float:
    """KV bytes of the heads that run together: the grid goes through all query tiles of a head before the next head."""
    longest = max(kv for _, kv, _ in call.requests) * call.attention.kv_bytes_per_token / call.attention.num_kv_heads
    return max(longest, call.work.kv_bytes * min(1.0, TENSOR_CORE_SLOTS * call.machine.sms / units))
