"""Parameters before any measurement of a kernel: public figures on Hopper, carried to a device by its profile."""

from dataclasses import replace
from typing import Any

from costmodel.machine import Machine
from costmodel.parameters import Parameters

HOPPER_CLOCK_HZ = 1.98e9
CPU_DECODE_FRACTION, CPU_EXTEND_FRACTION = 0.1, 0.5
"""Share of the matrix rate that products with one row, and with many, reach in PyTorch's kernels."""
BANDWIDTH_RESERVE = 1.6
"""An SM's load path over its share of DRAM bandwidth, at least."""

_BY_VARIANT: dict[tuple[str, str], dict[str, Any]] = {
    ("fa3", "decode"): {"overlap": 6.0, "job_tiles": 1.5},
    ("fa3", "extend"): {"overlap": 6.0, "job_tiles": 1.0, "tile_seconds": 0.1e-6, "cta_bytes_per_s": 200e9},
    ("fa3", "mla"): {"overlap": 6.0, "job_tiles": 2.0},
    ("flashinfer", "decode_tensor_cores"): {"overlap": 1.0, "cta_bytes_per_s": 40e9},
    ("flashinfer", "decode_cuda_cores"): {"overlap": 1.0, "cta_bytes_per_s": 20e9, "tile_seconds": 0.05e-6},
    ("flashinfer", "extend_fa2"): {"overlap": 1.0, "matrix_fraction": 0.6, "cta_bytes_per_s": 150e9},
    ("flashinfer", "extend_fa3"): {"overlap": 6.0, "tile_seconds": 0.1e-6, "cta_bytes_per_s": 200e9},
    ("triton", "decode_grouped"): {"overlap": 1.0, "cta_bytes_per_s": 20e9, "page_seconds": 5e-9, "job_tiles": 0.5},
    ("triton", "decode"): {"overlap": 1.0, "cta_bytes_per_s": 20e9, "page_seconds": 5e-9, "job_tiles": 0.5},
    ("triton", "extend"): {"overlap": 1.0, "matrix_fraction": 0.55, "cta_bytes_per_s": 100e9},
    ("triton", "mla"): {"overlap": 1.0, "cta_bytes_per_s": 25e9, "job_tiles": 3.0, "matrix_fraction": 0.4},
    ("flex_attention", "decode"): {"overlap": 1.0, "cta_bytes_per_s": 20e9, "job_tiles": 3.0, "merge_seconds": 10e-6},
    ("flex_attention", "extend"): {"overlap": 1.0, "matrix_fraction": 0.4},
    ("torch_native", "gather"): {"floor_seconds": 2e-6, "launch_seconds": 4e-6, "tile_seconds": 0.5e-6},
    ("torch_native", "sdpa"): {"launch_seconds": 4e-6, "overlap": 1.0, "matrix_fraction": 0.45},
    ("attnroof_triton", "decode"): {"overlap": 1.0, "cta_bytes_per_s": 30e9, "job_tiles": 2.0},
    ("attnroof_triton", "extend"): {"overlap": 1.0, "matrix_fraction": 0.6, "cta_bytes_per_s": 100e9},
    ("attnroof_triton", "mla"): {"overlap": 1.0, "cta_bytes_per_s": 30e9, "matrix_fraction": 0.5},
    ("flashmla", "mla"): {"overlap": 6.0, "job_tiles": 3.0, "matrix_fraction": 0.65},
}


def prior(backend: str, variant: str, machine: Machine) -> Parameters:
    """Give parameters for a kernel that was never measured on this device or another."""
    base = Parameters(**_BY_VARIANT.get((backend, variant), {}))
    clock = HOPPER_CLOCK_HZ / machine.clock_hz
    share = BANDWIDTH_RESERVE * machine.memory_bytes_per_s / machine.sms
    return replace(
        base,
        tile_seconds=base.tile_seconds * clock,
        sm_bytes_per_s=max(base.sm_bytes_per_s, share),
        cta_bytes_per_s=max(base.cta_bytes_per_s, share) if variant == "extend" else base.cta_bytes_per_s,
    )


def cpu_parameters(machine: Machine, variant: str) -> Parameters:
    """Give parameters of a CPU from what its profile says or measured."""
    share = machine.read_bytes_per_s / machine.sms
    return Parameters(
        floor_seconds=0.0,
        tile_seconds=0.0,
        cta_bytes_per_s=share * 4,
        sm_bytes_per_s=share * 4,
        dram_fraction=min(1.0, machine.read_bytes_per_s / machine.memory_bytes_per_s),
        matrix_fraction=CPU_DECODE_FRACTION if variant == "cpu_decode" else CPU_EXTEND_FRACTION,
        exp_fraction=1.0,
        overlap=1.0,
        join=4.0,
        job_tiles=0.0,
    )
