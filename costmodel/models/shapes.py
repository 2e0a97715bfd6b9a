"""Heads and widths of each layer's attention, under the many names that configurations give them."""

from dataclasses import dataclass
from typing import Any

from costmodel.attention import MAX_HEAD_DIM, MAX_HEADS
from costmodel.models.fields import Fields
from costmodel.models.windows import Reach

HEADS = (
    "num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads", "attention_heads",
    "decoder_attention_heads", "num_decoder_attention_heads",
)  # fmt: skip
KV_HEADS = (
    "num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "kv_n_heads", "num_attention_groups",
    "num_query_groups", "multi_query_group_num",
)  # fmt: skip
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels", "d_kv", "d_head", "head_size", "hidden_size_per_head")
HIDDEN = ("attention_hidden_size", "hidden_size", "n_embd", "d_model", "model_dim", "n_embed", "dim")


@dataclass(frozen=True, slots=True)
class Shape:
    """Heads and widths of one layer's attention before tensor parallelism."""

    qo_heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int | None = None


@dataclass(frozen=True, slots=True)
class Latent:
    """Widths of multi-head latent attention."""

    kv_lora_rank: int
    rope_dim: int
    nope_dim: int
    v_head_dim: int


def layer_shape(fields: Fields, layer: int, reach: Reach) -> Shape:
    """Give one layer's heads and widths.

    Raises:
        ConfigError: A field is missing or does not fit the others.
    """
    local = reach.window is not None
    other = fields.part("attention_other_setting") if local else None
    qo = _qo_heads(fields, layer)
    kv = _kv_heads(fields, layer, qo)
    head_dim = _head_dim(fields, qo)
    v_dim = fields.count("v_head_dim", "value_head_dim", low=0, high=MAX_HEAD_DIM) or None
    if local:
        qo = fields.count("swa_num_attention_heads", "num_sliding_attention_heads", high=MAX_HEADS) or qo
        kv = fields.count("swa_num_key_value_heads", high=MAX_HEADS) or kv
        head_dim = fields.count("swa_head_dim", high=MAX_HEAD_DIM) or head_dim
        v_dim = fields.count("swa_v_head_dim", low=0, high=MAX_HEAD_DIM) or v_dim
        if other is not None:
            qo = other.count("num_attention_heads", high=MAX_HEADS) or qo
            kv = other.count("num_attention_groups", "num_key_value_heads", high=MAX_HEADS) or kv
            head_dim = other.count("head_dim", high=MAX_HEAD_DIM) or head_dim
    elif fields.present("global_head_dim") or "global_head_dim" in fields.assumed:
        head_dim = fields.count("global_head_dim", high=MAX_HEAD_DIM) or head_dim
    if not local and fields.flag("attention_k_eq_v"):
        kv = fields.count("num_global_key_value_heads", high=MAX_HEADS) or kv
    if qo % kv:
        raise fields.error(f"num_attention_heads={qo} is not a multiple of num_key_value_heads={kv} (layer {layer})")
    return Shape(qo, kv, head_dim, None if v_dim == head_dim else v_dim)


def layer_latent(fields: Fields, reach: Reach) -> Latent | None:
    """Give the latent widths of an MLA model; None where it has none.

    Raises:
        ConfigError: A width is missing or out of range.
    """
    if fields.flag("use_mla", True) is False:
        fields.seen.add("kv_lora_rank")
        return None
    rank = fields.count("kv_lora_rank", low=0, high=MAX_HEAD_DIM)
    if not rank:
        return None
    fields.seen.update((*KV_HEADS, *HEAD_DIM))
    rope = 0 if fields.flag("use_mla_nope") else fields.require("qk_rope_head_dim", low=0, high=MAX_HEAD_DIM)
    if reach.window is not None and fields.present("swa_kv_lora_rank"):
        rank = fields.require("swa_kv_lora_rank", high=MAX_HEAD_DIM)
        rope = fields.count("swa_qk_rope_head_dim", low=0, high=MAX_HEAD_DIM) or rope
    nope = fields.require("qk_nope_head_dim", low=0, high=MAX_HEAD_DIM)
    value = fields.count("v_head_dim", low=0, high=MAX_HEAD_DIM)
    return Latent(rank, rope, nope, value or _head_dim(fields, _qo_heads(fields, 0), derived_only=True))


def num_qo_heads(fields: Fields, layer: int) -> int:
    """Give one layer's query heads before tensor parallelism."""
    return _qo_heads(fields, layer)


def _qo_heads(fields: Fields, layer: int) -> int:
    per_layer = fields.raw("num_attention_heads_per_layer")
    if isinstance(per_layer, list):
        fields.seen.update(HEADS)
        return _entry(fields, "num_attention_heads_per_layer", per_layer, layer)
    if fields.flag("is_encoder_decoder") and fields.present("decoder_attention_heads"):
        return fields.require("decoder_attention_heads", high=MAX_HEADS)
    value = fields.raw(*HEADS)
    if isinstance(value, list):
        return _entry(fields, fields.present(*HEADS) or HEADS[0], value, layer)
    return fields.require(*HEADS, high=MAX_HEADS)


def _kv_heads(fields: Fields, layer: int, qo_heads: int) -> int:
    block = _attention_block(fields, layer)
    if block is not None:
        if block.present("n_heads_in_group"):
            group = block.require("n_heads_in_group", high=MAX_HEADS)
            if qo_heads % group:
                raise fields.error(f"n_heads_in_group={group} does not divide num_attention_heads={qo_heads}")
            return qo_heads // group
        if block.present("num_key_value_heads"):
            return block.require("num_key_value_heads", high=MAX_HEADS)
    per_layer = fields.raw("num_key_value_heads_per_layer")
    if isinstance(per_layer, list):
        return _entry(fields, "num_key_value_heads_per_layer", per_layer, layer)
    new_falcon = fields.flag("new_decoder_architecture", False)
    if fields.flag("multi_query") and not new_falcon:
        fields.seen.update(KV_HEADS)
        return 1
    if fields.flag("multi_query_attention") is False:
        fields.seen.add("multi_query_group_num")
        return qo_heads
    grouped = fields.count("n_shared_head")
    if grouped is not None:
        if qo_heads % grouped:
            raise fields.error(f"n_shared_head={grouped} does not divide num_attention_heads={qo_heads}")
        return qo_heads // grouped
    config = fields.part("attn_config")
    if config is not None:
        fields.seen.update(KV_HEADS)
        if config.text("attn_type") == "multiquery_attention":
            return 1
        return config.count("kv_n_heads", high=MAX_HEADS) or qo_heads
    value = fields.raw(*KV_HEADS)
    if isinstance(value, list):
        return _entry(fields, fields.present(*KV_HEADS) or KV_HEADS[0], value, layer)
    return fields.count(*KV_HEADS, high=MAX_HEADS) or qo_heads


def _attention_block(fields: Fields, layer: int) -> Fields | None:
    blocks = fields.data.get("block_configs")
    if not isinstance(blocks, list) or layer >= len(blocks) or not isinstance(blocks[layer], dict):
        return None
    attention = blocks[layer].get("attention")
    return Fields(attention, f"{fields.where}: block_configs[{layer}]") if isinstance(attention, dict) else None


def _entry(fields: Fields, name: str, values: list[Any], layer: int) -> int:
    if layer >= len(values):
        raise fields.error(f"{name} has {len(values)} entries, none for layer {layer}")
    return fields.checked(f"{name}[{layer}]", values[layer], 1, MAX_HEADS)


def _head_dim(fields: Fields, qo_heads: int, derived_only: bool = False) -> int:
    given = None if derived_only else fields.count(*HEAD_DIM, high=MAX_HEAD_DIM)
    if given is not None:
        return given
    hidden = fields.count(*HIDDEN, high=1 << 24)
    if hidden is None:
        raise fields.error("has neither head_dim nor hidden_size")
    if hidden % qo_heads:
        raise fields.error(
            f"hidden_size={hidden} is not a multiple of num_attention_heads={qo_heads} and there is no head_dim"
        )
    return fields.checked("head_dim (hidden_size / num_attention_heads)", hidden // qo_heads, 1, MAX_HEAD_DIM)
