"""Which knobs of a backend SGLang has flags or environment variables for."""

from collections.abc import Mapping
from dataclasses import dataclass

from costmodel.prediction import KnobValue

Knobs = Mapping[str, KnobValue]


@dataclass(frozen=True, slots=True)
class KnobSettings:
    """Knob values as an engine's settings."""

    flags: tuple[str, ...]
    env: Mapping[str, str]
    not_expressed: tuple[str, ...]


PASSED_BY_SGLANG: dict[tuple[str, str], tuple[KnobValue, ...]] = {
    ("fa3", "num_splits"): (0,),
    ("fa3", "pack_gqa"): ("auto", None),
    ("fa3", "scheduler_metadata"): ("precomputed", "per_call"),
    ("fa3", "build"): (None,),
    ("fa4", "num_splits"): (0,),
    ("flashinfer", "kernel"): ("auto", "fa2"),
    ("flashinfer", "use_tensor_cores"): ("auto",),
    ("triton", "split_mode"): ("auto",),
    ("torch_native", "form"): ("per_request",),
    ("flex_attention", "form"): ("per_request",),
}
"""Knob values that are what SGLang does anyway (flashattention_backend.py:338, flashinfer_backend.py:2687)."""

IN_ENGINE = {"num_splits": (0, 1), "threads": (0,), "sdpa": ("auto",), "pack_gqa": (False,)}
"""Values of library knobs that mean the library's own choice."""


def sglang_knobs(prefill: str, prefill_knobs: Knobs, decode: str, decode_knobs: Knobs) -> KnobSettings:
    """Turn knob values into SGLang's flags and environment variables; both phases share one process."""
    flags: list[str] = []
    env: dict[str, str] = {}
    left: list[str] = []
    for phase, backend, knobs in (("prefill", prefill, prefill_knobs), ("decode", decode, decode_knobs)):
        for name, value in knobs.items():
            if (backend, name) == ("triton", "max_kv_splits"):
                # Splits are a matter of decode; prefill does not split the KV sequence.
                if phase == "decode":
                    flags += ["--triton-attention-num-kv-splits", str(value)]
            elif (backend, name, value) == ("triton", "split_mode", "fixed"):
                if phase == "decode":
                    env["SGLANG_TRITON_DECODE_ATTN_STATIC_KV_SPLITS"] = "1"
            elif (backend, name) == ("flashinfer", "use_tensor_cores") and isinstance(value, bool):
                if phase == "decode":
                    env["SGLANG_FLASHINFER_USE_TENSOR_CORE"] = "true" if value else "false"
            elif not _is_default(backend, name, value):
                left.append(f"{phase}: SGLang has no setting for {backend}'s {name}={value}")
    return KnobSettings(tuple(flags), env, tuple(left))


def _is_default(backend: str, name: str, value: KnobValue) -> bool:
    return value in PASSED_BY_SGLANG.get((backend, name), IN_ENGINE.get(name, (None, "auto", 0)))
