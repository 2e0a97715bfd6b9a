"""Parameters before any measurement of a kernel: public figures on Hopper, carried to a device by its profile."""

from dataclasses import replace
from typing import Any

from costmodel.machine import Machine
from costmodel.parameters import Parameters

HOPPER_CLOCK_HZ = 1.98e9
CPU_DECODE_FRACTION, CPU_EXTEND_FRACTION = 0.1, 0.8
"""Share of the matrix rate that products with one row, and with many, reach in PyTorch's kernels: round values of
`make tune` on an AMD EPYC with 2 cores."""
BANDWIDTH_RESERVE = 2.0
"""An SM's load path over its share of DRAM bandwidth, at least."""

_GATHER = {"dram_fraction": 0.75, "tile_seconds": 0.3e-6, "job_tiles": 0.5}
_SDPA = {"matrix_fraction": 0.4, "merge_seconds": 0.0}
"""PyTorch's calls on a GPU: round values that describe 62 runs on an H200."""

_OWN = {
    "floor_seconds": 3.4e-6,
    "merge_seconds": 1.8e-6,
    "merge_split_seconds": 0.075e-6,
    "merge_bytes_per_s": 2e12,
    "dram_fraction": 0.94,
}
"""The project's own kernels: these and theirs below are round values of a fit to 1,027 runs of `benchmarks/kernels.py`
on an H200."""

_COPY_OR_MERGE = {"merge_seconds": 1e-6, "merge_slot_seconds": 1e-6}
"""The launch, and what it costs once rows have several parts: rows of one part are copied."""

_FA2_LOOP = {"overlap": 1.0, "matrix_fraction": 0.6, "cta_bytes_per_s": 150e9}
_TAKING_TURNS = {
    "overlap": 6.0,
    "matrix_fraction": 0.64,
    "exp_fraction": 0.48,
    "tile_seconds": 0.1e-6,
    "cta_bytes_per_s": 400e9,
    "sm_bytes_per_s": 200e9,
}
"""Two query tiles take turns on the matrix and exponential units of an SM, as in FlashInfer's FA3 kernel, whose shares
of both on an H200 these are."""

_BY_VARIANT: dict[tuple[str, str], dict[str, Any]] = {
    ("fa3", "decode"): {"overlap": 6.0, "job_tiles": 1.5},
    ("fa3", "extend"): {
        "overlap": 6.0,
        "sm_bytes_per_s": 100e9,
        "job_tiles": 1.0,
        "tile_seconds": 0.1e-6,
        "cta_bytes_per_s": 200e9,
    },
    ("fa3", "mla"): {"overlap": 6.0, "job_tiles": 2.0},
    ("flashinfer", "decode_tensor_cores"): {"overlap": 1.0, "cta_bytes_per_s": 40e9, **_COPY_OR_MERGE},
    ("flashinfer", "decode_converting"): {"overlap": 1.0, "cta_bytes_per_s": 40e9, **_COPY_OR_MERGE},
    ("flashinfer", "decode_cuda_cores"): {
        "overlap": 1.0,
        "cta_bytes_per_s": 20e9,
        "tile_seconds": 0.05e-6,
        **_COPY_OR_MERGE,
    },
    ("flashinfer", "decode_cuda_cores_few_heads"): {
        "overlap": 1.0,
        "cta_bytes_per_s": 100e9,
        "tile_seconds": 0.25e-6,
        "floor_seconds": 3e-6,
        **_COPY_OR_MERGE,
    },
    ("flashinfer", "extend_fa2"): _FA2_LOOP,
    ("fa3", "decode_mma_sync"): _FA2_LOOP,
    ("fa3", "extend_mma_sync"): _FA2_LOOP,
    ("flashinfer", "extend_fa3"): {"overlap": 6.0, "tile_seconds": 0.1e-6, "cta_bytes_per_s": 200e9},
    ("triton", "decode_grouped"): {"overlap": 1.0, "cta_bytes_per_s": 20e9, "page_seconds": 5e-9, "job_tiles": 0.5},
    ("triton", "decode"): {"overlap": 1.0, "cta_bytes_per_s": 20e9, "page_seconds": 5e-9, "job_tiles": 0.5},
    ("triton", "extend"): {"overlap": 1.0, "matrix_fraction": 0.55, "cta_bytes_per_s": 100e9},
    ("triton", "mla"): {"overlap": 1.0, "cta_bytes_per_s": 25e9, "job_tiles": 3.0, "matrix_fraction": 0.4},
    ("flex_attention", "decode"): {"overlap": 1.0, "cta_bytes_per_s": 20e9, "job_tiles": 3.0, "merge_seconds": 2e-6},
    ("flex_attention", "extend"): {"overlap": 1.0, "matrix_fraction": 0.35},
    ("torch_native", "gather"): {**_GATHER, "floor_seconds": 8e-6, "launch_seconds": 7e-6},
    ("torch_native", "gather_extend"): {**_GATHER, "floor_seconds": 12e-6, "launch_seconds": 12e-6},
    ("torch_native", "sdpa"): {**_SDPA, "launch_seconds": 4e-6},
    ("torch_native", "sdpa_flash"): {**_SDPA, "launch_seconds": 9e-6},
    ("torch_native", "sdpa_packed"): {**_SDPA, "launch_seconds": 3e-6, "tile_seconds": 0.25e-6},
    ("torch_native", "sdpa_math"): {"launch_seconds": 30e-6, "dram_fraction": 0.85, "join": 4.0},
    ("torch_native", "sdpa_extend"): {"launch_seconds": 3e-6, "overlap": 4.0, "matrix_fraction": 0.4},
    ("torch_native", "sdpa_extend_flash"): {"launch_seconds": 3e-6, "overlap": 1.0, "matrix_fraction": 0.2},
    ("attnroof_triton", "decode"): {
        **_OWN,
        "join": 6.8,
        "tile_seconds": 0.58e-6,
        "cta_bytes_per_s": 104e9,
        "sm_bytes_per_s": 62e9,
        "job_tiles": 1.3,
        "matrix_fraction": 0.17,
        "factors": {
            "d64": 1.23,
            "d256": 1.25,
            "d128_gather": 1.12,
            "d64_gather": 1.25,
            "d128_fp8_e4m3": 1.4,
            "d128_fp8_e4m3_gather": 1.6,
        },
    },
    ("attnroof_triton", "extend"): {
        **_OWN,
        "floor_seconds": 5.1e-6,
        "join": 1.9,
        "tile_seconds": 0.37e-6,
        "cta_bytes_per_s": 177e9,
        "sm_bytes_per_s": 450e9,
        "matrix_fraction": 0.59,
        "overlap": 1.8,
        "exp_fraction": 1.0,
        "factors": {
            "d192": 1.26,
            "d128_gather": 1.17,
            "d128_fp8_e4m3": 1.3,
            "d128_fp8_e4m3_gather": 1.5,
            "d128_fp8_e4m3_gather_spilled": 1.9,
            "d128_fp8_e4m3_spilled": 1.6,
            "d128_spilled": 1.25,
            "d128_gather_spilled": 1.6,
            "d64_gather_spilled": 1.35,
            "d64_window_spilled": 1.2,
            "d64_window_gather_spilled": 1.3,
        },
    },
    ("attnroof_triton", "mla"): {
        **_OWN,
        "join": 2.7,
        "tile_seconds": 0.24e-6,
        "cta_bytes_per_s": 84e9,
        "sm_bytes_per_s": 100e9,
        "row_tiles": 1.7,
        "matrix_fraction": 0.85,
        "merge_seconds": 1.4e-6,
        "merge_bytes_per_s": 5e12,
        "dram_fraction": 1.0,
        "factors": {"d576_gather": 1.07},
    },
    ("attnroof_triton", "mla_plain"): {
        **_OWN,
        "join": 3.9,
        "tile_seconds": 0.67e-6,
        "cta_bytes_per_s": 48e9,
        "sm_bytes_per_s": 33e9,
        "job_tiles": 0.5,
        "row_tiles": 0.5,
        "matrix_fraction": 0.21,
        "merge_bytes_per_s": 3.8e12,
        "dram_fraction": 1.0,
        "factors": {"d576_fp8_e4m3": 2.2},
    },
    ("trtllm_mha", "decode"): {"overlap": 6.0, "cta_bytes_per_s": 150e9},
    ("trtllm_mha", "extend"): _TAKING_TURNS,
    ("fa4", "extend"): {**_TAKING_TURNS, "exp_fraction": 0.8},
    ("flashmla", "mla"): {"overlap": 6.0, "exp_fraction": 1.0, "job_tiles": 3.0, "matrix_fraction": 0.65},
    ("flashmla", "mla_fp8"): {"overlap": 6.0, "exp_fraction": 1.0, "job_tiles": 3.0, "matrix_fraction": 0.65},
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
