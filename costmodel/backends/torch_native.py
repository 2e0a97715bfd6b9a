"""PyTorch's scaled dot-product attention over gathered pages, by default one call a request as in SGLang."""

from dataclasses import replace

from costmodel.attention import DTYPE_BYTES, Attention
from costmodel.backends.cpu import plan_sdpa
from costmodel.call import Call
from costmodel.plan import Plan, TileWork, count_of, kernel_name, tile_work
from costmodel.tiles import ceil_div, joined_tiles, missing, query_runs, similar_requests, split_jobs

ROWS, DECODE_ROWS, KEYS = 128, 64, 64
BUCKETS = 8
"""Requests of similar length that are timed as one, repeated."""
GATHER_TOKENS, GATHER_SLOTS = 64, 4
GATHER_TRAFFIC = 2.0
"""Gathered KV is read and written before the product reads it."""
COPY_TRAFFIC = 4.0
"""On extend the queries are copied into a padded tensor and the output out of one."""
DECODE_SLOTS = 2
MASK_SECONDS = 20e-6
"""Turning a boolean mask into a bias and adding it (seen on an H200)."""
MATH_KV_PASSES = 11.0
"""The kernel of single steps passes over KV, repeated for every query head, so often (seen on an H200)."""
MATH_SCORE_BYTES = 105.0
"""Its traffic for one score (seen on an H200)."""
WIDEST_FUSED_HEAD = 256
"""Head dim up to which fused kernels share KV heads; beyond, PyTorch takes single steps unless the heads are packed."""
EFFICIENT_EXTEND_TIME = 5.0
"""Time of a tile of the memory-efficient extend over the fused default (3 to 7 in three calls on an H200)."""


def plan(call: Call) -> Plan:
    """Say what torch_native launches: gather, then SDPA, for each request or for the padded batch."""
    if call.machine.kind == "cpu":
        return plan_sdpa(call)
    if call.knobs["form"] == "padded":
        return _padded(call)
    steps: list[Plan] = []
    for q, kv, count in similar_requests(call.requests, BUCKETS):
        steps.append(_gather(call, q, kv, 1, count))
        steps.append(_sdpa(call, q, kv, 1, count))
    return replace(steps[0], after=tuple(steps[1:]))


def _padded(call: Call) -> Plan:
    """One gather and one SDPA: padding reads one token again and again; ragged batches need a mask."""
    batch, size = call.batch, call.batch.size
    q, kv = max(batch.q_lens), max(batch.kv_lens)
    gather = _gather(call, q, kv, size, 1)
    unread = call.attention.kv_bytes_per_token * (size * kv - batch.total_kv)
    return replace(
        gather,
        dram_bytes=gather.dram_bytes - unread,
        extra_seconds=0.0 if batch.uniform else MASK_SECONDS,
        after=(_sdpa(call, q, kv, size, 1),),
    )


def _gather(call: Call, q: int, kv: int, batch: int, repeats: int) -> Plan:
    attention = call.attention
    copied = attention.num_qo_heads * attention.head_dim * DTYPE_BYTES[attention.dtype] * _rows(call, q, kv)
    return Plan(
        variant="gather" if q == 1 else "gather_extend",
        kernel=kernel_name(attention),
        jobs=((batch * ceil_div(kv, GATHER_TOKENS), 1),),
        tile=TileWork(GATHER_TOKENS, GATHER_TOKENS, attention.kv_bytes_per_token * GATHER_TOKENS, 0.0, 0.0),
        slots_per_sm=GATHER_SLOTS,
        dram_bytes=batch * (GATHER_TRAFFIC * attention.kv_bytes_per_token * kv + COPY_TRAFFIC * copied * (q > 1)),
        units=_units(attention, call.batch.size),
        unit_count=attention.num_qo_heads,
        repeats=repeats,
        splittable=False,
        workspace_bytes=int(batch * attention.kv_bytes_per_token * kv),
    )


def _sdpa(call: Call, q: int, kv: int, batch: int, repeats: int) -> Plan:
    """On decode the KV is cut to fill the SMs, unless packed heads look like several queries; extend is not cut."""
    attention, machine = call.attention, call.machine
    kernel = _kernel(call)
    size = float(batch * attention.kv_bytes_per_token * kv)
    base = Plan(
        variant="sdpa" if q == 1 else "sdpa_extend",
        kernel=kernel_name(attention),
        jobs=(),
        tile=tile_work(machine, attention, DECODE_ROWS if q == 1 else ROWS, KEYS),
        slots_per_sm=DECODE_SLOTS if q == 1 else 1,
        dram_bytes=size * missing(size, machine),
        units=_units(attention, call.batch.size),
        unit_count=batch * attention.num_kv_heads,
        repeats=repeats,
        splittable=False,
    )
    if kernel == "math":
        return _math(call, base, _rows(call, q, kv), kv, batch)
    if q > 1:
        rows = _rows(call, q, kv)
        blocks = ceil_div(rows, ROWS)
        tiles = [(1, ceil_div(kv, KEYS))] * blocks
        if rows == kv:
            tiles = query_runs(
                attention,
                (kv, kv),
                (ROWS, KEYS),
                1,
                joined_tiles([(kv, kv, 1)] * min(len(call.requests), BUCKETS), ROWS, 1),
            )
        slower = EFFICIENT_EXTEND_TIME if kernel == "efficient" else 1.0
        jobs = tuple((batch * attention.num_qo_heads * width, slower * n) for width, n in reversed(tiles))
        variant = "sdpa_extend_flash" if kernel == "flash" else "sdpa_extend"
        return replace(base, variant=variant, jobs=jobs, unit_count=blocks * batch * attention.num_qo_heads)
    tiles_each = ceil_div(kv, KEYS)
    if call.knobs["pack_gqa"] is True and attention.group_size > 1:
        return replace(base, variant="sdpa_packed", jobs=((base.unit_count, tiles_each),))
    splits = max(1, min(DECODE_SLOTS * machine.sms // base.unit_count, tiles_each))
    return replace(
        base,
        variant="sdpa_flash" if kernel == "flash" else "sdpa",
        jobs=tuple(split_jobs(tiles_each, splits, base.unit_count)),
        num_splits=splits,
        merge_splits=splits,
        merge_launched=splits > 1,
    )


def _kernel(call: Call) -> str:
    """Give the kernel asked for; `auto` is the one of single steps where no fused one takes the heads."""
    attention, asked = call.attention, str(call.knobs["sdpa"])
    wide = max(attention.head_dim, attention.value_dim) > WIDEST_FUSED_HEAD
    shared = attention.group_size > 1 and call.knobs["pack_gqa"] is not True
    if asked != "auto" or not wide:
        return asked
    return "math" if shared else "efficient"


def _math(call: Call, base: Plan, rows: int, kv: int, batch: int) -> Plan:
    """Repeat KV for every query head, then products, mask and softmax as steps of their own, in fp32."""
    attention = call.attention
    width = (attention.head_dim + attention.value_dim) * DTYPE_BYTES[attention.dtype]
    blocks = ceil_div(rows, ROWS) * ceil_div(kv, KEYS) * batch * attention.num_qo_heads
    scores = MATH_SCORE_BYTES * rows * kv * attention.num_qo_heads
    return replace(
        base,
        variant="sdpa_math",
        jobs=((blocks, 1),),
        dram_bytes=batch * (MATH_KV_PASSES * width * kv * attention.num_qo_heads + scores),
    )


def _rows(call: Call, q: int, kv: int) -> int:
    """Query rows of one request: SGLang pads the new ones to the whole sequence, for a causal square."""
    return kv if q > 1 and call.knobs["form"] == "per_request" else q


def _units(attention: Attention, size: int) -> str:
    return f"{count_of(attention.num_qo_heads, 'head')} x 1 request at a time, {count_of(size, 'request')}"
