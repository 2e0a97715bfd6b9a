"""A prefix that all requests share: read by each of them, or attended once by all their queries (cascade attention).

The cascade is three launches: all queries together over the prefix, without a causal mask; each request over its own
tokens; the merge of both outputs by their log-sum-exp. FlashInfer has it as MultiLevelCascadeAttentionWrapper
(flashinfer/cascade.py), for FlashAttention vLLM makes it of two calls (vllm/v1/attention/backends/flash_attn.py).
SGLang's backends have none across requests: there every request reads the prefix.
"""

from dataclasses import dataclass, replace

from costmodel.attention import DTYPE_BYTES
from costmodel.batch import Batch
from costmodel.bound import binding, bytes_text
from costmodel.calibration import doubt, resolve
from costmodel.call import Call
from costmodel.emulators import Emulator
from costmodel.errors import Incompatible
from costmodel.estimate import breakdown_of, estimate, fastest_rate, time_call
from costmodel.prediction import Prediction
from costmodel.tiles import L2_SHARE
from costmodel.work import sees_all_before

BACKENDS = ("fa3", "flashinfer")


@dataclass(frozen=True, slots=True)
class _OverPrefix(Batch):
    """Queries of all requests over the prefix, which holds none of them: there may be more queries than keys."""

    def __post_init__(self) -> None:
        """Check nothing: the batch that it was made from is checked."""


def estimate_shared(backend: str, emulator: Emulator, call: Call) -> Prediction:
    """Estimate a possible call whose requests may share a prefix: as a cascade where the knob says so.

    Raises:
        Incompatible: The backend has no cascade for this attention.
    """
    if not call.batch.shared_prefix:
        return estimate(backend, emulator, call)
    if call.knobs.get("cascade"):
        reasons = cascade_reasons(emulator.name, call)
        if reasons:
            raise Incompatible(backend, reasons)
        return _cascade(backend, emulator, call)
    return _ordinary(backend, emulator, call)


def cascade_reasons(backend: str, call: Call) -> tuple[str, ...]:
    """Say why a backend cannot attend a shared prefix once; empty where it can."""
    attention, reasons = call.attention, []
    if backend not in BACKENDS:
        reasons.append(f"{backend} has no cascade: {', '.join(BACKENDS)} have one")
    if attention.kv_lora_rank is not None:
        reasons.append("cascade attention is for MHA, GQA and MQA, not for MLA")
    if attention.sinks:
        reasons.append("cascade attention does not take sinks")
    if not sees_all_before(attention):
        reasons.append("cascade attention needs every query to see the whole prefix, causally")
    if call.batch.topk > 1:
        reasons.append("cascade attention does not take a draft tree")
    return tuple(reasons)


def saved_bytes(call: Call) -> float:
    """KV bytes that are not requested again when the prefix is attended once."""
    if not sees_all_before(call.attention):
        return 0.0
    return (call.batch.size - 1) * call.batch.shared_prefix * call.attention.kv_bytes_per_token


def cascade_calls(call: Call) -> tuple[Call, Call]:
    """Give the call over the prefix and the call over each request's own tokens."""
    batch, prefix = call.batch, call.batch.shared_prefix
    over = _OverPrefix("extend", (batch.total_q,), (prefix,), batch.page_size, 1, batch.layers)
    own = replace(batch, kv_lens=tuple(kv - prefix for kv in batch.kv_lens), shared_prefix=0)
    if "use_tensor_cores" in call.knobs and batch.phase == "decode":
        own = replace(own, phase="extend")  # FlashInfer plans every level as prefill
    together = replace(call.attention, causal=False)
    return Call(together, over, call.machine, call.knobs), Call(call.attention, own, call.machine, call.knobs)


def limit_shared(call: Call) -> float:
    """Least time that the device's peaks allow when the prefix is read once."""
    work, machine = call.work, call.machine
    moved = (work.bytes - saved_bytes(call)) / machine.memory_bytes_per_s
    return max(moved, work.flops / fastest_rate(call.attention, machine))


def _ordinary(backend: str, emulator: Emulator, call: Call) -> Prediction:
    """Every request reads the prefix: from DRAM in the estimate, from the L2 at the lower end where it fits."""
    alone = Call(call.attention, replace(call.batch, shared_prefix=0), call.machine, call.knobs)
    p = estimate(backend, emulator, alone)
    plan, saved = emulator.plan(alone), saved_bytes(call)
    once = call.batch.shared_prefix * call.attention.kv_bytes_per_token
    fits = once <= L2_SHARE * call.machine.l2_bytes
    if not saved or not fits or plan.after or plan.repeats > 1 or call.machine.kind == "cpu":
        return p
    least = max(plan.dram_bytes - saved, alone.work.bytes - saved)
    seconds = max(time_call(emulator, call.machine, replace(plan, dram_bytes=least))[0].seconds, limit_shared(call))
    note = f"reads the prefix {call.batch.size} times; {seconds * 1e6:.1f} us if the L2 serves all but the first"
    low = max(seconds * p.low / p.seconds, limit_shared(call))
    return replace(p, low=min(p.low, low), notes=(*p.notes, note), from_l2_seconds=seconds)


def _cascade(backend: str, emulator: Emulator, call: Call) -> Prediction:
    over, own = cascade_calls(call)
    plans = emulator.plan(over), emulator.plan(own)
    first, second = (time_call(emulator, call.machine, plan)[0] for plan in plans)
    p = resolve(emulator.name, plans[1].variant, call.machine).parameters
    rows, row_bytes = call.batch.total_q * call.attention.num_qo_heads, _output_row_bytes(call)
    merge = p.launch_seconds + 3 * rows * row_bytes / p.merge_bytes_per_s
    both = first.then(second, 1, p.launch_seconds)
    timing = replace(both, merge=both.merge + merge)
    own_seconds = both.seconds - first.seconds
    limit = limit_shared(call)
    seconds = max(timing.seconds, limit)
    low, high = doubt("structure")
    bound, margin = binding(timing, call.machine.kind)
    slots = [call.machine.sms * plan.slots_per_sm for plan in plans]
    return Prediction(
        backend=backend,
        implementation=emulator.implementation,
        implementation_version=emulator.implementation_version,
        phase=call.batch.phase,
        seconds=seconds,
        low=max(seconds * low, limit),
        high=seconds * high,
        plan_seconds=2 * emulator.plan_seconds + emulator.plan_request_seconds * (call.batch.size + 1),
        eager_seconds=max(3 * emulator.host_seconds, seconds),
        bound=bound,
        num_splits=max(plan.num_splits for plan in plans),
        waves=sum(plan.job_count / n for plan, n in zip(plans, slots, strict=True)),
        dram_bytes=sum(plan.dram_bytes for plan in plans) + 3.0 * rows * row_bytes,
        flops=call.work.flops,
        workspace_bytes=sum(plan.workspace_bytes for plan in plans) + int(2 * rows * row_bytes),
        knobs=call.knobs,
        breakdown=breakdown_of(timing, limit),
        evidence="structure",
        reason=f"the prefix once for {call.batch.total_q} queries {first.seconds * 1e6:.1f} us, own tokens of "
        f"each request {own_seconds * 1e6:.1f} us, the merge {merge * 1e6:.1f} us; "
        f"{bytes_text(saved_bytes(call))} of KV not read again",
        margin=margin,
        mla_form=call.attention.form,
    )


def _output_row_bytes(call: Call) -> float:
    """Bytes of one output row and its log-sum-exp, fp32."""
    return call.attention.value_dim * DTYPE_BYTES[call.attention.dtype] + DTYPE_BYTES["fp32"]
