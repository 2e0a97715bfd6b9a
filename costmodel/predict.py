"""`predict`: one backend, one workload, one device to seconds with interval, parts, bound and reason."""

from collections.abc import Mapping

from costmodel.attention import DTYPE_BYTES, Attention
from costmodel.batch import Batch
from costmodel.bound import bytes_text
from costmodel.call import Call
from costmodel.cascade import estimate_shared
from costmodel.deterministic import deterministic_reasons, with_deterministic
from costmodel.emulators import emulator_of
from costmodel.errors import Incompatible
from costmodel.knobs import resolve_knobs
from costmodel.library import library_reasons
from costmodel.machine import machine_of
from costmodel.prediction import KnobValue, Prediction
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
    return estimate_shared(backend, emulator, call)


def kv_cache_bytes(attention: Attention, batch: Batch) -> float:
    """Bytes of cache that the batch's layers take on one rank, whole pages counted, shared ones once.

    Expanded MLA stores the latent; its heads exist for one layer at a time.
    """
    page = batch.page_size
    if batch.uniform:
        tokens = -(-batch.kv_lens[0] // page) * page * batch.size
    else:
        tokens = page * sum([-(-kv // page) for kv in batch.kv_lens]) if page > 1 else batch.total_kv
    tokens -= (batch.size - 1) * batch.shared_prefix
    if attention.form == "expanded":
        latent = (attention.kv_lora_rank or 0) + (attention.qk_rope_head_dim or 0)
        stored = latent * DTYPE_BYTES[attention.kv_dtype] * batch.layers
        return tokens * (stored + attention.kv_bytes_per_token)
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
