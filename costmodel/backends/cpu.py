"""Attention on a CPU: library calls one after the other, each spread over the cores by head and query block."""

from costmodel.attention import DTYPE_BYTES
from costmodel.call import Call
from costmodel.plan import Job, Plan, TileWork, count_of, kernel_name
from costmodel.tiles import ceil_div, query_tiles

QUERY_BLOCK, KEY_BLOCK = 32, 512
CALLS_PER_REQUEST = 6
"""Library calls for one request: two gathers, views, one SDPA, the store."""
CALLS_PER_MERGE = 4
CALLS_PER_BATCH = 6
GATHER_TRAFFIC = 2.0
"""Gathered KV is read from its pages and written to a fresh tensor before the kernel reads it."""


def plan_sdpa(call: Call) -> Plan:
    """Say what PyTorch's SDPA does on a CPU: by default gather and call once a request."""
    attention, batch, form = call.attention, call.batch, str(call.knobs["form"])
    splits = call.number("num_splits")
    decoding = call.single_query
    longest = max(batch.kv_lens)
    jobs: list[Job] = []
    calls, gathered = CALLS_PER_BATCH, 0.0
    for q, kv, count in call.requests:
        if form == "padded":
            tiles = _full(max(batch.q_lens), longest)
        elif decoding or form == "trimmed":
            tiles = _full(q, kv)
        elif form == "cascade":
            tiles = [n + ceil_div(kv - q, KEY_BLOCK) for n in query_tiles(attention, q, q, (QUERY_BLOCK, KEY_BLOCK), 1)]
        else:
            tiles = query_tiles(attention, kv, kv, (QUERY_BLOCK, KEY_BLOCK), 1)
        gathered += count * (longest if form == "padded" else kv) * attention.kv_bytes_per_token
        if form != "padded":
            merges = (form == "cascade" and kv > q) + (splits > 1)
            calls += count * (CALLS_PER_REQUEST + merges * CALLS_PER_MERGE)
        jobs.extend((count * attention.num_qo_heads * splits, max(n / splits, 1.0)) for n in tiles)
    return _plan(call, jobs, (QUERY_BLOCK, calls), gathered)


def plan_flex(call: Call) -> Plan:
    """Say what compiled flex_attention does on a CPU: by default gather and call once a request."""
    attention, batch, form = call.attention, call.batch, str(call.knobs["form"])
    rows, keys = call.number("block_m") or QUERY_BLOCK, KEY_BLOCK
    jobs: list[Job] = []
    for q, kv, count in call.requests:
        square = form == "per_request" and not call.single_query
        tiles = query_tiles(attention, kv if square else q, kv, (rows, keys), 1)
        jobs.extend((count * attention.num_qo_heads, n) for n in tiles)
    calls = CALLS_PER_BATCH + (CALLS_PER_REQUEST * batch.size if form == "per_request" else CALLS_PER_REQUEST)
    return _plan(call, jobs, (rows, calls), call.work.kv_bytes)


def _full(q: int, kv: int) -> list[int]:
    return [ceil_div(kv, KEY_BLOCK)] * ceil_div(q, QUERY_BLOCK)


def _plan(call: Call, jobs: list[Job], launched: tuple[int, int], gathered_bytes: float) -> Plan:
    """Describe the jobs, made by `launched`: query rows of a block and library calls."""
    attention, machine = call.attention, call.machine
    block_rows, calls = launched
    packed = call.knobs.get("pack_gqa") is True
    rows = min(block_rows, max(call.batch.q_lens))
    width = attention.head_dim + attention.value_dim
    units = sum(count for count, _ in jobs)
    blocks = count_of(ceil_div(units, attention.num_qo_heads), "block")
    shared = attention.group_size if packed else 1
    idle = machine.sms / min(call.number("threads") or machine.sms, machine.sms)
    tile = TileWork(
        rows=rows,
        keys=KEY_BLOCK,
        bytes=KEY_BLOCK * width * DTYPE_BYTES[attention.kv_dtype] / shared,
        matrix_seconds=idle * 2.0 * rows * KEY_BLOCK * width / machine.sm_matrix_rate(attention.dtype),
        exp_seconds=idle * rows * KEY_BLOCK / machine.sm_exp_per_s,
    )
    return Plan(
        variant="cpu_decode" if call.single_query else "cpu_extend",
        kernel=f"{kernel_name(attention)}_{attention.dtype}" + ("_packed" if packed else ""),
        jobs=tuple(jobs),
        tile=tile,
        slots_per_sm=1,
        dram_bytes=call.work.bytes,
        units=f"{count_of(attention.num_qo_heads, 'head')} x {blocks}",
        unit_count=units,
        extra_seconds=calls * machine.call_seconds
        + idle * GATHER_TRAFFIC * gathered_bytes / machine.gather_bytes_per_s,
        workspace_bytes=int(2 * max(call.batch.kv_lens) * attention.kv_bytes_per_token),
        splittable=False,
    )
