"""What products and the kernels between them cost on one device: fitted figures, and times from them."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from costmodel.batch import Phase
from hwprofiles import Profile

FITTED = ("nvidia-h200-sxm-141gb",)
"""Devices with a file of their own under `calibrations/`; the first also serves the others."""
COLUMNS = 64
"""Columns of the weight that one thread block reads down its depth."""
SPLITS = (1, 2, 4, 8)
"""Parts that the depth of a product may be cut into, each with thread blocks of its own."""
LEAST_DEPTH = 512
"""Depth that a part keeps."""
CACHE_SHARE = 0.6
"""Part of the last-level cache that the output of the kernel before still fills."""
USUAL_COPY_FRACTION = 0.8
"""Copy bandwidth over the datasheet's, where it was not measured."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What a device could do at best."""

    bytes_per_s: float
    """Of its memory, by the datasheet."""
    copy_bytes_per_s: float
    flops_per_s: float
    """Of its matrix units for 16-bit values."""
    sms: int
    cache_bytes: float


@dataclass(frozen=True, slots=True)
class ProductFigures:
    """`[tokens, k] x [k, n]` of plain 16-bit values.

    `floor + (memory^join + column^join + compute^join)^(1 / join)`: all bytes at the bandwidth, the columns of one
    thread block at its own rate, the operations at the matrix rate. Cutting the depth shortens the second and costs
    `split_seconds`; the best cut counts.
    """

    floor_seconds: float
    bandwidth_fraction: float
    """Of the datasheet bandwidth."""
    matrix_fraction: float
    """Of the datasheet matrix rate."""
    join: float
    depth_overhead: float
    """Depth that filling and emptying a tile's pipeline is worth."""
    column_bytes_per_s: float
    """What one thread block reads."""
    split_seconds: float
    low: float
    high: float
    """Ends of the 90 % interval over the estimate."""

    def seconds(self, tokens: float, n: int, k: int, rates: Rates) -> float:
        """Time one product."""
        moved = 2.0 * (n * k + tokens * (n + k))
        memory = moved / (self.bandwidth_fraction * rates.bytes_per_s)
        depth = 1.0 + self.depth_overhead / k
        compute = 2.0 * tokens * n * k * depth / (self.matrix_fraction * rates.flops_per_s)
        others = memory**self.join + compute**self.join
        return self.floor_seconds + min(
            (others + self._column(n, k, parts, rates) ** self.join) ** (1 / self.join)
            + (self.split_seconds if parts > 1 else 0.0)
            for parts in SPLITS
            if parts == 1 or k >= parts * LEAST_DEPTH
        )

    def _column(self, n: int, k: int, parts: int, rates: Rates) -> float:
        turns = max(1.0, parts * n / COLUMNS / rates.sms)
        return turns * 2.0 * COLUMNS * k / parts / self.column_bytes_per_s


@dataclass(frozen=True, slots=True)
class PassFigures:
    """A kernel that moves bytes and computes little.

    `floor + rows * row + bytes / rate`; what fits the cache moves at another rate than the rest.
    """

    floor_seconds: float
    row_seconds: float
    """Of one token's thread blocks."""
    cache_fraction: float
    """Rate over the copy bandwidth of bytes that the cache holds."""
    memory_fraction: float
    """The same of the others."""
    low: float
    high: float

    def seconds(self, rows: float, bytes: float, rates: Rates) -> float:
        """Time one kernel over `rows` tokens."""
        cached = min(bytes, CACHE_SHARE * rates.cache_bytes)
        moving = cached / self.cache_fraction + (bytes - cached) / self.memory_fraction
        return self.floor_seconds + rows * self.row_seconds + moving / rates.copy_bytes_per_s


@dataclass(frozen=True, slots=True)
class SustainedFigures:
    """How much longer an attention call takes in long runs, at the clocks that the power limit leaves."""

    slowdown: float
    """Relative, of a call that is long."""
    half_seconds: float
    """Length of a call that is slowed down by half of that."""

    def factor(self, seconds: float) -> float:
        """Time in long runs over the time of a burst."""
        return 1.0 + self.slowdown * seconds / (seconds + self.half_seconds)


@dataclass(frozen=True, slots=True)
class StepFigures:
    """What a step was fitted to on a device, attention in bursts left out."""

    device: str
    switch_seconds: float
    """What a kernel takes longer after another one than after itself."""
    product: ProductFigures
    passes: Mapping[str, PassFigures]
    """By kind: norm, rotate, gate, kv_write, embed, bmm, sample."""
    sustained: Mapping[str, SustainedFigures]
    """By backend and phase, as in `fa3.decode`; the others keep their burst times."""


def rates_of(profile: Profile) -> Rates:
    """Give what a device could do at best; without a cache size nothing is held.

    Raises:
        MissingValue: The profile has no bandwidth.
    """
    bandwidth = profile.require("memory_bytes_per_s")
    measured = profile.measured.copy_bytes_per_s if profile.measured is not None else None
    return Rates(
        bytes_per_s=bandwidth,
        copy_bytes_per_s=measured or USUAL_COPY_FRACTION * bandwidth,
        flops_per_s=profile.matrix_flops_per_s.get("bf16", 0.0),
        sms=profile.num_sms or 1,
        cache_bytes=float(profile.l2_bytes or 0),
    )


def step_figures(profile_id: str) -> StepFigures:
    """Give the figures of a device; those of the first fitted device where it has none of its own."""
    return _load(profile_id if profile_id in FITTED else FITTED[0])


def sustained_factor(profile_id: str, backend: str, phase: Phase, seconds: float) -> float:
    """Give the time of an attention call in long runs over its burst time; a mixed batch slows down as decode does.

    Devices without figures of their own keep 1: their power limits are others.
    """
    figures = step_figures(profile_id)
    found = figures.sustained.get(f"{backend}.{'decode' if phase == 'mixed' else phase}")
    return found.factor(seconds) if found and figures.device == profile_id else 1.0


def read_figures(data: Mapping[str, Any]) -> StepFigures:
    """Read figures from a parsed file."""
    passes = {name: PassFigures(**_numbers(entry)) for name, entry in data["passes"].items()}
    sustained = {name: SustainedFigures(**_numbers(entry)) for name, entry in data.get("sustained", {}).items()}
    product = ProductFigures(**_numbers(data["product"]))
    return StepFigures(data["device"], data["switch_seconds"], product, passes, sustained)


def _numbers(entry: Mapping[str, Any]) -> dict[str, float]:
    """Leave out what says how good a fit is."""
    return {name: value for name, value in entry.items() if name not in ("rows", "median_error", "p90_error")}


@cache
def _load(device: str) -> StepFigures:
    text = files("costmodel").joinpath(f"calibrations/{device}/step.toml").read_text("utf-8")
    return read_figures(tomllib.loads(text))
