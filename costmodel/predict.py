"""`predict`: one backend, one workload, one device to seconds with interval, parts, bound and reason."""

from collections.abc import Mapping

from costmodel.attention import Attention
from costmodel.batch import Batch
from costmodel.bound import binding, bytes_text, reason
from costmodel.calibration import Resolved, doubt, resolve
from costmodel.call import Call
from costmodel.deterministic import deterministic_reasons, with_deterministic
from costmodel.emulators import Emulator, emulator_of
from costmodel.errors import Incompatible
from costmodel.knobs import resolve_knobs
from costmodel.library import library_reasons
from costmodel.machine import Machine, machine_of
from costmodel.plan import Plan
from costmodel.prediction import KnobValue, Prediction
from costmodel.regime import regime_of
from costmodel.timing import Timing, time_plan
from hwprofiles import Profile


def predict(
    attention: Attention,
    batch: Batch,
    *,
    backend: str,
    profile: Profile,
    knobs: Mapping[str, KnobValue] | None = None,
    deterministic: bool = False,
) -> Prediction:
    """Estimate one layer's attention call on one rank.

    Args:
        attention: Heads, dims, masks and dtypes of the layer on this rank.
        batch: Requests and their lengths.
        backend: SGLang's name of the backend, or `attnroof_triton`.
        profile: The device.
        knobs: Knobs that differ from the backend's defaults.
        deterministic: As SGLang calls the backend in deterministic inference.

    Raises:
        UnknownBackend: No backend of that name.
        Incompatible: The library call cannot run this workload on this device, or not deterministically; `reasons`
            says why.
        ValueError: A knob is unknown or out of range, or the batch does not fit the device's memory.
        MissingValue: The profile lacks a value that the estimate needs.
    """
    emulator = emulator_of(backend)
    if deterministic:
        knobs = with_deterministic(emulator.name, batch, knobs)
    call = Call(attention, batch, machine_of(profile), resolve_knobs(emulator.name, knobs))
    check_memory(call)
    reasons = library_reasons(emulator.name, attention, batch, profile)
    if deterministic:
        reasons += deterministic_reasons(emulator.name, attention, call.machine)
    if reasons:
        raise Incompatible(backend, reasons)
    return estimate(backend, emulator, call)


def estimate(backend: str, emulator: Emulator, call: Call) -> Prediction:
    """Estimate a call that is known to be possible."""
    plan = emulator.plan(call)
    timing, resolved = time_call(emulator, call.machine, plan)
    seconds = timing.seconds
    bound, margin = binding(timing, call.machine.kind)
    limit = limit_seconds(call)
    evidence, (low, high) = resolved.evidence, resolved.interval(regime_of(timing))
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
        eager_seconds=max(emulator.host_seconds, seconds),
        bound=bound,
        num_splits=plan.num_splits,
        waves=plan.job_count / (call.machine.sms * plan.slots_per_sm),
        dram_bytes=plan.dram_bytes + sum(p.dram_bytes * p.repeats for p in plan.after),
        flops=call.work.flops,
        workspace_bytes=plan.workspace_bytes,
        knobs=call.knobs,
        breakdown=_breakdown(timing, limit),
        evidence=evidence,
        reason=reason(call, plan, timing, bound),
        margin=margin,
        mla_form=call.attention.form,
    )


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
    return max(work.bytes / machine.memory_bytes_per_s, work.flops / fastest_rate(call.attention, machine))


def fastest_rate(attention: Attention, machine: Machine) -> float:
    """Matrix FLOP/s that no kernel exceeds: some cast the queries to the dtype of the cache."""
    return max(machine.matrix_rate(attention.dtype), machine.matrix_rate(attention.kv_dtype))


def kv_cache_bytes(attention: Attention, batch: Batch) -> float:
    """Bytes of cache that the batch's layers take on one rank, whole pages counted."""
    page = batch.page_size
    if batch.uniform:
        tokens = -(-batch.kv_lens[0] // page) * page * batch.size
    else:
        tokens = page * sum([-(-kv // page) for kv in batch.kv_lens]) if page > 1 else batch.total_kv
    return tokens * attention.kv_bytes_per_token * batch.layers


def check_memory(call: Call) -> None:
    """Check that the KV cache of the batch fits the device.

    Raises:
        ValueError: It does not; the message says by how much.
    """
    batch = call.batch
    needed = kv_cache_bytes(call.attention, batch) + call.work.q_bytes + call.work.o_bytes
    if needed > call.machine.memory_bytes:
        over = needed - call.machine.memory_bytes
        raise ValueError(
            f"the batch needs {bytes_text(needed)} for {batch.layers} layer(s) but {call.machine.profile_id} has "
            f"{bytes_text(call.machine.memory_bytes)}: {bytes_text(over)} too much; use fewer or shorter requests"
        )


def _breakdown(timing: Timing, limit: float) -> dict[str, float]:
    parts = timing.parts()
    missing = limit - timing.seconds
    if missing > 0:
        parts["limit"] = missing
    return parts
