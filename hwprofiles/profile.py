"""A device as the cost model sees it: datasheet values in base units, capability flags, and what was measured on it."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from hwprofiles.errors import MissingValue
from hwprofiles.features import Features
from hwprofiles.measured import Measured
from hwprofiles.quantities import (
    Bytes,
    BytesPerSecond,
    Capability,
    Count,
    Hertz,
    Id,
    MatrixPerClock,
    MatrixRates,
    Name,
    Origin,
    PerClock,
    Share,
    VectorPerClock,
    VectorRates,
    Watts,
)


class Profile(BaseModel):
    """One device, dense rates and base units (bytes, bytes/s, FLOP/s, Hz, W, seconds)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Id
    name: Name
    vendor: Name
    kind: Literal["gpu", "cpu", "npu"]
    architecture: Name
    """Architecture family as vendors write it, such as Hopper."""
    arch_target: str | None = None
    """Compiler target: sm_90, gfx942, dav-c220, ...; names the file of architecture facts."""
    compute_capability: Capability | None = None
    unit: str = "one GPU"
    """What one runtime device is: a GPU, a die, a socket."""
    aliases: tuple[Name, ...] = ()
    driver_names: tuple[Name, ...] = ()

    num_sms: Count | None = None
    """Streaming multiprocessors, compute units, Xe cores or CPU cores."""
    sm_kind: str = "SM"
    base_clock_hz: Hertz | None = None
    boost_clock_hz: Hertz | None = None
    matrix_clock_hz: Hertz | None = None
    """Clock behind the vendor's matrix peak."""

    memory_type: str | None = None
    memory_bytes: Bytes | None = None
    """Nominal capacity."""
    memory_reported_bytes: Bytes | None = None
    """Capacity that the driver reports; tells variants apart."""
    memory_bytes_per_s: BytesPerSecond | None = None
    l2_bytes: Bytes | None = None
    llc_bytes: Bytes | None = None
    """Last-level cache beyond L2: Infinity Cache, or a CPU's L3."""

    l1_shared_bytes_per_sm: Bytes | None = None
    """L1 and shared memory, where they are one array."""
    shared_memory_bytes_per_sm: Bytes | None = None
    shared_memory_max_bytes_per_block: Bytes | None = None
    shared_memory_default_bytes_per_block: Bytes | None = None
    """What a block gets without asking."""
    shared_memory_reserved_bytes_per_block: Bytes | None = None
    registers_per_sm: Count | None = None
    """Registers of 32 bits."""
    max_registers_per_thread: Count | None = None
    max_threads_per_sm: Count | None = None
    max_warps_per_sm: Count | None = None
    max_blocks_per_sm: Count | None = None
    max_threads_per_block: Count | None = None
    max_cluster_size_portable: Count | None = None
    max_cluster_size_nonportable: Count | None = None
    warp_size: Count | None = None
    warp_schedulers_per_sm: Count | None = None
    tensor_memory_bytes_per_sm: Bytes | None = None

    shared_memory_bytes_per_clk_per_sm: PerClock | None = None
    exp_per_clk_per_sm: PerClock | None = None
    matrix_flops_per_clk_per_sm: MatrixPerClock = {}
    """By dtype: fp16, bf16, fp8, fp4; a fused multiply-add counts as two."""
    mma_sync_fraction: Share | None = None
    """Share of the matrix peak that `mma.sync` reaches, where a newer instruction is needed for all of it."""
    vector_flops_per_clk_per_sm: VectorPerClock = {}
    matrix_flops_per_s: MatrixRates = {}
    """Dense, FP32 accumulation, by dtype: bf16, fp16, fp8, fp6, fp4, int8, tf32, fp32, fp64."""
    vector_flops_per_s: VectorRates = {}
    """By dtype: fp32, fp64."""

    tdp_w: Watts | None = None
    interconnect: str | None = None
    interconnect_bytes_per_s: BytesPerSecond | None = None
    """One direction, per device."""
    pcie_gen: Count | None = None
    pcie_lanes: Count | None = None
    sockets: Count | None = None
    """CPUs only."""
    numa_nodes: Count | None = None

    features: Features = Features()
    measured: Measured | None = None
    measured_by_others: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    """Field name to where its value comes from; fields not named are the vendor's."""
    unconfirmed: dict[str, Any] = {}
    """Plausible values that no cited source confirmed, in base units."""
    notes: tuple[Name, ...] = ()
    sources: tuple[Name, ...] = ()
    confidence: str = ""
    files: tuple[str, ...] = ()
    """Files that the profile was put together from, the strongest first; empty for one made on the spot."""

    def require(self, field: str) -> Any:
        """Give a field's value.

        Raises:
            MissingValue: The profile has none; the message says how to supply it.
        """
        value = getattr(self, field)
        if value is None:
            raise MissingValue(self.id, field)
        return value

    def matrix_rate(self, dtype: str) -> float:
        """Dense matrix FLOP/s at `dtype` (fp8_e4m3 and fp8_e5m2 are fp8, nvfp4 is fp4).

        Raises:
            MissingValue: The profile has none.
        """
        key = "fp8" if dtype.startswith("fp8_e") else "fp4" if dtype == "nvfp4" else dtype
        rate = self.matrix_flops_per_s.get(key)
        if rate is None:
            raise MissingValue(self.id, f"matrix_flops_per_s.{key}")
        return rate

    def origin(self, field: str) -> Origin | None:
        """Where a field's value comes from (`matrix_flops_per_s.bf16` for one rate); None where there is no value."""
        table, _, key = field.partition(".")
        value = getattr(self, table)
        if value is None or (key and key not in dict(value)):
            return None
        return self.origins.get(field) or self.origins.get(table) or "vendor"

    def ridge_flops_per_byte(self) -> dict[str, float]:
        """Intensity at which memory and matrix units are equally busy, by dtype; empty without a bandwidth."""
        if self.memory_bytes_per_s is None:
            return {}
        return {dtype: rate / self.memory_bytes_per_s for dtype, rate in self.matrix_flops_per_s.items()}
