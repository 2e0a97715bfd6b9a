"""A model as its attention layers: groups of layers that are alike, before tensor parallelism."""

from dataclasses import dataclass, field
from typing import Any

from costmodel.attention import DTYPE_BYTES, Attention


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
    kv_shared_layers: int = 0
    """Layers that read the cache of an earlier layer and store none themselves."""
    kv_compression: int = 1
    """Tokens that one cache entry stands for."""
    indexer_dtype: str = "fp8_e4m3"
    """Dtype of the indexer's own key cache."""

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes of cache that one token takes in all layers of the group; windowed layers count in full."""
        return (self.layers - self.kv_shared_layers) * self.attention.kv_bytes_per_token / self.kv_compression

    @property
    def indexer_bytes_per_token(self) -> float:
        """Bytes of the indexers' own cache that one token takes, scales left out."""
        if self.attention.indexer_head_dim is None:
            return 0.0
        return (
            self.indexer_layers
            * self.attention.indexer_head_dim
            * DTYPE_BYTES[self.indexer_dtype]
            / self.kv_compression
        )


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
    text: dict[str, Any] = field(default_factory=dict)
    """The part of `raw` that describes the language model."""
    dtype: str = "bf16"
    """Dtype of queries and outputs under `--dtype auto`."""
    mtp_layers: int = 0
    """Multi-token-prediction layers that the checkpoint carries beyond `num_layers`."""
    dual_chunk: bool = False
    """Has a `dual_chunk_attention_config`."""
    mixers: tuple[str, ...] = ()
    """What each hidden layer mixes with: attention, full, sliding, chunked, cross, linear, noop, feed_forward."""
    parallel_linear: bool = False
    """Every layer has a linear mixer beside its attention."""
