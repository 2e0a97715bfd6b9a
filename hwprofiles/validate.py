"""Check that a profile holds together, and that all profiles do side by side."""

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hwprofiles.library import DATA, read_toml
from hwprofiles.match import REPORTED_TOLERANCE
from hwprofiles.names import normalized
from hwprofiles.profile import Profile

PRODUCT_TOLERANCE = 0.03
"""Between a rate and SMs x clock x rate per clock: vendors round clocks and rates."""
STREAM_OVER_DATASHEET = 1.05
"""Published bandwidths are rounded down from bus width times clock by up to 2.5 % (H200: 4917 to 4800 GB/s)."""
SPARSE_TOLERANCE = 0.015
"""Between a rate and a published sparse figure."""
BANDWIDTH_BY_MEMORY = {
    "HBM2e": (4e11, 3.8e12),
    "HBM2": (3e11, 1.7e12),
    "HBM3e": (3.5e12, 1e13),
    "HBM3": (1.5e12, 6e12),
    "GDDR6X": (5e11, 1.2e12),
    "GDDR6": (1e11, 1.2e12),
    "GDDR7": (3e11, 2e12),
    "LPDDR5X": (5e10, 1e12),
    "LPDDR5": (2e10, 5e11),
}
"""Lowest and highest plausible bytes/s of one device, by the beginning of the memory type; the first match counts."""
TIMES_HALF_PRECISION = {"tf32": 1, "int8": 2, "fp8": 2, "fp8_fp16acc": 2, "fp6": 4, "fp4": 6}
"""Highest dense rate over the 16-bit matrix rate that any known device has."""
NEVER_HALVED = ("fp4", "fp6")
"""Cards that run wider formats at half rate with FP32 accumulation run these at full rate."""
FEATURE_OF_RATE = {d: f"{d}_matrix" for d in ("bf16", "tf32", "fp8", "fp6", "fp4", "int8")}
FIRST_CAPABILITY = {"cp_async": 80, "tma": 90, "thread_block_clusters": 90, "fp8_matrix": 89, "fp4_matrix": 100}
ONLY_ON = {
    "wgmma": r"sm_90",
    "tcgen05": r"sm_10\d|sm_110",
    "tensor_memory": r"sm_10\d|sm_110",
    "mma_sync": r"sm_\d+",
    "mfma": r"gfx9\w+",
    "wmma_rdna": r"gfx1[12]\w+",
    "xmx": r"xe\w+",
    "amx_bf16": r"x86.*",
    "bfmmla": r"arm.*",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One rule that a profile breaks."""

    profile: str
    field: str
    rule: str

    def __str__(self) -> str:
        return f"{self.profile}: {self.field}: {self.rule}"


def check(profile: Profile) -> list[Problem]:
    """All rules that one profile breaks."""
    rules = (_products, _bandwidth, _dense, _features, _limits, _measured, _provenance)
    return [Problem(profile.id, field, rule) for find in rules for field, rule in find(profile)]


def check_all(profiles: Sequence[Profile], beside: Sequence[Profile] = ()) -> list[Problem]:
    """All rules that profiles break, alone, beside each other, and beside those that are known already."""
    problems = [problem for profile in profiles for problem in check(profile)]
    ids = {profile.id for profile in profiles}
    known = [profile for profile in beside if profile.id not in ids]
    for one, other in itertools.chain(itertools.combinations(profiles, 2), itertools.product(profiles, known)):
        both = {normalized(n) for n in one.driver_names} & {normalized(n) for n in other.driver_names}
        if both and not _told_apart(one, other):
            rule = f"{sorted(both)[0]!r} is also {other.id}, with the same SM count and memory"
            problems.append(Problem(one.id, "driver_names", rule))
        clash = {normalized(n) for n in (one.id, *one.aliases)} & {normalized(n) for n in (other.id, *other.aliases)}
        if clash:
            problems.append(Problem(one.id, "aliases", f"{sorted(clash)[0]!r} also names {other.id}"))
    return problems


def _told_apart(one: Profile, other: Profile) -> bool:
    if one.num_sms and other.num_sms and one.num_sms != other.num_sms:
        return True
    first = one.memory_reported_bytes or one.memory_bytes
    second = other.memory_reported_bytes or other.memory_bytes
    return bool(first and second and abs(first / second - 1) > 2 * REPORTED_TOLERANCE)


def _products(p: Profile) -> Iterator[tuple[str, str]]:
    vector_clock = p.matrix_clock_hz if p.kind == "cpu" else p.boost_clock_hz
    tables = (
        ("matrix_flops_per_s", p.matrix_flops_per_s, p.matrix_flops_per_clk_per_sm, p.matrix_clock_hz),
        ("vector_flops_per_s", p.vector_flops_per_s, p.vector_flops_per_clk_per_sm, vector_clock),
    )
    for name, rates, per_clk, clock in tables:
        clock = clock or p.matrix_clock_hz or p.boost_clock_hz
        for dtype in set(rates) & set(per_clk) if clock and p.num_sms else ():
            product = per_clk[dtype] * float(clock or 0) * float(p.num_sms or 0)
            if abs(rates[dtype] / product - 1) > PRODUCT_TOLERANCE:
                yield (
                    f"{name}.{dtype}",
                    f"{rates[dtype]:.4g} is not SMs x clock x rate per clock = {product:.4g}; where the device's rate "
                    f"per clock differs from its architecture's {per_clk[dtype]:g}, state it",
                )


def _bandwidth(p: Profile) -> Iterator[tuple[str, str]]:
    if p.memory_bytes_per_s is None or p.memory_type is None:
        return
    channels = re.fullmatch(r"(?:DDR|MRDIMM)\d?-(\d+) x(\d+)", p.memory_type)
    if channels:
        low = high = float(int(channels[1]) * 1e6 * 8 * int(channels[2]))
    else:
        low, high = next((r for t, r in BANDWIDTH_BY_MEMORY.items() if p.memory_type.startswith(t)), (0.0, 1e14))
    if not 0.99 * low <= p.memory_bytes_per_s <= 1.01 * high:
        yield "memory_bytes_per_s", f"{p.memory_bytes_per_s:.4g} is outside {low:.4g} to {high:.4g} of {p.memory_type}"


def _dense(p: Profile) -> Iterator[tuple[str, str]]:
    """Sparse figures are twice the dense ones: too high for the architecture, for the 16-bit rate, or known."""
    rates = p.matrix_flops_per_s
    known = read_toml(DATA / "sparse_figures.toml").get(p.id, {})
    clock = max(p.boost_clock_hz or 0, p.matrix_clock_hz or 0)
    ceiling = _architecture_rates(p)
    half = max((rates[d] for d in ("fp16", "bf16", "fp16_fp16acc") if d in rates), default=None)
    for dtype, rate in rates.items():
        most = 1.06 * ceiling[dtype] * clock * p.num_sms if dtype in ceiling and clock and p.num_sms else None
        halved_beside_it = most is not None and dtype in NEVER_HALVED
        if dtype in known and abs(rate / known[dtype] - 1) <= SPARSE_TOLERANCE:
            yield f"matrix_flops_per_s.{dtype}", f"{rate:.4g} is the vendor's figure with sparsity, not the dense one"
        elif most and rate > most:
            yield f"matrix_flops_per_s.{dtype}", f"{rate:.4g} is more than {p.arch_target} can do; sparse?"
        elif half and not halved_beside_it and rate > 1.03 * TIMES_HALF_PRECISION.get(dtype, math.inf) * half:
            yield f"matrix_flops_per_s.{dtype}", f"{rate:.4g} is too much beside {half:.4g} at 16 bits; sparse?"


def _architecture_rates(p: Profile) -> dict[str, float]:
    path = DATA / "architectures" / f"{p.arch_target}.toml"
    return dict(read_toml(path).get("matrix_flops_per_clk_per_sm", {})) if path.is_file() else {}


def _features(p: Profile) -> Iterator[tuple[str, str]]:
    flags = p.features
    for dtype, flag in FEATURE_OF_RATE.items():
        if p.kind == "gpu" and dtype in p.matrix_flops_per_s and getattr(flags, flag) is False:
            yield f"features.{flag}", f"is false beside a {dtype} matrix rate"
    target = p.arch_target or ""
    for flag, pattern in ONLY_ON.items():
        if getattr(flags, flag) and target and not re.fullmatch(pattern, target):
            yield f"features.{flag}", f"is not on {target}"
    capability = re.fullmatch(r"sm_(\d+)", target)
    if capability:
        if p.compute_capability != f"{capability[1][:-1]}.{capability[1][-1]}":
            yield "compute_capability", f"{p.compute_capability} is not that of {target}"
        for flag, first in FIRST_CAPABILITY.items():
            if getattr(flags, flag) and int(capability[1]) < first:
                yield f"features.{flag}", f"came with sm_{first}, later than {target}"
    if bool(flags.tcgen05) != bool(flags.tensor_memory):
        yield "features.tensor_memory", "goes with tcgen05"
    if p.tensor_memory_bytes_per_sm and not flags.tensor_memory:
        yield "tensor_memory_bytes_per_sm", "is given, but features.tensor_memory is not true"


def _limits(p: Profile) -> Iterator[tuple[str, str]]:
    ordered = (
        ("shared_memory_max_bytes_per_block", p.shared_memory_max_bytes_per_block, p.shared_memory_bytes_per_sm),
        ("shared_memory_bytes_per_sm", p.shared_memory_bytes_per_sm, p.l1_shared_bytes_per_sm),
        ("max_threads_per_block", p.max_threads_per_block, p.max_threads_per_sm),
        ("base_clock_hz", p.base_clock_hz, p.boost_clock_hz),
        ("memory_reported_bytes", p.memory_reported_bytes, p.memory_bytes and p.memory_bytes * 1.02),
    )
    for field, small, large in ordered:
        if small and large and small > large:
            yield field, f"{small:g} is more than {large:g}, which holds it"
    if p.max_warps_per_sm and p.warp_size and p.max_threads_per_sm != p.max_warps_per_sm * p.warp_size:
        yield "max_threads_per_sm", f"{p.max_threads_per_sm} is not warps x warp size"


def _measured(p: Profile) -> Iterator[tuple[str, str]]:
    """Nothing beats its datasheet by more than the clocks allow; a processor's rates here are at base clock."""
    if p.measured is None or p.kind == "cpu":
        return
    for stream in ("read", "write", "copy"):
        rate = getattr(p.measured, f"{stream}_bytes_per_s")
        if rate and p.memory_bytes_per_s and rate > STREAM_OVER_DATASHEET * p.memory_bytes_per_s:
            yield f"measured.{stream}_bytes_per_s", f"{rate:.4g} is more than the memory's {p.memory_bytes_per_s:.4g}"
    boost = max(1.0, (p.boost_clock_hz or 0) / p.matrix_clock_hz) if p.matrix_clock_hz else 1.0
    for dtype, rate in p.measured.matrix_flops_per_s.items():
        peak = p.matrix_flops_per_s.get(dtype)
        if peak and rate > (1 + PRODUCT_TOLERANCE) * boost * peak:
            yield f"measured.matrix_flops_per_s.{dtype}", f"{rate:.4g} is more than the peak {peak:.4g} at boost clock"


def _provenance(p: Profile) -> Iterator[tuple[str, str]]:
    if not p.sources:
        yield "sources", "at least one source is needed"
    if p.confidence not in ("high", "medium", "low"):
        yield "confidence", f"{p.confidence!r} is not high, medium or low"
    for field in p.origins:
        table, _, key = field.partition(".")
        if table not in type(p).model_fields:
            yield f"origins.{field}", "names no field"
        elif key and key not in getattr(p, table):
            yield f"origins.{field}", "names a value that is not there"
