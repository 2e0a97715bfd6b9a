"""What calibration saw on one device."""

from pydantic import BaseModel, ConfigDict

from hwprofiles.quantities import BytesPerSecond, Hertz, MatrixRates, Seconds, Watts


class Measured(BaseModel):
    """What calibration saw on one device; None where it was not measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    date: str
    driver: str | None = None
    torch: str | None = None
    command: str | None = None
    read_bytes_per_s: BytesPerSecond | None = None
    write_bytes_per_s: BytesPerSecond | None = None
    copy_bytes_per_s: BytesPerSecond | None = None
    """Bytes read plus bytes written, over time."""
    gather_bytes_per_s: BytesPerSecond | None = None
    """CPU: the same where rows are gathered by index into a fresh tensor, as those of a paged cache are."""
    l2_read_bytes_per_s: BytesPerSecond | None = None
    read_bytes_per_s_per_sm: BytesPerSecond | None = None
    """Rate that one busy SM (or core) reaches alone."""
    matrix_flops_per_s: MatrixRates = {}
    """Burst rate by dtype."""
    matrix_flops_per_s_sustained: MatrixRates = {}
    sm_clock_hz_sustained: dict[str, Hertz] = {}
    """SM clock while the sustained rate was measured, by dtype."""
    exp_per_s: float | None = None
    launch_seconds: Seconds | None = None
    """Eager launch of an empty kernel; on a CPU the overhead of one library call."""
    graph_launch_seconds: Seconds | None = None
    merge_seconds: Seconds | None = None
    """Merge of eight partial results of one decode step with 32 heads and head_dim 128."""
    sm_clock_hz: Hertz | None = None
    power_w: Watts | None = None
    temperature_c: float | None = None
    spread: dict[str, float] = {}
    """Field to relative spread (p90 - p10 over the median)."""
    curves: dict[str, list[list[float]]] = {}
    """Name to points, such as read bandwidth by bytes or by busy SMs."""
    warnings: list[str] = []
