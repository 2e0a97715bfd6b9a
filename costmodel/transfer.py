"""From one device to another: what a fitted parameter becomes where clocks, instructions and memory differ."""

from dataclasses import replace

from costmodel.machine import Machine
from costmodel.parameters import Parameters

MMA_SYNC_KERNELS = frozenset(
    {("flashinfer", name) for name in ("extend_fa2", "decode_tensor_cores", "decode_converting", "mla_fa2")}
)
"""Kernels that use the older matrix instruction on every device."""
FEW_IN_FLIGHT = 0.7
"""Share of the bandwidth below which a kernel is limited by its own bytes in flight."""
SERIAL_OVERLAP = 1.5
"""Kernels whose products and exponentials overlap less than this take turns: between two products all else runs.
Where one architecture has slower matrix units (H20), what any kernel loses in clocks is less beside its products."""
MADE_OF: dict[tuple[str, str], tuple[tuple[str, str], tuple[str, str]]] = {
    ("fa3", "decode_mma_sync"): (("flashinfer", "extend_fa2"), ("fa3", "decode")),
    ("fa3", "extend_mma_sync"): (("flashinfer", "extend_fa2"), ("fa3", "extend")),
}
"""Kernels that were not fitted, by fitted ones: the same main loop, and the same start and end of a job. What
FlashAttention-3 compiles before Hopper is FlashAttention-2's loop (`mma.sync`, `cp.async`, two CTAs an SM), as
FlashInfer's FA2 kernels are, in FlashAttention-3's frame."""
LOOP_CTAS, LOOP_KEYS, JOB_KEYS = 2, 64, 128
"""CTAs of that loop on an SM, and keys of both kernels' tiles at head dim 128."""
KEY_BYTES = 512


def carried(fitted: Parameters, kernel: tuple[str, str], origin: Machine, machine: Machine) -> Parameters:
    """Carry a kernel's parameters from the device they were fitted on to another.

    Times of instructions go with the clock, bytes in flight stay what they are. Shares of the matrix peak are turned
    into what the kernel loses in clocks: that stays, the products themselves go at the other device's rate.

    Args:
        fitted: Parameters on `origin`.
        kernel: Backend and variant.
        origin: The device they were fitted on.
        machine: The device to estimate.
    """
    clock = origin.clock_hz / machine.clock_hz
    return replace(
        fitted,
        tile_seconds=fitted.tile_seconds * clock,
        page_seconds=fitted.page_seconds * clock,
        request_seconds=fitted.request_seconds * clock,
        empty_cta_seconds=fitted.empty_cta_seconds * clock,
        merge_split_seconds=fitted.merge_split_seconds * clock,
        matrix_fraction=_matrix_fraction(fitted, kernel, origin, machine),
        dram_fraction=_dram_fraction(fitted, origin, machine),
    )


def assembled(loop: Parameters, job: Parameters) -> Parameters:
    """Give a loop's parameters the start and end of another kernel's job, which lasts as long as there."""
    frame = job.job_tiles * (job.tile_seconds + JOB_KEYS * KEY_BYTES / job.cta_bytes_per_s)
    tile = LOOP_CTAS * (loop.tile_seconds + LOOP_KEYS * KEY_BYTES / loop.cta_bytes_per_s)
    return replace(loop, job_tiles=frame / tile)


def _dram_fraction(fitted: Parameters, origin: Machine, machine: Machine) -> float:
    """A kernel far from the bandwidth lacks bytes in flight: what an SM draws stays, not the share of the bandwidth."""
    fraction = fitted.dram_fraction
    if fraction < FEW_IN_FLIGHT:
        share = origin.memory_bytes_per_s / origin.sms
        fraction *= share / (machine.memory_bytes_per_s / machine.sms)
    return min(fraction, machine.usual_dram_fraction)


def _matrix_fraction(fitted: Parameters, kernel: tuple[str, str], origin: Machine, machine: Machine) -> float:
    here, there = machine.mma_sync_fraction, origin.mma_sync_fraction
    if kernel not in MMA_SYNC_KERNELS:
        here = there = 1.0
    share = min(1.0, fitted.matrix_fraction / there)
    faster = here * matrix_per_clk(machine) / (there * matrix_per_clk(origin))
    slower = machine.family == origin.family and faster < 1
    if fitted.overlap < SERIAL_OVERLAP or slower:
        share = 1 / (1 + (1 / share - 1) * faster)
    return min(1.0, share * here * _sustained(machine, origin))


def _sustained(machine: Machine, origin: Machine) -> float:
    """Share of the peak that power leaves, over that on the origin; 1 where one of them is not known."""
    here, there = machine.sustained_matrix_fraction, origin.sustained_matrix_fraction
    return here / there if here and there else 1.0


def matrix_per_clk(machine: Machine) -> float:
    """Matrix FLOPs of one SM and clock at bf16."""
    return machine.sm_matrix_rate("bf16") / machine.clock_hz
