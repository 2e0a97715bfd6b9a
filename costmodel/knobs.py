"""The knobs of every backend: default, allowed values, and how a user of SGLang reaches them."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from costmodel.prediction import KnobValue

Via = Literal["sglang_flag", "sglang_env", "library"]


@dataclass(frozen=True, slots=True)
class KnobSpec:
    """One knob: its default and either a list of values or a range of whole numbers."""

    name: str
    default: KnobValue
    values: tuple[KnobValue, ...] = ()
    low: int = 0
    high: int = 0
    via: Via = "library"

    def check(self, backend: str, value: KnobValue) -> None:
        """Check a value.

        Raises:
            ValueError: The value is not allowed; the message says what is.
        """
        if self.values:
            if not any(value == v and type(value) is type(v) for v in self.values):
                raise ValueError(
                    f"{backend} knob {self.name}={value!r} is not one of {', '.join(map(str, self.values))}"
                )
        elif not isinstance(value, int) or isinstance(value, bool) or not self.low <= value <= self.high:
            raise ValueError(
                f"{backend} knob {self.name}={value!r} must be a whole number from {self.low} to {self.high}"
            )


_SPLITS = KnobSpec("num_splits", 0, low=0, high=128)
_BLOCKS = (16, 32, 64, 128, 256)

KNOBS: dict[str, tuple[KnobSpec, ...]] = {
    "fa3": (
        _SPLITS,
        KnobSpec("pack_gqa", "auto", ("auto", True, False)),
        KnobSpec("scheduler_metadata", "precomputed", ("precomputed", "per_call")),
        KnobSpec("build", None, (None, "flash_attn_interface", "fa3_fwd_interface")),
    ),
    "fa4": (_SPLITS,),
    "flashinfer": (
        KnobSpec("use_tensor_cores", "auto", ("auto", True, False), via="sglang_env"),
        KnobSpec("kernel", "auto", ("auto", "fa2", "fa3")),
    ),
    "triton": (
        KnobSpec("max_kv_splits", 8, low=1, high=256, via="sglang_flag"),
        KnobSpec("split_mode", "auto", ("auto", "fixed"), via="sglang_env"),
    ),
    "torch_native": (
        KnobSpec("form", "per_request", ("per_request", "trimmed", "cascade", "padded")),
        KnobSpec("pack_gqa", False, (False, True)),
        KnobSpec("num_splits", 1, low=1, high=128),
        KnobSpec("threads", 0, low=0, high=1024),
        KnobSpec("sdpa", "auto", ("auto", "flash", "efficient", "cudnn", "math")),
    ),
    "flex_attention": (
        KnobSpec("form", "per_request", ("per_request", "packed", "padded")),
        KnobSpec("block_m", 0, low=0, high=1024),
        KnobSpec("block_n", 0, low=0, high=1024),
        KnobSpec("threads", 0, low=0, high=1024),
    ),
    "attnroof_triton": (
        _SPLITS,
        KnobSpec("block_m", 0, (0, *_BLOCKS)),
        KnobSpec("block_n", 0, (0, *_BLOCKS)),
        KnobSpec("num_warps", 0, (0, 1, 2, 4, 8, 16)),
        KnobSpec("num_stages", 0, (0, 1, 2, 3, 4, 5, 6)),
    ),
}
"""0 means the backend's own choice; backends that are not listed have no knobs."""

_CASCADE = KnobSpec("cascade", False, (False, True))

OPTIONS: dict[str, tuple[KnobSpec, ...]] = {
    "fa3": (_CASCADE,),
    "flashinfer": (
        _CASCADE,
        KnobSpec("fixed_split_size", 0, low=0, high=1 << 20),
        KnobSpec("disable_split_kv", False, (False, True)),
    ),
    "triton": (
        KnobSpec("split_tile_size", 0, low=0, high=1 << 20),
        KnobSpec("context_len", 0, low=0, high=1 << 24),
        KnobSpec("unified_extend", False, (False, True)),
    ),
    "intel_xpu": (_SPLITS,),
}
"""Knobs of special modes, estimated but not tuned, and listed only where they are given. `cascade`: a prefix that all
requests share is attended once. `fixed_split_size` and `split_tile_size`: KV tokens of a split, 0 for the library's
rule. `context_len`: tokens that the grid of such splits is launched for. `unified_extend`: prefix and new tokens in one
pass."""


def resolve_knobs(backend: str, knobs: Mapping[str, KnobValue] | None) -> dict[str, KnobValue]:
    """Fill in defaults and check what was given.

    Raises:
        ValueError: A knob is unknown to the backend or its value is not allowed.
    """
    specs = KNOBS.get(backend, ())
    resolved = {spec.name: spec.default for spec in specs}
    if not knobs:
        return resolved
    specs += OPTIONS.get(backend, ())
    for name, value in knobs.items():
        spec = next((s for s in specs if s.name == name), None)
        if spec is None:
            names = [s.name for s in specs]
            near = get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names) or 'none'}"
            raise ValueError(f"{backend} has no knob {name!r}; {hint}")
        spec.check(backend, value)
        resolved[name] = value
    return resolved


def special(backend: str, knobs: Mapping[str, KnobValue]) -> bool:
    """Whether a knob of a special mode is set."""
    return any(knobs.get(spec.name) for spec in OPTIONS.get(backend, ()))
