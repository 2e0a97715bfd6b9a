"""From recorded parts to the calibration file of a device."""

from collections.abc import Sequence
from typing import Any

from costmodel.fit.step import PartPoint, fit_step
from costmodel.serving.dense import LOGIT_BYTES
from costmodel.serving.kernels import ACTIVATION_BYTES
from executors.steps.records import PartRecord
from hwprofiles import Profile

FITTED_KINDS = ("gemm", "norm", "rotate", "gate", "kv_write", "embed", "sample")
"""Batched products of MLA are predicted as products; none of them is fitted on."""


def points_of(parts: Sequence[PartRecord]) -> list[PartPoint]:
    """Give the measured parts as bytes, FLOPs and seconds."""
    return [_point(part) for part in parts if part.part in FITTED_KINDS and part.latency_us]


def calibration(parts: Sequence[PartRecord], profile: Profile, command: str) -> str:
    """Fit the parts of one device and write the file's text.

    Raises:
        ValueError: There are no parts of this device.
    """
    names = {profile.name, *profile.driver_names}
    own = [part for part in parts if part.device.name in names]
    if not own:
        raise ValueError(f"no parts of {profile.name} (driver names: {', '.join(sorted(names))}): nothing to fit")
    found = fit_step(points_of(own), profile)
    first = own[0]
    head = {
        "device": profile.id,
        "command": command,
        "torch": first.torch,
        "cuda": first.cuda,
        "driver": first.device.driver,
        "measured": f"{min(p.time for p in own)} to {max(p.time for p in own)}",
        "models": sorted({f"{p.model} tp {p.tp}" for p in own}),
    }
    tables = [("product", found["product"]), *((f"passes.{kind}", entry) for kind, entry in found["passes"].items())]
    return "\n".join([_HEADER, *_lines(head), *(line for name, entry in tables for line in _table(name, entry))]) + "\n"


_HEADER = """\
# Products and the kernels between them, as measured one by one: see docs/serving.md for the form.
# low, high: ends of the 90 % interval; median_error, p90_error: on groups left out of the fit (a product's shape, a
# kernel's width)."""


def _table(name: str, entry: dict[str, float]) -> list[str]:
    return ["", f"[{name}]", *_lines(entry)]


def _lines(entry: dict[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in entry.items() if value is not None]


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _point(part: PartRecord) -> PartPoint:
    seconds, tokens = (part.latency_us or 0.0) * 1e-6, part.tokens
    if part.part == "gemm":
        moved = (part.n * part.k + tokens * (part.n + part.k)) * ACTIVATION_BYTES
        return PartPoint("gemm", moved, 2.0 * tokens * part.n * part.k, f"{part.n} x {part.k}", seconds)
    each = LOGIT_BYTES if part.part == "sample" else ACTIVATION_BYTES
    return PartPoint(part.part, float(tokens * part.n * each), 0.0, str(part.n), seconds)
