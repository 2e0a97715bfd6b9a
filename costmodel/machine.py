"""A profile reduced to the plain numbers that the equations use, computed once per profile."""

from dataclasses import dataclass, field
from typing import Any

from hwprofiles import Profile

NO_CUDA = (0, 0)
"""Compute capability of what is not an NVIDIA GPU."""
DEFAULT_L2_BYTES = 32 * 2**20
DEFAULT_EXP_PER_CLK = 16.0
DEFAULT_VECTOR_FLOPS_PER_CLK = 256.0
DEFAULT_SHARED_BYTES = 100 * 1024
USUAL_DRAM_FRACTION = 0.93
"""Share of the datasheet bandwidth that long reads reach on most devices; some exceed their datasheet."""
DEFAULT_GATHER_SHARE = 0.2
"""Gathering pages over reading, as an AMD EPYC with 2 cores showed it: fresh memory is mapped page by page."""
DEFAULT_CALL_SECONDS = 8e-6
"""One library call on a CPU that was not calibrated."""
_CACHE_SIZE = 128


@dataclass(frozen=True, slots=True)
class Machine:
    """Rates and sizes of one device; rates are at boost clock, so that they are limits."""

    profile_id: str
    kind: str
    family: str
    """Architecture family in lower case, such as `hopper`."""
    capability: tuple[int, int]
    """CUDA compute capability, `NO_CUDA` elsewhere."""
    sms: int
    clock_hz: float
    memory_bytes: float
    memory_bytes_per_s: float
    l2_bytes: float
    shared_bytes_per_sm: int
    sm_exp_per_s: float
    sm_vector_flops_per_s: float
    matrix_flops_per_s: dict[str, float]
    """Whole device, by dtype; empty where the profile has none."""
    read_bytes_per_s: float
    """Bandwidth that long reads reach: measured, else the datasheet's."""
    usual_dram_fraction: float = USUAL_DRAM_FRACTION
    """Share of the datasheet bandwidth that long reads reach: as others measured it, at most the usual one."""
    sustained_matrix_fraction: float | None = None
    """Share of the bf16 peak that the best products of large matrices reached at the clocks that power allows."""
    tensor_memory_bytes_per_sm: int = 0
    """Memory of accumulators beside the registers; 0 where there is none."""
    mma_sync_fraction: float = 1.0
    """Share of the matrix peak that `mma.sync` reaches."""
    gather_bytes_per_s: float = 1e9
    """CPU: bytes read and written per second where a request's pages are gathered into a fresh tensor."""
    call_seconds: float = DEFAULT_CALL_SECONDS
    """CPU: overhead of one library call."""
    measured: bool = False
    """Whether the profile was measured on the device at hand."""
    resolved: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    """Parameters by backend and variant, filled as they are asked for."""

    def matrix_rate(self, dtype: str) -> float:
        """Matrix FLOP/s of the whole device at `dtype`; a dtype without its own rate runs at the bf16 or fp16 one.

        Where none of these is known, half of the fp8 or a quarter of the fp4 rate is an upper bound.
        """
        key = "fp8" if dtype.startswith("fp8") else "fp4" if dtype == "nvfp4" else dtype
        rates = self.matrix_flops_per_s
        known = rates.get(key) or rates.get("bf16") or rates.get("fp16")
        halved = rates.get("fp8", 0.0) / 2 or rates.get("fp4", 0.0) / 4
        return known or halved or self.sms * self.sm_vector_flops_per_s

    def sm_matrix_rate(self, dtype: str) -> float:
        """Matrix FLOP/s of one SM at `dtype`."""
        return self.matrix_rate(dtype) / self.sms


_machines: dict[int, tuple[Profile, Machine]] = {}


def machine_of(profile: Profile) -> Machine:
    """Give the machine of a profile, from a small cache.

    Raises:
        MissingValue: The profile lacks bandwidth, memory size or the number of SMs.
    """
    found = _machines.get(id(profile))
    if found is not None and found[0] is profile:
        return found[1]
    if len(_machines) >= _CACHE_SIZE:
        _machines.clear()
    machine = _read(profile)
    _machines[id(profile)] = (profile, machine)
    return machine


def _read(profile: Profile) -> Machine:
    sms: int = profile.require("num_sms")
    clock = profile.boost_clock_hz or profile.base_clock_hz or profile.matrix_clock_hz or 1.5e9
    rates = dict(profile.matrix_flops_per_s)
    for key, per_clk in profile.matrix_flops_per_clk_per_sm.items():
        rates[key] = max(rates.get(key, 0.0), per_clk * sms * clock)
    measured = profile.measured
    read = measured.read_bytes_per_s if measured else None
    if profile.kind == "cpu" and profile.memory_bytes_per_s is None and read:
        bandwidth = read
    else:
        bandwidth = float(profile.require("memory_bytes_per_s"))
    read = read or bandwidth
    if measured and profile.kind == "cpu":
        rates = {**rates, **measured.matrix_flops_per_s}
        bandwidth = max(bandwidth, read)
    vector = profile.vector_flops_per_s.get("fp32", DEFAULT_VECTOR_FLOPS_PER_CLK * sms * clock)
    major, _, minor = (profile.compute_capability or "0.0").partition(".")
    return Machine(
        profile_id=profile.id,
        kind=profile.kind,
        family=profile.architecture.lower(),
        capability=(int(major), int(minor or 0)),
        sms=sms,
        clock_hz=clock,
        memory_bytes=float(profile.require("memory_bytes")),
        memory_bytes_per_s=bandwidth,
        l2_bytes=float(profile.l2_bytes or DEFAULT_L2_BYTES),
        shared_bytes_per_sm=profile.shared_memory_bytes_per_sm or DEFAULT_SHARED_BYTES,
        sm_exp_per_s=(profile.exp_per_clk_per_sm or DEFAULT_EXP_PER_CLK) * clock,
        sm_vector_flops_per_s=vector / sms,
        matrix_flops_per_s=rates,
        read_bytes_per_s=read,
        usual_dram_fraction=_usual_dram_fraction(profile, bandwidth),
        sustained_matrix_fraction=_sustained_matrix_fraction(profile),
        tensor_memory_bytes_per_sm=profile.tensor_memory_bytes_per_sm or 0,
        mma_sync_fraction=profile.mma_sync_fraction or 1.0,
        gather_bytes_per_s=(measured.gather_bytes_per_s if measured else None) or DEFAULT_GATHER_SHARE * read,
        call_seconds=(measured.launch_seconds if measured else None) or DEFAULT_CALL_SECONDS,
        measured=measured is not None,
    )


def _usual_dram_fraction(profile: Profile, bandwidth: float) -> float:
    stream = profile.measured_by_others.get("stream_read_bytes_per_s", float("inf"))
    return min(USUAL_DRAM_FRACTION, float(stream) / bandwidth)


def _sustained_matrix_fraction(profile: Profile) -> float | None:
    best, peak = profile.measured_by_others.get("gemm_bf16_best_flops_per_s"), profile.matrix_flops_per_s.get("bf16")
    return float(best) / peak if best and peak else None
