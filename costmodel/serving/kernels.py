"""Times of the kernels beside attention: matrix products, experts, all-reduce and element-wise passes."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from costmodel.prediction import Evidence
from costmodel.serving.calibrated import Rates, StepFigures, rates_of, step_figures
from costmodel.serving.formats import WeightFormat
from costmodel.serving.weights import ExpertLayers, Product
from hwprofiles import MissingValue, Profile

FITTED_ON = "nvidia-h200-sxm-141gb"
WIDER = 1.3
"""Factor on both ends of an interval on a device that the figures were not taken on."""
EXPERT_ROWS = 16
"""Rows that an expert's smallest tile computes whatever it was given."""
ACTIVATION_BYTES = 2


@dataclass(frozen=True, slots=True)
class Time:
    """Seconds with a 90 % interval."""

    seconds: float
    low: float
    high: float
    evidence: Evidence

    def times(self, count: float) -> "Time":
        """Give the time of `count` such kernels, one after the other."""
        return Time(self.seconds * count, self.low * count, self.high * count, self.evidence)

    def __add__(self, other: "Time") -> "Time":
        """Add times; the evidence is that of the larger."""
        evidence = self.evidence if self.seconds >= other.seconds else other.evidence
        return Time(self.seconds + other.seconds, self.low + other.low, self.high + other.high, evidence)


@dataclass(frozen=True, slots=True)
class Kernels:
    """The device and the fractions of it that kernels reach."""

    memory_bytes_per_s: float
    matrix_flops_per_s: dict[str, float]
    link_bytes_per_s: float | None
    profile_id: str
    rates: Rates
    figures: StepFigures

    @property
    def fitted(self) -> bool:
        """Whether the figures were taken on this device."""
        return self.figures.device == self.profile_id

    def product(self, product: Product, tokens: float) -> Time:
        """Time one product over `tokens` rows."""
        moved = product.n * product.k * product.format.bytes
        moved += tokens * (product.n + product.k) * ACTIVATION_BYTES
        if self.fitted and product.format.name in ("bf16", "fp16"):
            figures = self.figures.product
            seconds = figures.seconds(tokens, product.n, product.k, self.rates) + self.figures.switch_seconds
            return self._interval(seconds, figures.low, figures.high, "calibrated", known=True)
        return self._roofline("gemm", product.format, moved, 2.0 * tokens * product.n * product.k)

    def experts(self, layers: ExpertLayers, tokens: float) -> Time:
        """Time the routed experts of one layer, tokens spread evenly: a token meets a given expert with k / E."""
        share = layers.experts.per_token / layers.experts.count
        rows = tokens * share * layers.local
        active = layers.local * (1.0 - (1.0 - min(1.0, share)) ** tokens)
        size = layers.matrices * layers.hidden_size * layers.intermediate_size
        moved = active * size * layers.format.bytes
        moved += rows * (3 * layers.hidden_size + 4 * layers.intermediate_size) * ACTIVATION_BYTES
        return self._roofline("moe", layers.format, moved, 2.0 * max(rows, active * EXPERT_ROWS) * size)

    def all_reduce(self, bytes: float, ranks: int) -> Time:
        """Time one all-reduce of `bytes` over `ranks`.

        Raises:
            MissingValue: The profile says nothing about the links.
        """
        if self.link_bytes_per_s is None:
            raise MissingValue(self.profile_id, "interconnect_bytes_per_s")
        data = _figures()["all_reduce"]
        moved = 2.0 * (ranks - 1) / ranks * bytes
        seconds = data["floor_seconds"] + moved / (data["link_fraction"] * self.link_bytes_per_s)
        return self._interval(seconds, data["low"], data["high"], "others")

    def pass_over(self, kind: str, rows: float, bytes: float) -> Time:
        """Time one kernel that moves `bytes` for `rows` tokens: norm, rotate, gate, kv_write, embed or sample."""
        figures = self.figures.passes[kind]
        seconds = figures.seconds(rows, bytes, self.rates) + self.figures.switch_seconds
        evidence: Evidence = "calibrated" if self.fitted else "others"
        return self._interval(seconds, figures.low, figures.high, evidence, known=self.fitted)

    def _roofline(self, kind: str, format: WeightFormat, bytes: float, flops: float) -> Time:
        table = _figures()[kind]
        data = table.get(format.kernel) or table.get(f"{format.kernel}_block") or table["bf16"]
        memory = bytes / (data["bandwidth_fraction"] * self.memory_bytes_per_s)
        compute = flops / (data["matrix_fraction"] * self._rate(format.compute))
        join = data["join"]
        seconds = data["floor_seconds"] + (memory**join + compute**join) ** (1 / join)
        known = format.name in ("bf16", "fp16", "fp8") and self.profile_id == FITTED_ON
        return self._interval(seconds, data["low"], data["high"], "others", known=known)

    def _rate(self, dtype: str) -> float:
        """Dense rate of a dtype; what the device cannot multiply is widened first, fp4 to fp8 to bf16."""
        for name in {"fp4": ("fp4", "fp8", "bf16"), "fp8": ("fp8", "bf16")}.get(dtype, (dtype, "bf16")):
            if name in self.matrix_flops_per_s:
                return self.matrix_flops_per_s[name]
        raise MissingValue(self.profile_id, f"matrix_flops_per_s.{dtype}")

    def _interval(self, seconds: float, low: float, high: float, evidence: Evidence, known: bool | None = None) -> Time:
        wider = 1.0 if (self.profile_id == FITTED_ON if known is None else known) else WIDER
        return Time(seconds, seconds * low / wider, seconds * high * wider, evidence)


def kernels_of(profile: Profile) -> Kernels:
    """Make the kernels of a device.

    Raises:
        MissingValue: The profile has no bandwidth.
    """
    rates = rates_of(profile)
    return Kernels(
        memory_bytes_per_s=rates.bytes_per_s,
        matrix_flops_per_s=dict(profile.matrix_flops_per_s),
        link_bytes_per_s=profile.interconnect_bytes_per_s,
        profile_id=profile.id,
        rates=rates,
        figures=step_figures(profile.id),
    )


def scheduler_time() -> Time:
    """What is left of the scheduler's work per step when it overlaps with the device."""
    data = _figures()["assumed"]
    return Time(data["scheduler_seconds"], data["scheduler_low_seconds"], data["scheduler_high_seconds"], "structure")


@cache
def _figures() -> dict[str, Any]:
    return tomllib.loads(files("costmodel.serving").joinpath("data/kernels.toml").read_text("utf-8"))
