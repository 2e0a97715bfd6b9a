"""The dtypes that a checkpoint declares: of its activations and of its KV cache."""

from pathlib import Path
from typing import Any

from costmodel.errors import ConfigError
from costmodel.models.families import Family
from costmodel.models.fields import Fields
from costmodel.models.source import read_object

DTYPES = {
    "bfloat16": "bf16", "bf16": "bf16", "float16": "fp16", "fp16": "fp16", "half": "fp16",
    "float32": "fp32", "fp32": "fp32", "float": "fp32",
}  # fmt: skip
KV_ALGORITHMS = {
    "fp8": "fp8_e4m3", "fp8_e4m3": "fp8_e4m3", "fp8_e4m3fn": "fp8_e4m3", "fp8_e5m2": "fp8_e5m2", "nvfp4": "nvfp4",
}  # fmt: skip

QUANTIZATION_FIELDS = ("quantization_config", "compression_config")


def activation_dtype(fields: Fields, family: Family, notes: list[str]) -> str:
    """Give the dtype that queries and outputs have when served with `--dtype auto`."""
    named = fields.text("torch_dtype", "dtype")
    dtype = DTYPES.get((named or "").removeprefix("torch."))
    if named is not None and dtype is None:
        notes.append(f"dtype {named!r} is not one that attention computes in; bf16 is assumed")
    if named is None:
        notes.append("the file names no dtype; bf16 is assumed")
    if dtype == "fp32":
        dtype = "bf16" if family.bf16_for_fp32 else "fp16"
        notes.append(f"the checkpoint is fp32; it is served in {dtype}")
    return dtype or "bf16"


def read_quantization(config: dict[str, Any], text: dict[str, Any], path: Path | None) -> dict[str, Any]:
    """Give `quantization_config`, else the sibling hf_quant_config.json's `quantization`; {} when both are absent.

    Where both are there the first counts, as servers read it; ModelOpt's mixed precision may leave the KV cache to the
    sibling.

    Raises:
        ConfigError: One of them cannot be read.
    """
    own = next(
        (
            dict(part[name])
            for part in (text, config)
            for name in QUANTIZATION_FIELDS
            if isinstance(part.get(name), dict)
        ),
        {},
    )
    sibling = path.parent / "hf_quant_config.json" if path is not None else None
    if sibling is None or not sibling.is_file():
        return own
    whole = read_object(sibling)
    inner = whole.get("quantization", whole)
    if not isinstance(inner, dict):
        raise ConfigError(f"{sibling}: quantization must be an object")
    if not own:
        return {"quant_method": "modelopt", **inner}
    mixed = own.get("quant_method", "modelopt") == "modelopt" and own.get("quant_algo") == "MIXED_PRECISION"
    if mixed and _declared(own) is None and _declared(inner) is not None:
        return {**own, "kv_cache_quant_algo": _declared(inner)}
    return own


def kv_cache_dtype(quantization: dict[str, Any], model_dtype: str, notes: list[str], unread: list[str]) -> str:
    """Give the KV cache dtype that `auto` resolves to."""
    declared = _declared(quantization)
    if declared is None:
        return model_dtype
    if isinstance(declared, str) and declared.lower() in KV_ALGORITHMS:
        dtype = KV_ALGORITHMS[declared.lower()]
        notes.append(f"the checkpoint declares a {dtype} KV cache")
        return dtype
    unread.append(f"KV cache quantisation {declared!r} is not one that this tool knows; {model_dtype} is assumed")
    return model_dtype


def _declared(quantization: dict[str, Any]) -> Any:
    inner = quantization.get("quantization")
    for part in (quantization, inner if isinstance(inner, dict) else {}):
        if part.get("kv_cache_quant_algo") is not None:
            return part["kv_cache_quant_algo"]
        scheme = part.get("kv_cache_scheme")
        if isinstance(scheme, dict):
            return _scheme(scheme)
        if scheme is not None:
            return scheme
    return _quark(quantization)


def _scheme(scheme: dict[str, Any]) -> Any:
    bits, kind = scheme.get("num_bits"), scheme.get("type")
    known = {(8, "float"): "fp8", (4, "float"): "nvfp4"}
    return known.get((bits, kind), f"{kind}{bits}") if isinstance(bits, int) and isinstance(kind, str) else str(scheme)


def _quark(quantization: dict[str, Any]) -> Any:
    if quantization.get("quant_method") != "quark":
        return None
    export = quantization.get("export")
    group = export.get("kv_cache_group") if isinstance(export, dict) else None
    layers = quantization.get("layer_quant_config")
    if not group or not isinstance(group, list) or not isinstance(layers, dict):
        return None
    rule = layers.get(group[0]) if isinstance(group[0], str) else None
    output = rule.get("output_tensors") if isinstance(rule, dict) else None
    return output.get("dtype") if isinstance(output, dict) else None
