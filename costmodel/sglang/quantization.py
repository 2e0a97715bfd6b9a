"""A checkpoint's quantisation under the name that SGLang gives it."""

from collections.abc import Mapping
from typing import Any

Config = Mapping[str, Any]

COMPATIBLE = {
    "modelopt_fp8": ("modelopt",),
    "modelopt_fp4": ("modelopt", "fp8"),
    "modelopt_mixed": ("modelopt",),
    "nvfp4_online": ("fp8", "modelopt_fp8"),
    "minimax_m3_nvfp4": ("mxfp8",),
    "petit_nvfp4": ("modelopt",),
    "w8a8_int8": ("compressed-tensors",),
    "w8a8_fp8": ("compressed-tensors",),
    "auto-round-int8": ("compressed-tensors",),
}
"""`--quantization` value to the checkpoint methods it may be given for (../configs/model_config.py:1519)."""


MARLIN_SINCE = 80
"""Compute capability times ten from which AWQ and GPTQ run on Marlin kernels."""


def checkpoint_method(config: Config) -> str | None:
    """Name the method that SGLang reads from a quantisation config; None for an unquantised checkpoint."""
    if not config:
        return None
    inner = config.get("quantization")
    config = inner if isinstance(inner, Mapping) else config
    method = str(config.get("quant_method") or "").lower().replace("compressed_tensors", "compressed-tensors")
    if method in ("", "modelopt"):
        return _modelopt(config) or method or None
    return method


def kv_cache_is_fp8(config: Config) -> bool:
    """Say whether the checkpoint asks for an FP8 KV cache through ModelOpt's fields (modelopt_quant.py:466)."""
    inner = config.get("quantization")
    config = inner if isinstance(inner, Mapping) else config
    method = checkpoint_method(config)
    if method is None or not method.startswith("modelopt"):
        return False
    scheme = config.get("kv_cache_scheme")
    if isinstance(scheme, Mapping):
        return scheme.get("type") == "float" and scheme.get("num_bits") == 8
    named = scheme if isinstance(scheme, str) and method == "modelopt_fp4" else config.get("kv_cache_quant_algo")
    return str(named or "").strip().upper() == "FP8"


def effective_method(checkpoint: str | None, flag: str | None, sm: int) -> str | None:
    """Name the method that runs: the flag or the checkpoint's, under the platform's kernel name.

    Args:
        checkpoint: The checkpoint's method.
        flag: Value of `--quantization`.
        sm: NVIDIA compute capability times ten; 0 on other devices.
    """
    method = flag if flag not in (None, "unquant") else checkpoint
    if sm >= MARLIN_SINCE and method in ("awq", "gptq"):
        return f"{method}_marlin"
    return method


def conflicts(checkpoint: str | None, flag: str | None) -> bool:
    """Say whether `--quantization` contradicts the checkpoint."""
    if (
        checkpoint is None
        or checkpoint.startswith("modelopt")
        or flag in (None, "unquant", "quark_mxfp4", "modelopt", "moe_wna16", "humming", checkpoint)
    ):
        return False
    same_family = {f"{checkpoint}_marlin", "marlin"} if checkpoint in ("awq", "gptq") else set()
    return flag not in same_family and checkpoint not in COMPATIBLE.get(flag or "", ())


def is_known(method: str | None, facts: Config) -> bool:
    """Say whether the device's SGLang build has this method.

    Args:
        method: As `effective_method` names it.
        facts: Device facts and the named sets `QUANTIZATION` and `QUANTIZATION_ROCM`.
    """
    if method is None:
        return True
    if facts["hip"]:
        if method == "mxfp4":
            return bool(facts["gfx95"])
        return method in facts["QUANTIZATION_ROCM"]
    extra = {"mxfp4"} if facts["cuda"] or facts["cpu"] or facts["xpu"] or facts["npu"] else set()
    extra |= {"gptq"} if facts["cpu"] or facts["xpu"] or facts["npu"] else set()
    return method in facts["QUANTIZATION"] or method in extra


def _modelopt(config: Config) -> str | None:
    algo = str(config.get("quant_algo") or "")
    if algo == "MIXED_PRECISION":
        layers = config.get("quantized_layers")
        infos = layers.values() if isinstance(layers, Mapping) else ()
        algos = {str(info.get("quant_algo", "")).upper() for info in infos if isinstance(info, Mapping)}
        return "modelopt_mixed" if algos & {"NVFP4", "W4A16_NVFP4"} else "w4afp8"
    if "FP4" in algo:
        return "modelopt_fp4"
    return {"FP8": "modelopt_fp8", "MXFP8": "mxfp8"}.get(algo)
