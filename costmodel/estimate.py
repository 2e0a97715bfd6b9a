"""One call that is known to be possible: its plan, its time, and what the estimate says about it."""

from costmodel.attention import Attention
from costmodel.bound import binding, reason
from costmodel.calibration import Resolved, doubt, resolve
from costmodel.call import Call
from costmodel.emulators import Emulator
from costmodel.longest import cut_alike, longest_alone
from costmodel.machine import Machine
from costmodel.plan import Plan
from costmodel.prediction import Prediction
from costmodel.regime import regimes_of
from costmodel.timing import Timing, time_plan
from costmodel.work import INDEX_DTYPE


def estimate(backend: str, emulator: Emulator, call: Call) -> Prediction:
    """Estimate a call that is known to be possible."""
    plan = emulator.plan(call)
    timing, resolved = time_call(emulator, call.machine, plan)
    timing = timing.at_least(_longest_seconds(emulator, call, plan))
    seconds = timing.seconds
    bound, margin = binding(timing, call.machine.kind)
    limit = limit_seconds(call)
    evidence, (low, high) = resolved.evidence, resolved.interval(*regimes_of(timing, plan, call.batch.phase))
    if call.knobs.get("unified_extend"):
        evidence, (low, high) = "structure", doubt("structure")
    return Prediction(
        backend=backend,
        implementation=emulator.implementation,
        implementation_version=emulator.implementation_version,
        phase=call.batch.phase,
        seconds=max(seconds, limit),
        low=min(max(seconds * low, limit), max(seconds, limit)),
        high=max(seconds, limit) * high,
        plan_seconds=emulator.plan_seconds + emulator.plan_request_seconds * call.batch.size,
        eager_seconds=max(emulator.host_seconds, seconds, limit),
        bound=bound,
        num_splits=plan.num_splits,
        waves=plan.job_count / (call.machine.sms * plan.slots_per_sm),
        dram_bytes=plan.all_dram_bytes,
        flops=call.work.flops,
        workspace_bytes=plan.workspace_bytes,
        knobs=call.knobs,
        breakdown=breakdown_of(timing, limit),
        evidence=evidence,
        reason=reason(call, plan, timing, bound),
        margin=margin,
        mla_form=call.attention.form,
    )


def _longest_seconds(emulator: Emulator, call: Call, plan: Plan) -> float:
    """Time of the longest request alone, where it is cut as in the batch; 0 where the library cuts it otherwise."""
    alone = [emulator.plan(one) for one in longest_alone(call, plan)]
    alike = [time_call(emulator, call.machine, own)[0].seconds for own in alone if cut_alike(own, plan)]
    return max(alike, default=0.0)


def time_call(emulator: Emulator, machine: Machine, plan: Plan) -> tuple[Timing, Resolved]:
    """Time a plan and the launches that follow it; the floor is paid once."""
    resolved = resolve(emulator.name, plan.variant, machine)
    timing = time_plan(plan, machine, resolved.parameters)
    if plan.repeats == 1 and not plan.after:
        return timing, resolved
    launch = resolved.parameters.launch_seconds
    total = timing.repeated(plan.repeats, launch)
    for following in plan.after:
        p = resolve(emulator.name, following.variant, machine).parameters
        total = total.then(time_plan(following, machine, p), following.repeats, p.launch_seconds)
    return total, resolved


def limit_seconds(call: Call) -> float:
    """Least time that the device's peaks allow, at boost clock."""
    work, machine = call.work, call.machine
    rate = fastest_rate(call.attention, machine)
    indexer = work.indexer_flops / max(rate, machine.matrix_rate(INDEX_DTYPE))
    return max(work.bytes / machine.memory_bytes_per_s, (work.flops - work.indexer_flops) / rate + indexer)


def fastest_rate(attention: Attention, machine: Machine) -> float:
    """Matrix FLOP/s that no kernel exceeds: some cast the queries to the dtype of the cache."""
    return max(machine.matrix_rate(attention.dtype), machine.matrix_rate(attention.kv_dtype))


def breakdown_of(timing: Timing, limit: float) -> dict[str, float]:
    """Give part to seconds; what the limit adds is a part of its own."""
    parts = timing.parts()
    missing = limit - timing.seconds
    if missing > 0:
        parts["limit"] = missing
    return parts
