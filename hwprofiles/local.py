"""A profile of the processor at hand, made on the spot: rates follow from its instruction set and clock."""

import re

from hwprofiles.assemble import assemble, file_of
from hwprofiles.cpu import CpuInfo, read_cpu
from hwprofiles.features import Features
from hwprofiles.library import layers
from hwprofiles.profile import Profile
from hwprofiles.quantities import Origin

AMX_BF16_FLOPS_PER_CLK = 1024
_ZEN_5_FAMILY = 26
_ARM_FP32_FLOPS_PER_CLK = {"Neoverse-V1": 32, "Neoverse-V2": 32}


def local_cpu() -> Profile:
    """Profile of this machine's processor: the calibrated one where there is one, else made on the spot."""
    fresh = profile_of(read_cpu())
    where = layers()
    path = file_of(fresh.id, where)
    return fresh if path is None else assemble(path, where)


def profile_of(cpu: CpuInfo) -> Profile:
    """Profile of a processor. What no system file tells, such as the memory bandwidth, stays None until calibrated."""
    clock = cpu.base_clock_hz or cpu.boost_clock_hz
    fp32 = _fp32_flops_per_clk(cpu)
    bf16 = _bf16_flops_per_clk(cpu, fp32)
    matrix = {"fp32": fp32} | ({"bf16": bf16} if bf16 else {})
    read: dict[str, Origin] = dict.fromkeys(
        ("num_sms", "base_clock_hz", "boost_clock_hz", "memory_bytes", "l2_bytes", "llc_bytes", "sockets"), "measured"
    )
    derived: dict[str, Origin] = dict.fromkeys(
        (
            "matrix_clock_hz",
            "matrix_flops_per_s",
            "matrix_flops_per_clk_per_sm",
            "vector_flops_per_s",
            "vector_flops_per_clk_per_sm",
        ),
        "derived",
    )
    return Profile(
        id=_id(cpu),
        name=f"{cpu.model} ({cpu.cores} cores)",
        vendor=cpu.vendor,
        kind="cpu",
        architecture=_architecture(cpu),
        unit="the processor cores that this process may use",
        aliases=("cpu",),
        driver_names=(cpu.model,),
        num_sms=cpu.cores,
        sm_kind="core",
        base_clock_hz=cpu.base_clock_hz,
        boost_clock_hz=cpu.boost_clock_hz,
        matrix_clock_hz=clock,
        memory_bytes=cpu.memory_bytes,
        l2_bytes=cpu.l2_bytes,
        llc_bytes=cpu.llc_bytes,
        l1_shared_bytes_per_sm=cpu.l1_bytes_per_core,
        matrix_flops_per_clk_per_sm=matrix if clock else {},
        vector_flops_per_clk_per_sm={"fp32": fp32} if clock else {},
        matrix_flops_per_s={k: v * clock * cpu.cores for k, v in matrix.items()} if clock else {},
        vector_flops_per_s={"fp32": fp32 * clock * cpu.cores} if clock else {},
        sockets=cpu.sockets,
        numa_nodes=cpu.numa_nodes,
        features=_features(cpu.flags),
        origins=read | derived,
        notes=(
            "Made on the spot from /proc and /sys; rates are what the instruction set allows at the clock read there.",
        ),
        sources=("this machine's /proc/cpuinfo and /sys/devices/system/cpu",),
        confidence="low",
    )


def _id(cpu: CpuInfo) -> str:
    words = re.sub(r"\((R|TM)\)|CPU|Processor|@.*", " ", cpu.model, flags=re.IGNORECASE)
    slug = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    step = "" if cpu.family is None or cpu.model_number is None else f"-f{cpu.family}m{cpu.model_number}"
    return f"cpu-{slug}{step}-{cpu.cores}c"


def _architecture(cpu: CpuInfo) -> str:
    if cpu.family is None:
        return cpu.model
    return f"{cpu.vendor} family {cpu.family} model {cpu.model_number}"


def _features(flags: frozenset[str]) -> Features:
    return Features(
        bf16_matrix=bool(flags & {"amx_bf16", "bf16"}),
        int8_matrix=bool(flags & {"amx_int8", "i8mm"}),
        amx_bf16="amx_bf16" in flags,
        amx_fp16="amx_fp16" in flags,
        avx512_bf16="avx512_bf16" in flags,
        bfmmla="bf16" in flags,
    )


def _fp32_flops_per_clk(cpu: CpuInfo) -> float:
    """Multiply and add counted apart, two vector units: 512 bits wide on Intel and Zen 5, 256 bits up to Zen 4."""
    if "avx512f" in cpu.flags and (cpu.vendor == "Intel" or (cpu.family or 0) >= _ZEN_5_FAMILY):
        return 64
    if "avx2" in cpu.flags and "fma" in cpu.flags:
        return 32
    if "asimd" in cpu.flags:
        return _ARM_FP32_FLOPS_PER_CLK.get(cpu.model, 16)
    return 8


def _bf16_flops_per_clk(cpu: CpuInfo, fp32: float) -> float | None:
    if "amx_bf16" in cpu.flags:
        return AMX_BF16_FLOPS_PER_CLK
    if "bf16" in cpu.flags:
        return 4 * fp32
    return 2 * fp32 if "avx512_bf16" in cpu.flags else None
