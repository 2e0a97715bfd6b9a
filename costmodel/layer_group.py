"""A model as its attention layers: groups of layers that are alike, before tensor parallelism."""

from dataclasses import dataclass
from typing import Any

from costmodel.attention import Attention


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers that share one attention shape."""

    layers: int
    """How many layers of the model."""
    attention: Attention
    """Their attention before TP; MLA in absorbed form."""
    layer_indices: tuple[int, ...] = ()
    cross_attention: bool = False
    indexer_layers: int = 0
    """Sparse models: layers that own an indexer (others reuse its choice)."""


@dataclass(frozen=True, slots=True)
class Model:
    """What a config.json says about attention."""

    name: str
    architecture: str
    """First entry of `architectures`, or ''."""
    model_type: str
    layer_groups: tuple[LayerGroup, ...]
    num_layers: int
    """Hidden layers, those without KV included."""
    layers_without_kv: int
    """Linear, Mamba or no-op layers."""
    kv_dtype: str
    """KV cache dtype that `auto` resolves to."""
    context_length: int | None
    multimodal: bool
    hybrid_linear: bool
    """Has linear-attention or Mamba layers beside attention."""
    unread: tuple[str, ...]
    """What could not be read, in words."""
    notes: tuple[str, ...]
    """Assumptions that were made, in words."""
    raw: dict[str, Any]
    """The parsed config.json, for rules that depend on further fields."""
    quantization: dict[str, Any]
    """`quantization_config` or hf_quant_config.json's `quantization`, {} when absent."""
