"""`sweep`: the latency of many uniform decode batches at once, in flat memory."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.attention import DTYPE_BYTES, Attention
from costmodel.batch import Batch
from costmodel.calibration import resolve
from costmodel.call import Call
from costmodel.emulators import emulator_of
from costmodel.errors import Incompatible
from costmodel.estimate import estimate, fastest_rate
from costmodel.knobs import resolve_knobs, special
from costmodel.library import library_reasons
from costmodel.machine import machine_of
from costmodel.prediction import KnobValue
from costmodel.uniform import Ints, uniform_plans
from costmodel.uniform_timing import time_uniform
from costmodel.work import sees_all_before
from hwprofiles import Profile

CHUNK = 16384
"""Batches that are held in memory at once."""


def sweep(
    attention: Attention,
    batches: Sequence[tuple[int, int]] | NDArray[np.int64],
    *,
    backend: str,
    profile: Profile,
    page_size: int = 1,
    knobs: Mapping[str, KnobValue] | None = None,
) -> NDArray[np.float64]:
    """Estimate decode batches of equal requests.

    Args:
        attention: The layer on one rank.
        batches: Requests of each batch and KV tokens of each request, the new one included, `[batches, 2]`.
        backend: As for `predict`.
        profile: The device.
        page_size: Tokens in one page.
        knobs: As for `predict`.

    Returns:
        Seconds, `[batches]` float64, the same as `predict(...).seconds`. Device memory is not checked.

    Raises:
        UnknownBackend: No backend of that name.
        Incompatible: The library call cannot run this attention on this device.
        ValueError: Batches are not pairs of whole numbers above 0, or a knob is wrong.
    """
    pairs = np.asarray(batches, dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or (pairs.size and pairs.min() < 1):
        raise ValueError(f"batches has shape {pairs.shape}; it must be pairs of (requests, kv_len), all at least 1")
    if not len(pairs):
        return np.zeros(0)
    emulator = emulator_of(backend)
    size, kv_len = pairs[0].tolist()
    batch = Batch.decode([kv_len] * size, page_size=page_size)
    call = Call(attention, batch, machine_of(profile), resolve_knobs(emulator.name, knobs))
    reasons = library_reasons(emulator.name, attention, batch, profile)
    if reasons:
        raise Incompatible(backend, reasons)
    parts = (pairs[i : i + CHUNK] for i in range(0, len(pairs), CHUNK))
    return np.concatenate([_seconds(call, emulator.name, part) for part in parts])


def _seconds(call: Call, backend: str, pairs: Ints) -> NDArray[np.float64]:
    emulator, attention = emulator_of(backend), call.attention
    plan = emulator.plan(call)
    sizes, lens = pairs[:, 0], pairs[:, 1]
    plain = sees_all_before(attention) and not special(backend, call.knobs)
    plans = uniform_plans(emulator.name, call, plan, sizes, lens) if plain else None
    if plans is None:
        return np.array([estimate(backend, emulator, _like(call, *pair)).seconds for pair in pairs.tolist()])
    parameters = resolve(backend, plan.variant, call.machine).parameters
    heads, width = attention.num_qo_heads, attention.head_dim + attention.value_dim
    moved = sizes * (heads * width * DTYPE_BYTES[attention.dtype] + lens * attention.kv_bytes_per_token)
    flops = 2.0 * heads * width * sizes * lens
    limit = np.maximum(moved / call.machine.memory_bytes_per_s, flops / fastest_rate(attention, call.machine))
    return np.maximum(time_uniform(plans, (sizes, moved), call.machine, parameters), limit)


def _like(call: Call, size: int, kv_len: int) -> Call:
    batch = Batch.decode([kv_len] * size, page_size=call.batch.page_size)
    return Call(call.attention, batch, call.machine, call.knobs)
