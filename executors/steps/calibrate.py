"""From recorded parts to the calibration file of a device."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from costmodel.fit.step import PartPoint, fit_step
from costmodel.serving.dense import LOGIT_BYTES
from costmodel.serving.kernels import ACTIVATION_BYTES
from executors.steps.records import PartRecord
from executors.steps.sums import PartTimes, Shaped, sustained, switch_seconds
from hwprofiles import Profile

FITTED_KINDS = ("gemm", "bmm", "norm", "rotate", "gate", "kv_write", "embed", "sample")
FITTED_MODELS = ("Llama-3.1-8B", "Qwen3-8B")
"""Models whose steps tell what kernels and long calls cost beside their parts; no other step is fitted on."""
LATENT_RANK, LATENT_HEAD = 512, 128
"""Widths that the recorded batched products go between, for each head."""
NOT_FITTED = ("router",)
"""Products of few columns, which no server runs as the others."""


def points_of(parts: Sequence[PartRecord]) -> list[PartPoint]:
    """Give the measured parts as bytes, FLOPs and seconds."""
    fitted = (part for part in parts if part.part in FITTED_KINDS and part.name not in NOT_FITTED and part.latency_us)
    return [_point(part) for part in fitted]


def calibration(parts: Sequence[PartRecord], steps: Sequence[Shaped], profile: Profile, command: str) -> str:
    """Fit the parts of one device, and what its steps add to them, and write the file's text.

    Args:
        parts: Recorded parts.
        steps: Recorded steps; those of `FITTED_MODELS` count.
        profile: The device.
        command: What made the file, for the file.

    Raises:
        ValueError: There are no parts of this device.
    """
    names = {profile.name, *profile.driver_names}
    own = [part for part in parts if part.device.name in names]
    if not own:
        raise ValueError(f"no parts of {profile.name} (driver names: {', '.join(sorted(names))}): nothing to fit")
    fitted = [(r, s) for r, s in steps if r.model in FITTED_MODELS and r.device.name in names and r.latency_us]
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
        "switch_seconds": _rounded(switch_seconds(fitted, PartTimes.of(own))),
    }
    tables = [("product", found["product"]), *((f"passes.{kind}", entry) for kind, entry in found["passes"].items())]
    for call, figures in sustained(fitted, profile).items():
        entry = {name: _rounded(value) for name, value in asdict(figures).items()}
        tables.append((f'sustained."{call}"', entry))
    return "\n".join([_HEADER, *_lines(head), *(line for name, entry in tables for line in _table(name, entry))]) + "\n"


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


_HEADER = """\
# Products and the kernels between them, as measured one by one: see docs/serving.md for the form.
# switch_seconds: what a kernel takes longer after another one; sustained: attention calls in long runs over bursts.
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
    if part.part == "bmm":
        heads = part.n // (LATENT_RANK if part.name == "absorb" else LATENT_HEAD)
        moved = float(part.n * part.k + part.tokens * heads * (LATENT_RANK + LATENT_HEAD)) * ACTIVATION_BYTES
    else:
        each = LOGIT_BYTES if part.part == "sample" else ACTIVATION_BYTES
        moved = 0.0 if part.k else float(part.tokens * part.n * each)
    return PartPoint(part.part, part.tokens, part.n, part.k, moved, (part.latency_us or 0.0) * 1e-6)
