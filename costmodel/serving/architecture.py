"""What a config.json says about the weights beside attention: sizes of the MLP, the experts and the vocabulary."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from costmodel.errors import ConfigError
from costmodel.layer_group import Model

EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "experts_per_token", "moe_topk")
SHARED_COUNT = ("n_shared_experts", "num_shared_experts")
SHARED_SIZE = ("shared_expert_intermediate_size", "shared_intermediate_size")
DENSE_SIZE = ("dense_intermediate_size", "intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_dim")
WITHOUT_GATE = frozenset(
    {"gpt2", "opt", "falcon", "gpt_neox", "gptj", "phi", "starcoder2", "bloom", "mpt", "nemotron", "nemotron_h"}
)
"""Model types whose MLP has two matrices instead of three."""
NOT_COUNTED = {
    "routed_expert_hidden_size": "experts that work on a narrower latent",
    "hybrid_override_pattern": "layers that are an MLP or a Mamba mixer alone",
    "layers_block_type": "layers that are an MLP or a Mamba mixer alone",
    "block_configs": "blocks of different sizes",
    "compress_ratios": "compressed attention with low-rank outputs",
}
"""Fields of architectures whose weights this tool cannot count."""


@dataclass(frozen=True, slots=True)
class Experts:
    """The routed experts of one mixture-of-experts layer."""

    count: int
    per_token: int
    intermediate_size: int
    shared_intermediate_size: int
    """Width of the experts that every token visits, together; 0 without."""


@dataclass(frozen=True, slots=True)
class LinearMixer:
    """The projections of one gated linear-attention layer."""

    key_width: int
    value_width: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """Sizes that decide weights and matrix products."""

    hidden_size: int
    vocab_size: int
    tied_embeddings: bool
    layers: int
    moe_layers: int
    dense_layers: int
    """Layers with a dense MLP, those that have experts beside it included."""
    dense_intermediate_size: int
    experts: Experts | None
    gated: bool
    """Whether an MLP has a gate, hence three matrices."""
    q_lora_rank: int | None
    linear: LinearMixer | None
    """Mixer of the layers without a KV cache."""

    @property
    def mlp_matrices(self) -> int:
        """Matrices of one MLP or expert."""
        return 3 if self.gated else 2


def read_architecture(model: Model) -> Architecture:
    """Read the sizes.

    Raises:
        ConfigError: A size is missing, or the architecture has weights that this tool cannot count.
    """
    text = model.text or model.raw
    for name, what in NOT_COUNTED.items():
        if text.get(name) is not None:
            raise ConfigError(f"{model.name}: {name} means {what}; its weights cannot be counted, so no step times")
    moe = _moe_layers(text, model)
    experts = _experts(text, model) if moe else None
    both = bool(text.get("enable_moe_block"))
    dense = model.num_layers if both else model.num_layers - moe
    return Architecture(
        hidden_size=_count(text, model, "hidden_size", "n_embd", "d_model"),
        vocab_size=_count(text, model, "vocab_size"),
        tied_embeddings=_tied(text, model),
        layers=model.num_layers,
        moe_layers=moe,
        dense_layers=dense,
        dense_intermediate_size=_count(text, model, *DENSE_SIZE) if dense else 0,
        experts=experts,
        gated=model.model_type not in WITHOUT_GATE,
        q_lora_rank=text.get("q_lora_rank"),
        linear=_linear(text, model) if model.layers_without_kv else None,
    )


def _moe_layers(text: Mapping[str, Any], model: Model) -> int:
    if _optional(text, *EXPERTS) in (None, 0, 1):
        return 0
    total = model.num_layers
    frequency = text.get("moe_layer_freq")
    if isinstance(frequency, list):
        return sum(bool(flag) for flag in frequency)
    step = text.get("decoder_sparse_step") or text.get("interleave_moe_layer_step") or frequency or 1
    first = text.get("first_k_dense_replace") or 0
    dense = set(text.get("mlp_only_layers") or ())
    if "first_k_dense_replace" in text:
        return sum(i >= first and i % step == 0 for i in range(total))
    return sum((i + 1) % step == 0 and i not in dense for i in range(total))


def _experts(text: Mapping[str, Any], model: Model) -> Experts:
    size = _count(text, model, "moe_intermediate_size", "expert_intermediate_size", "intermediate_size")
    shared = _optional(text, *SHARED_SIZE)
    if shared is None:
        shared = (_optional(text, *SHARED_COUNT) or 0) * size
    if model.model_type.startswith("llama4"):
        shared = size  # Llama 4 always has one shared expert and no field for it
    return Experts(_count(text, model, *EXPERTS), _count(text, model, *PER_TOKEN), size, shared)


def _linear(text: Mapping[str, Any], model: Model) -> LinearMixer:
    if text.get("linear_num_value_heads") is None:
        raise ConfigError(
            f"{model.name}: {model.layers_without_kv} layers have no KV cache and no linear_num_value_heads; "
            "their weights cannot be counted, so no step times"
        )
    keys = _count(text, model, "linear_num_key_heads") * _count(text, model, "linear_key_head_dim")
    values = _count(text, model, "linear_num_value_heads") * _count(text, model, "linear_value_head_dim")
    return LinearMixer(keys, values)


def _tied(text: Mapping[str, Any], model: Model) -> bool:
    for part in (text, model.raw):
        if isinstance(part.get("tie_word_embeddings"), bool):
            return bool(part["tie_word_embeddings"])
    return model.model_type.startswith("gemma")


def _optional(text: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = text.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _count(text: Mapping[str, Any], model: Model, *names: str) -> int:
    value = _optional(text, *names)
    if value is None or value < 1:
        asked = " (or ".join(names[:2]) + (")" if len(names) > 1 else "")
        raise ConfigError(f"{model.name}: config.json has no {asked}; without it weights and step times are unknown")
    return value
