"""The few numbers per device and kernel that the datasheet does not give; each has a physical meaning."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

USUAL_DIM = "d128"
"""Head dim at which the other features of a compiled kernel are known best."""
EMPTY: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Parameters:
    """Constants of one kernel on one device; the defaults are round values from public measurements on Hopper."""

    floor_seconds: float = 6.0e-6
    """A call with next to no work, replayed in a graph."""
    tile_seconds: float = 0.25e-6
    """Latency of one KV tile that loading cannot hide."""
    page_seconds: float = 0.5e-9
    """One more page that a KV tile looks up."""
    page_bytes: float = 60.0
    """DRAM traffic that one more page visited by a tile is worth: short contiguous pieces use DRAM badly."""
    cta_bytes_per_s: float = 60e9
    """Rate at which one CTA alone streams KV (bytes in flight over loaded latency)."""
    far_fraction: float = 0.0
    """How much longer a tile's own loads take where KV spreads over far more than the L2, as a share."""
    sm_bytes_per_s: float = 70e9
    """Rate at which all CTAs of one SM together stream KV."""
    dram_fraction: float = 0.9
    """Share of the datasheet bandwidth that long reads reach."""
    matrix_fraction: float = 0.75
    """Share of the matrix peak that the main loop reaches."""
    exp_fraction: float = 0.8
    """Share of the exponential rate that the main loop reaches."""
    overlap: float = 4.0
    """How products and exponentials join: 1 one after the other, large fully hidden."""
    join: float = 4.0
    """How the rate limits of a tile join: 1 sum, large the slowest alone."""
    job_tiles: float = 1.0
    """Start and end of a job, in tiles."""
    row_tiles: float = 1.0
    """Loading the queries and storing the output of a job whose rows are all valid, in tiles."""
    merge_seconds: float = 2.0e-6
    """Launch of the merge kernel."""
    merge_split_seconds: float = 0.05e-6
    """One more split that a row of the merge walks through."""
    merge_slot_seconds: float = 0.01e-6
    """One more split that the merge kernel is compiled or launched for, whether it is used or not."""
    merge_row_seconds: float = 0.2e-9
    """One more output row that the merge kernel starts on."""
    merge_bytes_per_s: float = 2.5e12
    """Rate at which partial results are written and read."""
    request_seconds: float = 10e-9
    """Walk over one request in the scheduler of a persistent kernel."""
    empty_cta_seconds: float = 0.3e-6
    """A CTA that finds no work, on one slot."""
    launch_seconds: float = 1.5e-6
    """A further kernel in the same graph."""
    extra_fraction: float = 1.0
    """Scales the preparation that the emulator counts in seconds."""
    factors: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    """Compiled kernel to the factor on its tiles' own time, loads and products; 1 where not named."""

    def __post_init__(self) -> None:
        """Check that every parameter is finite and not negative."""
        for name in NUMBERS:
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise ValueError(f"{name}={value} must be finite and not negative")
        for name in ("cta_bytes_per_s", "sm_bytes_per_s", "dram_fraction", "matrix_fraction", "exp_fraction", "join"):
            if getattr(self, name) == 0:
                raise ValueError(f"{name} must be above 0")

    def factor(self, kernel: str) -> float:
        """Factor of one compiled kernel; of one that is not named, its head dim's times that of its other features."""
        found = self.factors.get(kernel)
        if found is not None:
            return found
        dim, _, features = kernel.partition("_")
        return self.factors.get(dim, 1.0) * self.factors.get(f"{USUAL_DIM}_{features}", 1.0)

    def with_values(self, values: dict[str, Any]) -> "Parameters":
        """Give a copy with some parameters replaced."""
        return replace(self, **values)


NUMBERS: tuple[str, ...] = tuple(f.name for f in fields(Parameters) if f.name != "factors")
"""The parameters that are single numbers."""
