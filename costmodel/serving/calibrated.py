"""What products and the kernels between them cost on one device: fitted figures, and times from them."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

FITTED = ("nvidia-h200-sxm-141gb",)
"""Devices with a file of their own under `calibrations/`; the first also serves the others."""


@dataclass(frozen=True, slots=True)
class ProductFigures:
    """A product of plain 16-bit matrices: `floor + (memory^join + compute^join)^(1 / join)`."""

    floor_seconds: float
    bandwidth_fraction: float
    """Of the datasheet bandwidth."""
    matrix_fraction: float
    """Of the datasheet matrix rate."""
    join: float
    low: float
    high: float
    """Ends of the 90 % interval over the estimate."""

    def seconds(self, bytes: float, flops: float, bytes_per_s: float, flops_per_s: float) -> float:
        """Time one product on a device of this bandwidth and matrix rate."""
        memory = bytes / (self.bandwidth_fraction * bytes_per_s)
        compute = flops / (self.matrix_fraction * flops_per_s)
        return self.floor_seconds + float((memory**self.join + compute**self.join) ** (1 / self.join))


@dataclass(frozen=True, slots=True)
class PassFigures:
    """A kernel that moves bytes and computes little: `floor + bytes / rate`."""

    floor_seconds: float
    memory_fraction: float
    """Of the copy bandwidth; above 1 where the last kernel left its output in the cache."""
    low: float
    high: float

    def seconds(self, bytes: float, copy_bytes_per_s: float) -> float:
        """Time one kernel on a device of this copy bandwidth."""
        return self.floor_seconds + bytes / (self.memory_fraction * copy_bytes_per_s)


@dataclass(frozen=True, slots=True)
class StepFigures:
    """Everything beside attention that was fitted on a device."""

    device: str
    product: ProductFigures
    passes: Mapping[str, PassFigures]
    """By kind: norm, rotate, gate, kv_write, embed, sample."""


def step_figures(profile_id: str) -> StepFigures:
    """Give the figures of a device; those of the first fitted device where it has none of its own."""
    return _load(profile_id if profile_id in FITTED else FITTED[0])


def read_figures(data: Mapping[str, Any]) -> StepFigures:
    """Read figures from a parsed file."""
    passes = {name: PassFigures(**_numbers(entry)) for name, entry in data["passes"].items()}
    return StepFigures(data["device"], ProductFigures(**_numbers(data["product"])), passes)


def _numbers(entry: Mapping[str, Any]) -> dict[str, float]:
    """Leave out what says how good a fit is."""
    return {name: value for name, value in entry.items() if name not in ("rows", "median_error", "p90_error")}


@cache
def _load(device: str) -> StepFigures:
    text = files("costmodel").joinpath(f"calibrations/{device}/step.toml").read_text("utf-8")
    return read_figures(tomllib.loads(text))
