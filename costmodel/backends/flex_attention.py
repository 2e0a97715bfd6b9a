"""PyTorch's flex_attention: FlexDecoding with a compile-time split count, or the tiled kernel, a request at a time."""

from dataclasses import replace

from costmodel.backends.cpu import plan_flex
from costmodel.call import Call
from costmodel.plan import Plan, count_of, kernel_name, tile_work
from costmodel.tiles import ceil_div, joined_tiles, partial_row_bytes, query_runs, similar_requests, split_jobs

DECODE_QUERY_TOKENS = 128
DECODE_KEYS = 64
ROWS, KEYS = 128, 64
BUCKETS = 8
"""Requests of similar length that are timed as one, repeated."""


def plan(call: Call) -> Plan:
    """Say what flex_attention launches for each request."""
    if call.machine.kind == "cpu":
        return plan_flex(call)
    similar = similar_requests(call.requests, BUCKETS)
    joined = joined_tiles([(kv, kv, count) for _, kv, count in similar], call.number("block_m") or ROWS, 1)
    steps = [_step(call, request, joined) for request in similar]
    return replace(steps[0], after=tuple(steps[1:]))


def _step(call: Call, request: tuple[int, int, int], joined: int) -> Plan:
    q, kv, count = request
    attention, machine = call.attention, call.machine
    heads = attention.num_kv_heads
    decoding = q < DECODE_QUERY_TOKENS and attention.group_size & (attention.group_size - 1) == 0
    if decoding:
        keys = call.number("block_n") or DECODE_KEYS
        rows = max(16, 1 << max(0, q * attention.group_size - 1).bit_length())
        units, splits = heads, max(1, 2 * (machine.sms // heads))
        jobs = split_jobs(ceil_div(kv, keys), splits, units)
    else:
        keys, rows = call.number("block_n") or KEYS, call.number("block_m") or ROWS
        units, splits = attention.num_qo_heads * ceil_div(kv, rows), 1
        square = query_runs(attention, (kv, kv), (rows, keys), 1, joined)
        jobs = [(attention.num_qo_heads * width, n) for width, n in reversed(square)]
    tile = tile_work(machine, attention, rows, keys)
    return Plan(
        variant="decode" if decoding else "extend",
        kernel=kernel_name(attention),
        jobs=tuple(jobs),
        tile=tile,
        slots_per_sm=2,
        dram_bytes=attention.kv_bytes_per_token * kv,
        units=f"{count_of(heads, 'KV head')} x 1 request at a time, {count_of(call.batch.size, 'request')}",
        unit_count=units,
        num_splits=splits,
        merge_splits=splits,
        merge_launched=decoding,
        partial_rows=float(splits * q * attention.num_qo_heads) if decoding else 0.0,
        partial_row_bytes=partial_row_bytes(attention),
        repeats=count,
        workspace_bytes=int(splits * q * attention.num_qo_heads * partial_row_bytes(attention)) if decoding else 0,
        splittable=False,
    )
