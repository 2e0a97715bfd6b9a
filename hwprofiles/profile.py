"""A device as the cost model sees it: datasheet values in base units, capability flags, and what was measured on it."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Origin = Literal["vendor", "derived", "others", "unconfirmed", "measured", "user"]


class ProfileError(ValueError):
    """A profile cannot be read or does not hold together."""


class MissingValue(ProfileError):
    """A value that a model needs is not in the profile."""

    def __init__(self, profile_id: str, field: str) -> None:
        self.profile_id = profile_id
        self.field = field
        super().__init__(
            f"profile {profile_id!r} has no confirmed {field}; supply it in a file of your own: "
            f'extends = "{profile_id}", {field} = <value in base units> (see docs/profiles.md)'
        )


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Features(_Frozen):
    """What the hardware can do; None means that sources conflict or say nothing."""

    bf16_matrix: bool | None = None
    tf32_matrix: bool | None = None
    fp8_matrix: bool | None = None
    fp6_matrix: bool | None = None
    fp4_matrix: bool | None = None
    int8_matrix: bool | None = None
    int4_matrix: bool | None = None
    mma_sync: bool | None = None
    wgmma: bool | None = None
    tcgen05: bool | None = None
    tensor_memory: bool | None = None
    cp_async: bool | None = None
    tma: bool | None = None
    thread_block_clusters: bool | None = None
    distributed_shared_memory: bool | None = None
    programmatic_dependent_launch: bool | None = None
    mfma: bool | None = None
    wmma_rdna: bool | None = None
    xmx: bool | None = None
    amx_bf16: bool | None = None
    amx_fp16: bool | None = None
    avx512_bf16: bool | None = None
    bfmmla: bool | None = None


class Measured(_Frozen):
    """What calibration saw on one device; None where it was not measured."""

    date: str
    driver: str | None = None
    torch: str | None = None
    command: str | None = None
    read_bytes_per_s: float | None = None
    write_bytes_per_s: float | None = None
    copy_bytes_per_s: float | None = None
    l2_read_bytes_per_s: float | None = None
    read_bytes_per_s_per_sm: float | None = None
    """Rate that one busy SM (or core) reaches alone."""
    matrix_flops_per_s: dict[str, float] = {}
    """Burst rate by dtype."""
    matrix_flops_per_s_sustained: dict[str, float] = {}
    exp_per_s: float | None = None
    launch_seconds: float | None = None
    """Eager launch of an empty kernel; on a CPU the overhead of one library call."""
    graph_launch_seconds: float | None = None
    merge_seconds: float | None = None
    sm_clock_hz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    spread: dict[str, float] = {}
    """Field to relative spread (p90 - p10 over the median)."""
    curves: dict[str, list[list[float]]] = {}
    """Name to points, such as read bandwidth by bytes or by busy SMs."""
    warnings: list[str] = []


class Profile(_Frozen):
    """One device, dense rates and base units (bytes, bytes/s, FLOP/s, Hz, W, seconds)."""

    id: str
    name: str
    vendor: str
    kind: Literal["gpu", "cpu", "npu"]
    architecture: str
    """Architecture family as vendors write it, such as Hopper."""
    arch_target: str | None = None
    """Compiler target: sm_90, gfx942, ascend910b, ..."""
    compute_capability: str | None = None
    aliases: tuple[str, ...] = ()
    driver_names: tuple[str, ...] = ()
    num_sms: int | None = None
    """Streaming multiprocessors, compute units, Xe cores or CPU cores."""
    sm_kind: str = "SM"
    base_clock_hz: float | None = None
    boost_clock_hz: float | None = None
    matrix_clock_hz: float | None = None
    """Clock behind the vendor's matrix peak."""
    memory_type: str | None = None
    memory_bytes: int | None = None
    memory_reported_bytes: int | None = None
    memory_bytes_per_s: float | None = None
    l2_bytes: int | None = None
    llc_bytes: int | None = None
    """Last-level cache beyond L2: Infinity Cache, or a CPU's L3."""
    shared_memory_bytes_per_sm: int | None = None
    shared_memory_max_bytes_per_block: int | None = None
    registers_per_sm: int | None = None
    max_threads_per_sm: int | None = None
    max_blocks_per_sm: int | None = None
    warp_size: int | None = None
    tensor_memory_bytes_per_sm: int | None = None
    shared_memory_bytes_per_clk_per_sm: float | None = None
    exp_per_clk_per_sm: float | None = None
    matrix_flops_per_clk_per_sm: dict[str, float] = {}
    """By dtype: fp16, bf16, fp8, fp4; a fused multiply-add counts as two."""
    matrix_flops_per_s: dict[str, float] = {}
    """Dense, FP32 accumulation, by dtype: bf16, fp16, fp8, fp6, fp4, int8, tf32, fp32, fp64."""
    vector_flops_per_s: dict[str, float] = {}
    """By dtype: fp32, fp64."""
    tdp_w: float | None = None
    interconnect: str | None = None
    interconnect_bytes_per_s: float | None = None
    """One direction, per device."""
    pcie_gen: int | None = None
    pcie_lanes: int | None = None
    features: Features = Features()
    measured: Measured | None = None
    measured_by_others: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    """Field name to where its value comes from; fields not named are the vendor's."""
    unconfirmed: dict[str, Any] = {}
    """Plausible values that no cited source confirmed, same field names."""
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    confidence: str = ""

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
        key = "fp8" if dtype.startswith("fp8") else "fp4" if dtype == "nvfp4" else dtype
        rate = self.matrix_flops_per_s.get(key)
        if rate is None:
            raise MissingValue(self.id, f"matrix_flops_per_s.{key}")
        return rate
