"""How weights are stored and multiplied: bytes of one weight with its scales, and the matrix units that take it."""

from dataclasses import dataclass
from typing import Any

from costmodel.attention import DTYPE_BYTES
from costmodel.errors import ConfigError
from costmodel.layer_group import Model


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
    """Formats of a model's weights."""

    dense: WeightFormat
    """Attention and MLP."""
    experts: WeightFormat
    head: WeightFormat
    """Embedding and output head."""


def weight_formats(model: Model) -> Formats:
    """Read how a model's weights are stored.

    Raises:
        ConfigError: The quantisation is not one whose size is known.
    """
    plain = plain_format(model.dtype)
    method = str(model.quantization.get("quant_method") or "").lower()
    if not method:
        return Formats(plain, plain, plain)
    if method == "mxfp4":
        return Formats(plain, WeightFormat("mxfp4", 4 / 8 + 1 / 32, plain.compute, PLAIN_KERNEL), plain)
    quantised = _quantised(model, method, plain)
    return Formats(quantised, quantised, plain)


def plain_format(dtype: str) -> WeightFormat:
    """Give the format of weights that are stored as they are computed."""
    return WeightFormat(dtype, DTYPE_BYTES[dtype], dtype, PLAIN_KERNEL)


def _quantised(model: Model, method: str, plain: WeightFormat) -> WeightFormat:
    config = model.quantization
    algorithm = str(config.get("quant_algo") or "").upper()
    if method == "fp8" or algorithm == "FP8" or method == "fbgemm_fp8":
        block = isinstance(config.get("weight_block_size"), list)
        return _fp8(block)
    if "NVFP4" in algorithm or "nvfp4" in method:
        return WeightFormat("nvfp4", 4 / 8 + 1 / 16, "fp4", "fp8")
    if method in FOUR_BITS:
        bits = config.get("bits", config.get("w_bit", 4))
        if isinstance(bits, int) and 1 <= bits <= 8:
            return WeightFormat(f"int{bits}", bits / 8 + 4 / 128, plain.compute, PLAIN_KERNEL)
    if method in ("compressed-tensors", "compressed_tensors"):
        found = _compressed(config, plain)
        if found is not None:
            return found
    raise ConfigError(
        f"{model.name}: weights are quantised by {method!r} {algorithm}".rstrip()
        + ", whose size this tool does not know; step times need it"
    )


def _fp8(block: bool) -> WeightFormat:
    return WeightFormat("fp8", 1.0 + (4 / 16384 if block else 0.0), "fp8", "fp8_block" if block else "fp8")


def _compressed(config: dict[str, Any], plain: WeightFormat) -> WeightFormat | None:
    groups = config.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, dict) and groups else None
    weights = first.get("weights") if isinstance(first, dict) else None
    bits = weights.get("num_bits") if isinstance(weights, dict) else None
    kind = weights.get("type") if isinstance(weights, dict) else None
    if bits == 8 and kind == "float":
        return _fp8(block=False)
    if bits in (4, 8) and kind == "int":
        return WeightFormat(f"int{bits}", bits / 8 + 4 / 128, plain.compute, PLAIN_KERNEL)
    if bits == 4 and kind == "float":
        return WeightFormat("nvfp4", 4 / 8 + 1 / 16, "fp4", "fp8")
    return None
