"""How weights are stored and multiplied: bytes of one weight with its scales, and the matrix units that take it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from costmodel.attention import DTYPE_BYTES
from costmodel.errors import ConfigError
from costmodel.layer_group import Model
from costmodel.serving.quantized_parts import Part, algorithm_of, is_left_out


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """One way to store weights."""

    name: str
    bytes: float
    """Of one weight, block scales included."""
    compute: str
    """Dtype of the matrix units: bf16, fp16, fp8 or fp4."""
    kernel: str
    """Which measured kernel family stands for it: bf16, fp8 or fp8_block."""


PLAIN_KERNEL = "bf16"
FOUR_BITS = {"awq", "gptq", "auto-round", "awq_marlin", "gptq_marlin"}


@dataclass(frozen=True, slots=True)
class Formats:
    """Formats of a model's weights; a part that the quantisation leaves out keeps the checkpoint's dtype."""

    attention: WeightFormat
    linear: WeightFormat
    """Mixers without a KV cache."""
    dense: WeightFormat
    """MLPs."""
    shared: WeightFormat
    """Experts that every token visits."""
    experts: WeightFormat
    router: WeightFormat
    head: WeightFormat
    """Embedding and output head."""


def weight_formats(model: Model) -> Formats:
    """Read how a model's weights are stored.

    Raises:
        ConfigError: The quantisation is not one whose size is known.
    """
    plain = plain_format(model.dtype)
    method = str(model.quantization.get("quant_method") or "").lower()
    algorithm = str(model.quantization.get("quant_algo") or "").upper()
    if not method and not algorithm:
        return Formats(plain, plain, plain, plain, plain, plain, plain)
    if method == "mxfp4":
        return Formats(plain, plain, plain, plain, _mxfp4(plain), plain, plain)
    mixed = algorithm == "MIXED_PRECISION"
    whole = _fp8(True) if mixed and method == "fp8" else plain if mixed else _quantised(model, method, plain)

    def of(part: Part) -> WeightFormat:
        if mixed and (named := algorithm_of(model, part)) is not None:
            return _by_algorithm(model, named, plain)
        if is_left_out(model, part) and not (mixed and method == "fp8"):
            return plain
        return whole

    experts = _mxfp4(plain) if _stored_fp4(model) and not mixed else of("experts")
    return Formats(of("attention"), of("linear"), of("dense"), of("shared"), experts, plain, plain)


def plain_format(dtype: str) -> WeightFormat:
    """Give the format of weights that are stored as they are computed."""
    return WeightFormat(dtype, DTYPE_BYTES[dtype], dtype, PLAIN_KERNEL)


def _stored_fp4(model: Model) -> bool:
    return (model.text or model.raw).get("expert_dtype") == "fp4"


def _quantised(model: Model, method: str, plain: WeightFormat) -> WeightFormat:
    config = model.quantization
    algorithm = str(config.get("quant_algo") or "").upper()
    if method in ("fp8", "fbgemm_fp8") and not algorithm:
        return _fp8(isinstance(config.get("weight_block_size"), list))
    if algorithm or "nvfp4" in method:
        return _by_algorithm(model, algorithm or "NVFP4", plain)
    if method in FOUR_BITS:
        bits = config.get("bits", config.get("w_bit", 4))
        if isinstance(bits, int) and 1 <= bits <= 8:
            return _integers(bits, plain)
    if method in ("compressed-tensors", "compressed_tensors"):
        found = _compressed(config, plain)
        if found is not None:
            return found
    raise _unknown(model, f"{method!r}")


def _by_algorithm(model: Model, algorithm: str, plain: WeightFormat) -> WeightFormat:
    """Give the format of one of ModelOpt's algorithms."""
    if "NVFP4" in algorithm:
        return WeightFormat("nvfp4", 4 / 8 + 1 / 16, plain.compute if "W4A16" in algorithm else "fp4", "fp8")
    if algorithm == "MXFP8":
        return WeightFormat("mxfp8", 1 + 1 / 32, "fp8", "fp8_block")
    if "MXFP4" in algorithm:
        return _mxfp4(plain)
    if algorithm.startswith("FP8"):
        return _fp8("PB" in algorithm or "BLOCK" in algorithm)
    if algorithm.startswith(("W4A16", "W4A8", "INT4")):
        return _integers(4, plain)
    raise _unknown(model, f"{model.quantization.get('quant_method') or 'modelopt'!r} {algorithm}")


def _unknown(model: Model, what: str) -> ConfigError:
    return ConfigError(
        f"{model.name}: weights are quantised by {what}, whose size this tool does not know; step times need it"
    )


def _fp8(block: bool) -> WeightFormat:
    return WeightFormat("fp8", 1.0 + (4 / 16384 if block else 0.0), "fp8", "fp8_block" if block else "fp8")


def _mxfp4(plain: WeightFormat) -> WeightFormat:
    return WeightFormat("mxfp4", 4 / 8 + 1 / 32, plain.compute, PLAIN_KERNEL)


def _integers(bits: int, plain: WeightFormat) -> WeightFormat:
    return WeightFormat(f"int{bits}", bits / 8 + 4 / 128, plain.compute, PLAIN_KERNEL)


def _compressed(config: Mapping[str, Any], plain: WeightFormat) -> WeightFormat | None:
    groups = config.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, dict) and groups else None
    weights = first.get("weights") if isinstance(first, dict) else None
    if not isinstance(weights, dict):
        return None
    bits, kind = weights.get("num_bits"), weights.get("type")
    if bits == 8 and kind == "float":
        return _fp8(block=isinstance(weights.get("block_structure"), list))
    if bits in (4, 8) and kind == "int":
        return _integers(bits, plain)
    if bits == 4 and kind == "float":
        mx = weights.get("group_size") == 32 or "mxfp4" in str(config.get("format"))
        return _mxfp4(plain) if mx else WeightFormat("nvfp4", 4 / 8 + 1 / 16, "fp4", "fp8")
    return None
