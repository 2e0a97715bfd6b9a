"""Which candidates a sweep measures for a workload: every backend's default, and points around it."""

from collections.abc import Iterator, Sequence
from random import Random

from executors.base import Backend, Knob, KnobValue
from executors.outcome import Candidate
from executors.registry import get_backend
from executors.sweeps.prebuilt import built, has_module
from executors.sweeps.sets import ALL, Workload
from hwprofiles import Profile

SWEPT = ("fa3", "flashinfer", "flashmla", "triton", "attnroof_triton", "trtllm_mha")
_OWN = {
    "torch": ("torch_native",),
    "flex": ("flex_attention",),
    "masks": ("flex_attention",),
    "cpu": ("torch_native", "flex_attention"),
    "fa4": ("fa4", "fa3"),
}
"""Sets of other backends: PyTorch's own attention, and FlashAttention-4 beside FlashAttention-3."""
_SPLITS = ("num_splits", "max_kv_splits")
_EACH = frozenset({"fa3"})
"""Backends whose every split count is measured; of the others every power of two."""


def backends_of(set_name: str) -> tuple[str, ...]:
    """Name the backends that a set asks."""
    return _OWN.get(set_name, SWEPT)


def candidates(workload: Workload, profile: Profile, *, seed: int, names: Sequence[str] = SWEPT) -> list[Candidate]:
    """List what to measure.

    Args:
        workload: With its own list, `breadth` points beside each default, or the whole split ladder.
        profile: The device.
        seed: Draws the points.
        names: Backends to ask.
    """
    if workload.only:
        return [c for c in workload.only if c.backend in names and get_backend(c.backend).implementation() is not None]
    random = Random(f"{seed}/{workload.attention}/{workload.batch}")
    found: list[Candidate] = []
    for name in names:
        backend = get_backend(name)
        if backend.implementation() is None or not has_module(name, workload.attention, workload.batch):
            continue
        if backend.reject(workload.attention, workload.batch, profile):
            continue
        found += _of_backend(backend, workload, profile, random)
    return found


def _of_backend(backend: Backend, workload: Workload, profile: Profile, random: Random) -> list[Candidate]:
    knobs = backend.knobs(workload.attention, workload.batch, profile)
    space = [Knob(knob.name, built(backend.name, knob, workload.attention), knob.via) for knob in knobs]
    default = {knob.name: knob.values[0] for knob in space}
    around = [p for p in _around(space, default) if backend.allows(workload.attention, workload.batch, p)]
    if workload.breadth == ALL:
        around = [point for point in around if _kept(backend.name, space, point, default)]
        around = [_as_fixed(backend.name, point) for point in around]
    else:
        around = random.sample(around, min(workload.breadth, len(around)))
    points = [default, *(point for point in around if point != default)]
    return [Candidate(backend.name, point) for point in points]


def _around(space: Sequence[Knob], default: dict[str, KnobValue]) -> Iterator[dict[str, KnobValue]]:
    """Every point that differs from the default in one knob."""
    for knob in space:
        for value in knob.values[1:]:
            yield {**default, knob.name: value}


def _kept(name: str, space: Sequence[Knob], point: dict[str, KnobValue], default: dict[str, KnobValue]) -> bool:
    """Keep other knobs' points, and the splits that the ladder of this backend has."""
    changed = next(knob.name for knob in space if point[knob.name] != default[knob.name])
    if changed not in _SPLITS:
        return name != "attnroof_triton"
    value = point[changed]
    return name in _EACH or (isinstance(value, int) and value & (value - 1) == 0)


def _as_fixed(name: str, point: dict[str, KnobValue]) -> dict[str, KnobValue]:
    """Sweep SGLang's Triton splits as fixed counts, so that the count is what runs."""
    return {**point, "split_mode": "fixed"} if name == "triton" and "split_mode" in point else point
