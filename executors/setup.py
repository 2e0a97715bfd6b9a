"""What a group of candidates shares: the inputs, the right outputs, and the time of the KV write."""

import statistics
from dataclasses import dataclass

from costmodel import Attention, Batch
from executors.inputs import Inputs, make_inputs
from executors.kv_write import prepare_write
from executors.reference import Reference, make_reference
from executors.rows import plan_rows
from executors.sampler import make_sampler

LAST_SLOT_SHARE = 0.25
"""Part of the reference's time limit that goes to checking the last KV copy."""
WRITE_SAMPLES = 3


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """One workload on one device, ready for candidates."""

    inputs: Inputs
    first: Reference
    """The right output on the first KV copy."""
    last: Reference | None
    """The right output on the last KV copy, for some rows; None where there is one copy."""
    write_seconds: float
    """KV write of the new tokens, one layer."""


def set_up(attention: Attention, batch: Batch, device: str, *, seed: int, reference_seconds: float) -> Setup:
    """Draw inputs, compute references, time the KV write.

    Raises:
        MemoryError: The batch does not fit the device.
    """
    inputs = make_inputs(attention, batch, device, seed=seed)
    first = make_reference(inputs, seed=seed, limit_seconds=reference_seconds)
    last = None
    if inputs.slots > 1:
        limit = LAST_SLOT_SHARE * reference_seconds
        plan = plan_rows(attention, batch, device, seed=seed + 1, limit_seconds=limit)
        last = make_reference(inputs, slot=inputs.slots - 1, plan=plan)
    sampler = make_sampler(prepare_write(inputs), inputs)
    sampler.warm_up()
    write_seconds = statistics.median(sampler.sample().seconds for _ in range(WRITE_SAMPLES))
    return Setup(inputs, first, last, write_seconds)
