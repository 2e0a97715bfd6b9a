"""PyTorch's scaled dot-product attention over gathered pages, one call a request, as SGLang's torch_native does."""

from dataclasses import replace

from costmodel.attention import Attention
from costmodel.backends.cpu import plan_sdpa
from costmodel.call import Call
from costmodel.machine import Machine
from costmodel.plan import Plan, TileWork, count_of, kernel_name, tile_work
from costmodel.tiles import ceil_div, similar_requests, split_jobs

ROWS, KEYS = 64, 64
SLOTS = 2
BUCKETS = 16
"""Requests of similar length that are timed as one, repeated."""
GATHER_TOKENS = 64
GATHER_TRAFFIC = 3.0
"""Gathered KV is read, written, and read again by the product."""


def plan(call: Call) -> Plan:
    """Say what torch_native launches: gather, then SDPA, for each request."""
    if call.machine.kind == "cpu":
        return plan_sdpa(call)
    steps: list[Plan] = []
    for q, kv, count in similar_requests(call.requests, BUCKETS):
        steps.append(_gather(call, kv, count))
        steps.append(_sdpa(call, q, kv, count))
    return replace(steps[0], after=tuple(steps[1:]))


def _gather(call: Call, kv: int, count: int) -> Plan:
    attention = call.attention
    blocks = ceil_div(kv, GATHER_TOKENS)
    size = attention.kv_bytes_per_token * GATHER_TOKENS
    return Plan(
        variant="gather",
        kernel=kernel_name(attention),
        jobs=((blocks, 1),),
        tile=TileWork(GATHER_TOKENS, GATHER_TOKENS, size, 0.0, 0.0),
        slots_per_sm=4,
        dram_bytes=(GATHER_TRAFFIC - 1) * attention.kv_bytes_per_token * kv,
        units=_units(attention, call.batch.size),
        unit_count=attention.num_qo_heads,
        repeats=count,
        splittable=False,
        workspace_bytes=int(attention.kv_bytes_per_token * kv),
    )


def _sdpa(call: Call, q: int, kv: int, count: int) -> Plan:
    """SDPA splits decode over the SMs; on extend SGLang pads the queries to the whole sequence: a full square."""
    attention, machine = call.attention, call.machine
    rows = kv if q > 1 else 1
    units = attention.num_kv_heads if q == 1 else attention.num_qo_heads * ceil_div(rows, ROWS)
    tiles = ceil_div(kv, KEYS)
    visited = max(1, (tiles + 1) // 2) if q > 1 and attention.causal else tiles
    splits = max(1, min(SLOTS * machine.sms // units, visited)) if q == 1 else 1
    return Plan(
        variant="sdpa",
        kernel=kernel_name(attention),
        jobs=tuple(split_jobs(visited, splits, units)),
        tile=sdpa_tile(machine, attention),
        slots_per_sm=SLOTS,
        dram_bytes=attention.kv_bytes_per_token * kv
        + rows * attention.num_qo_heads * (attention.head_dim + attention.value_dim) * 2.0,
        units=_units(attention, call.batch.size),
        unit_count=units,
        num_splits=splits,
        merge_splits=splits,
        merge_launched=splits > 1,
        repeats=count,
        splittable=False,
    )


def sdpa_tile(machine: Machine, attention: Attention) -> TileWork:
    """Work of one tile of SDPA's flash kernel."""
    return tile_work(machine, attention, ROWS, KEYS)


def _units(attention: Attention, size: int) -> str:
    return f"{count_of(attention.num_qo_heads, 'head')} x 1 request at a time, {count_of(size, 'request')}"
