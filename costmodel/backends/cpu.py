"""Attention on a CPU: library calls one after the other, each spread over the cores by head and query block."""

from costmodel.attention import DTYPE_BYTES
from costmodel.call import Call
from costmodel.plan import Job, Plan, TileWork, count_of, kernel_name
from costmodel.tiles import ceil_div, query_tiles

QUERY_BLOCK, KEY_BLOCK = 32, 512
CALLS_PER_REQUEST = 5
"""Library calls for one request: two gathers, two reshapes, one SDPA."""
CALLS_PER_SPLIT = 3
CALLS_PER_BATCH = 3
FLEX_CALLS = 2


def plan_sdpa(call: Call) -> Plan:
    """Say what PyTorch's SDPA does on a CPU: once a request, or once for the padded batch."""
    attention, batch = call.attention, call.batch
    form = call.knobs["form"]
    splits = call.number("num_splits")
    gathered = 0.0
    calls = CALLS_PER_BATCH + (CALLS_PER_REQUEST if form != "per_request" else 0)
    jobs: list[Job] = []
    longest = max(batch.kv_lens)
    for q, kv, count in call.requests:
        kv_read = longest if form == "padded" else kv
        if form == "per_request":
            calls += count * (CALLS_PER_REQUEST + (splits - 1) * CALLS_PER_SPLIT + (splits > 1) * CALLS_PER_SPLIT)
        gathered += 2.0 * count * kv_read * attention.kv_bytes_per_token
        tiles = query_tiles(attention, q, kv_read, (QUERY_BLOCK, KEY_BLOCK), 1)
        jobs.extend((count * attention.num_qo_heads * splits, max(n / splits, 1.0)) for n in tiles)
    return _plan(call, jobs, calls, call.work.bytes + gathered)


def plan_flex(call: Call) -> Plan:
    """Say what compiled flex_attention does on a CPU: one call for the batch."""
    attention = call.attention
    rows = call.number("block_m") or QUERY_BLOCK
    jobs: list[Job] = []
    for q, kv, count in call.requests:
        tiles = query_tiles(attention, q, kv, (rows, KEY_BLOCK), 1)
        jobs.extend((count * attention.num_qo_heads, n) for n in tiles)
    gathered = 2.0 * call.work.kv_bytes
    return _plan(call, jobs, FLEX_CALLS + CALLS_PER_REQUEST, call.work.bytes + gathered)


def _plan(call: Call, jobs: list[Job], calls: int, dram_bytes: float) -> Plan:
    attention, machine = call.attention, call.machine
    rows = min(QUERY_BLOCK, max(call.batch.q_lens))
    width = attention.head_dim + attention.value_dim
    flops = 2.0 * rows * KEY_BLOCK * width
    units = sum(count for count, _ in jobs)
    blocks = count_of(ceil_div(units, attention.num_qo_heads), "block")
    tile = TileWork(
        rows=rows,
        keys=KEY_BLOCK,
        bytes=KEY_BLOCK * width * DTYPE_BYTES[attention.kv_dtype],
        matrix_seconds=flops / machine.sm_matrix_rate(attention.dtype),
        exp_seconds=rows * KEY_BLOCK / machine.sm_exp_per_s,
    )
    return Plan(
        variant="cpu",
        kernel=kernel_name(attention),
        jobs=tuple(jobs),
        tile=tile,
        slots_per_sm=1,
        dram_bytes=dram_bytes,
        units=f"{count_of(attention.num_qo_heads, 'head')} x {blocks}",
        unit_count=units,
        extra_seconds=calls * machine.call_seconds,
        workspace_bytes=int(2 * max(call.batch.kv_lens) * attention.kv_bytes_per_token),
        splittable=False,
    )
