"""The MLPs and experts of a model: which layers have which, and how wide."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from costmodel.errors import ConfigError
from costmodel.layer_group import Model
from costmodel.serving.sizes import Sizes

EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
PER_TOKEN = (
    "num_experts_per_tok", "num_experts_per_token", "num_experts_per_topk", "top_k_experts", "experts_per_token",
    "moe_topk", "moe_k", "moe_top_k",
)  # fmt: skip
SHARED_COUNT = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
SHARED_SIZE = (
    "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size",
    "share_expert_dim",
)  # fmt: skip
EXPERT_SIZE = ("moe_intermediate_size", "expert_intermediate_size", "expert_ffn_hidden_size", "ffn_hidden_size")
LATENT = ("moe_latent_size", "routed_expert_hidden_size")
DENSE_SIZE = (
    "dense_intermediate_size", "intermediate_size_mlp", "intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim",
)  # fmt: skip
WITHOUT_GATE = frozenset(
    {"gpt2", "gpt_bigcode", "opt", "falcon", "gpt_neox", "gptj", "phi", "starcoder2", "bloom", "mpt"}
    | {"nemotron", "nemotron_h"}
)
"""Model types whose MLP has two matrices instead of three."""
FOUR_TIMES = frozenset({"gpt2", "gptj", "bloom", "falcon", "mpt", "gpt_bigcode", "codegen"})
"""Model types whose MLP is four times as wide as the model where the file states nothing else."""
BOTH_BRANCHES = frozenset({"recurrent_gemma"})
"""Model types whose intermediate_size counts gate and value together."""
NAS_MULTIPLE = 256
"""Widths of Nemotron's searched blocks are rounded up to this."""
EXPERT_WORDS, DENSE_WORDS = ("moe", "e", "sparse"), ("mlp", "-", "ffn", "dense")


@dataclass(frozen=True, slots=True)
class Experts:
    """The routed experts of one mixture-of-experts layer."""

    count: int
    per_token: int
    intermediate_size: int
    shared_intermediate_size: int
    """Width of the experts that every token visits, together; 0 without."""
    latent_size: int | None = None
    """Width that tokens are projected to before routed experts; None is the model's own."""


def gated(model: Model) -> bool:
    """Whether an MLP has a gate."""
    return model.model_type not in WITHOUT_GATE


def moe_layers(model: Model) -> int:
    """Count the layers with routed experts."""
    sizes = Sizes(model, _experts_part(model))
    alone = _kinds_alone(model)
    if alone is not None:
        return alone.count("moe")
    if sizes.optional(*EXPERTS) in (None, 0, 1):
        return 0
    return sum(_is_moe(model, i) for i in range(model.num_layers))


def read_experts(model: Model) -> Experts:
    """Read the experts.

    Raises:
        ConfigError: A size is missing.
    """
    sizes = Sizes(model, _experts_part(model))
    size = sizes.count(*EXPERT_SIZE, "intermediate_size")
    shared = sizes.optional(*SHARED_SIZE)
    if shared is None:
        shared = (sizes.optional(*SHARED_COUNT) or 0) * size
    if model.model_type.startswith("llama4"):
        shared = size  # Llama 4 always has one shared expert and no field for it
    return Experts(sizes.count(*EXPERTS), sizes.count(*PER_TOKEN), size, shared, sizes.optional(*LATENT))


def dense_widths(model: Model, moe: int) -> list[int]:
    """Give the width of every dense MLP.

    Args:
        model: The model.
        moe: Its layers with experts.

    Raises:
        ConfigError: A layer has one and its width is missing.
    """
    sizes = Sizes(model)
    blocks = sizes.data.get("block_configs")
    if isinstance(blocks, list):
        return [width for block in blocks if (width := _block_width(sizes, block))]
    alone = _kinds_alone(model)
    if alone is not None:
        layers = alone.count("mlp")
    elif sizes.flag("enable_moe_block"):
        layers = model.num_layers
    elif sizes.optional("expert_ffn_hidden_size"):
        layers = 2 * model.num_layers  # LongCat: two mixers and two dense MLPs around the experts of a layer
    else:
        layers = model.num_layers - moe
    if not layers:
        return []
    listed = sizes.data.get("ffn_multipliers")
    if isinstance(listed, list) and len(listed) == layers:
        multiple = sizes.optional("ffn_dim_divisor") or 1
        return [_rounded(float(factor) * sizes.hidden, multiple) for factor in listed]
    listed = sizes.data.get("intermediate_size")
    if isinstance(listed, list) and len(listed) == layers and all(isinstance(width, int) for width in listed):
        return list(listed)
    return [_dense_width(model, sizes)] * layers


def _dense_width(model: Model, sizes: Sizes) -> int:
    if sizes.data.get("block_auto_adjust_ff_dim") and sizes.optional("block_ff_dim"):
        width = 2 * sizes.count("block_ff_dim") / 3 * float(sizes.data.get("block_ffn_dim_multiplier") or 1)
        return -(-int(width) // (sizes.optional("block_multiple_of") or 1)) * (sizes.optional("block_multiple_of") or 1)
    if model.model_type in FOUR_TIMES and sizes.optional(*DENSE_SIZE) is None:
        return (sizes.optional("expansion_ratio") or 4) * sizes.hidden
    stated = sizes.count(*DENSE_SIZE, "block_ff_dim", usual="intermediate_size")
    return stated // 2 if model.model_type in BOTH_BRANCHES else stated


def _is_moe(model: Model, layer: int) -> bool:
    """Whether a layer has experts, by whichever of the ways to say so the file uses."""
    sizes = Sizes(model)
    data = sizes.data
    frequency = data.get("moe_layer_freq")
    for listed in (frequency, data.get("mlp_layer_types")):
        if isinstance(listed, list) and layer < len(listed):
            return listed[layer] in (1, True, "sparse", "moe")
    enumerated = data.get("moe_layers_enum")
    if isinstance(enumerated, str):
        return str(layer) in [entry.strip() for entry in enumerated.split(",")]
    if sizes.optional("expert_layer_period"):
        period = sizes.count("expert_layer_period")
        return layer % period == (sizes.optional("expert_layer_offset") or 0) % period
    first = sizes.optional("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers")
    step = (
        sizes.optional("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq", "moe_layer_interval") or 1
    )
    if first is not None:
        return layer >= first and layer % step == 0
    dense = data.get("mlp_only_layers")
    return (layer + 1) % step == 0 and not (isinstance(dense, list) and layer in dense)


def _kinds_alone(model: Model) -> list[str] | None:
    """Give what each layer is where mixers and MLPs are layers of their own (Nemotron-H); None elsewhere."""
    data = Sizes(model).data
    pattern, named = data.get("hybrid_override_pattern"), data.get("layers_block_type")
    if isinstance(pattern, str) and pattern:
        words = list(pattern.replace("|", "").lower())
    elif isinstance(named, list) and "feed_forward" in model.mixers:
        words = [str(word).lower() for word in named]
    else:
        return None
    return ["moe" if word in EXPERT_WORDS else "mlp" if word in DENSE_WORDS else "mixer" for word in words]


def _block_width(sizes: Sizes, block: Any) -> int:
    """Width of the MLP of one searched block (`block_configs`); 0 where it has none."""
    part = block.get("ffn") if isinstance(block, dict) else None
    if not isinstance(part, dict) or part.get("no_op"):
        return 0
    inner = Sizes(sizes.model, part)
    stated = inner.optional("intermediate_size")
    if stated:
        return stated
    factor = part.get("ffn_mult")
    if not isinstance(factor, (int, float)) or isinstance(factor, bool):
        if part.get("replace_with_linear"):
            return 0
        raise ConfigError(
            f"{sizes.model.name}: block_configs has an ffn without ffn_mult or intermediate_size; without it weights "
            "and step times are unknown"
        )
    return -(-int(2 * factor * sizes.hidden / 3) // NAS_MULTIPLE) * NAS_MULTIPLE


def _rounded(width: float, multiple: int) -> int:
    """Round to a multiple, never down by more than a tenth."""
    found = max(multiple, int(width + multiple / 2) // multiple * multiple)
    return found + multiple if found < 0.9 * width else found


def _experts_part(model: Model) -> Mapping[str, Any]:
    data: Mapping[str, Any] = model.text or model.raw
    inner = data.get("ffn_config")
    return {**data, **inner} if isinstance(inner, dict) else data
