"""Which kind of mixer each layer has: full, sliding or chunked attention, linear, cross, none."""

from collections.abc import Callable
from typing import Any, Literal

from costmodel.models.families import Family
from costmodel.models.fields import MAX_LAYERS, Fields

Mixer = Literal["attention", "full", "sliding", "chunked", "cross", "linear", "noop", "feed_forward"]
"""`attention` leaves open whether the model's window applies; `feed_forward` layers have no mixer at all."""

NAMES: dict[str, Mixer] = {
    **dict.fromkeys(("attention", "attn", "self_attention", "hybrid", "parallel", "*"), "attention"),
    **dict.fromkeys(("full_attention", "full", "global", "global_attention", "full_attn"), "full"),
    **dict.fromkeys(("deepseek_sparse_attention", "indexed_attention", "qwen_sparse_attention"), "full"),
    **dict.fromkeys(("minimax_m3_sparse", "sparse_attention"), "full"),
    **dict.fromkeys(("compressed_sparse_attention", "heavily_compressed_attention"), "attention"),
    **dict.fromkeys(("hybrid_sliding", "reference_sliding_attention"), "sliding"),
    **dict.fromkeys(("sliding_attention", "sliding", "local", "local_attention", "swa", "sliding_window"), "sliding"),
    **dict.fromkeys(("chunked_attention", "chunked"), "chunked"),
    **dict.fromkeys(("cross_attention", "cross"), "cross"),
    **dict.fromkeys(("linear_attention", "linear", "mamba", "mamba1", "mamba2", "ssm", "conv", "recurrent"), "linear"),
    **dict.fromkeys(("rwkv", "gated_deltanet", "gdn", "kda", "lightning", "lightning_attention", "jet", "m"), "linear"),
    **dict.fromkeys(("gla", "lightning-attn", "short_conv", "deltanet", "retention", "rglru"), "linear"),
    **dict.fromkeys(("moe", "mlp", "ffn", "dense", "-", "e"), "feed_forward"),
    **dict.fromkeys(("noop", "no_op", "identity", "none"), "noop"),
}  # fmt: skip
"""Names that configurations give to layer kinds, in lower case."""

LAYER_LISTS = (
    "layer_types",
    "layers_block_type",
    "block_types",
    "attention_layers",
    "mixer_types",
    "layer_block_types",
)
LAYER_COUNTS = (
    "num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers", "decoder_layers", "layers",
)  # fmt: skip


def layer_mixers(fields: Fields, family: Family) -> tuple[Mixer, ...]:
    """Give the mixer of each layer.

    Raises:
        ConfigError: The number of layers or the kind of one cannot be told.
    """
    layers = _num_layers(fields)
    for read in _READERS:
        mixers = read(fields, layers, family)
        if mixers is not None:
            fields.seen.update(_PERIODS)
            break
    else:
        mixers = ["attention"] * layers
    return tuple(_with_cross_attention(fields, mixers))


def _num_layers(fields: Fields) -> int:
    if fields.flag("is_encoder_decoder"):
        decoder = fields.count("decoder_layers", "num_decoder_layers", high=MAX_LAYERS)
        if decoder is not None:
            return decoder
    layers = fields.count(*LAYER_COUNTS, high=MAX_LAYERS)
    if layers is not None:
        return layers
    for name in (*LAYER_LISTS, "hybrid_override_pattern", "block_configs", "num_key_value_heads_per_layer"):
        value = fields.data.get(name)
        if isinstance(value, (list, str)) and 0 < len(value) <= MAX_LAYERS and name != "block_types":
            return len(value)
    return fields.require(*LAYER_COUNTS, high=MAX_LAYERS)


def _named(fields: Fields, layers: int, family: Family) -> list[Mixer] | None:
    name = fields.present(*LAYER_LISTS)
    values = fields.items(*LAYER_LISTS)
    if name is None or not values:
        return None
    if name == "block_types" and len(values) < layers:
        values = [values[i % len(values)] for i in range(layers)]
    return [_mixer(fields, name, value) for value in fields.per_layer(name, values, layers)]


def _mixer(fields: Fields, name: str, value: Any) -> Mixer:
    mixer = NAMES.get(value.lower()) if isinstance(value, str) else None
    if mixer is None:
        raise fields.error(f"{name} holds {value!r}, a kind of layer that this tool does not know")
    return mixer


def _lettered(fields: Fields, layers: int, family: Family) -> list[Mixer] | None:
    pattern = fields.text("hybrid_override_pattern")
    if not pattern:
        return None
    letters = pattern.replace("|", "")
    return [
        _mixer(fields, "hybrid_override_pattern", letter)
        for letter in fields.per_layer("hybrid_override_pattern", letters, layers)
    ]


def _numbered(fields: Fields, layers: int, family: Family) -> list[Mixer] | None:
    for name, zero, one in (("attn_type_list", "linear", "attention"), ("hybrid_layer_pattern", "full", "sliding")):
        values = fields.counts(name, high=1)
        if values:
            meaning = (NAMES[zero], NAMES[one])
            return [meaning[v] for v in fields.per_layer(name, values, layers)]
    return None


def _indexed(fields: Fields, layers: int, family: Family) -> list[Mixer] | None:
    part = fields.part("linear_attn_config")
    attention: set[int] | None = None
    if part is not None and part.present("full_attn_layers", "kda_layers"):
        full, linear = part.counts("full_attn_layers"), part.counts("kda_layers")
        attention = {i - 1 for i in full} if full is not None else set(range(layers)) - {i - 1 for i in linear or []}
    for name in ("attn_layer_indices", "full_attn_idxs", "attention_layer_idx", "full_attention_layers"):
        indices = fields.counts(name)
        if indices is not None and attention is None:
            attention = set(indices)
    if attention is None:
        return None
    outside = sorted(i for i in attention if not 0 <= i < layers)
    if outside:
        raise fields.error(f"names attention layer {outside[0]} of only {layers} layers")
    return ["attention" if i in attention else "linear" for i in range(layers)]


def _periodic(fields: Fields, layers: int, family: Family) -> list[Mixer] | None:
    period = fields.count("attn_layer_period")
    if period is not None:
        offset = fields.count("attn_layer_offset", low=0) or 0
        return ["attention" if i % period == offset % period else "linear" for i in range(layers)]
    every = fields.count("full_attention_interval") or family.linear_every
    if every is not None:
        return ["attention" if (i + 1) % every == 0 else "linear" for i in range(layers)]
    step = (
        fields.count("mamba_step") if fields.flag("mamba_enabled", fields.present("mamba_step") is not None) else None
    )
    if step is None or step < 2:
        return None
    if layers <= step // 2:
        return ["attention" if i == layers - 1 else "linear" for i in range(layers)]
    return ["attention" if i % step == step // 2 else "linear" for i in range(layers)]


def _grouped(fields: Fields, layers: int, family: Family) -> list[Mixer] | None:
    value = fields.raw("layer_group_size")
    if isinstance(value, list):
        flags = fields.per_layer("layer_group_size", fields.counts("layer_group_size", high=1) or [], layers)
        return ["linear" if flag else "attention" for flag in flags]
    size = fields.count("layer_group_size")
    if size is None:
        return None
    tail = layers // size * size if family.name == "bailing_linear" else layers
    return ["attention" if (i + 1) % size == 0 or i >= tail else "linear" for i in range(layers)]


def _blocks(fields: Fields, layers: int, family: Family) -> list[Mixer] | None:
    blocks = fields.items("block_configs")
    if not blocks:
        return None
    return [_block(fields, block) for block in fields.per_layer("block_configs", blocks, layers)]


def _block(fields: Fields, block: Any) -> Mixer:
    attention = block.get("attention") if isinstance(block, dict) else None
    if not isinstance(attention, dict):
        raise fields.error("block_configs has a block without an attention object")
    if attention.get("no_op") or attention.get("replace_with_linear"):
        return "noop"
    if attention.get("mamba") or attention.get("is_mamba"):
        return "linear"
    return "attention"


def _gpt_neo(fields: Fields, layers: int, family: Family) -> list[Mixer] | None:
    spans = fields.items("attention_types")
    if not spans:
        return None
    mixers: list[Mixer] = []
    for span in spans:
        if not (isinstance(span, list) and len(span) == 2 and isinstance(span[0], list)):
            raise fields.error("attention_types must hold [[kinds], repeats] pairs")
        repeats = fields.checked("attention_types", span[1], 0, MAX_LAYERS)
        mixers += [_mixer(fields, "attention_types", kind) for kind in span[0]] * repeats
    return list(fields.per_layer("attention_types", mixers, layers))


def _with_cross_attention(fields: Fields, mixers: list[Mixer]) -> list[Mixer]:
    cross = fields.counts("cross_attention_layers")
    if not cross:
        return mixers
    if max(cross) >= len(mixers):
        raise fields.error(f"cross_attention_layers names layer {max(cross)} of only {len(mixers)}")
    return ["cross" if i in set(cross) else mixer for i, mixer in enumerate(mixers)]


_PERIODS = (
    "attn_layer_period", "attn_layer_offset", "full_attention_interval", "layer_group_size", "mamba_step",
    "attn_type_list", "hybrid_layer_ids", "attention_types", "full_attn_idxs", "prefix_dense_sliding_window_pattern",
)  # fmt: skip
"""Superseded by a list that names each layer."""

_READERS: tuple[Callable[[Fields, int, Family], list[Mixer] | None], ...] = (
    _blocks, _named, _lettered, _numbered, _indexed, _gpt_neo, _grouped, _periodic,
)  # fmt: skip
