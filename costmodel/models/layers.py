"""Each attention layer of a model as an `Attention` before tensor parallelism."""

from dataclasses import dataclass, replace

from costmodel.attention import Attention
from costmodel.models.families import Family
from costmodel.models.fields import Fields
from costmodel.models.grouping import Layer
from costmodel.models.mixers import Mixer
from costmodel.models.shapes import layer_latent, layer_shape, num_qo_heads
from costmodel.models.sparse import Selection, is_compressed, layer_selections
from costmodel.models.windows import FULL, Reach, layer_reaches

SOFT_CAPS = (
    "attn_logit_softcapping", "attn_logit_cap", "attn_logit_soft_cap", "attn_logit_softcap",
    "attention_logit_softcapping", "max_attn_value",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dtypes:
    """Dtypes of a model's attention."""

    dtype: str
    kv_dtype: str


def attention_layers(fields: Fields, family: Family, mixers: tuple[Mixer, ...], dtypes: Dtypes) -> list[Layer]:
    """Give every layer that attends, in order.

    Raises:
        ConfigError: A field is missing or does not fit the others.
    """
    reaches = layer_reaches(fields, family, mixers)
    selections = layer_selections(fields, len(mixers))
    shared = _shares_kv(fields, mixers)
    soft_cap = _soft_cap(fields, family)
    crosses = bool(fields.flag("is_encoder_decoder"))
    layers: list[Layer] = []
    for i, mixer in enumerate(mixers):
        if mixer in ("linear", "noop", "feed_forward"):
            continue
        reach, selection = _reconcile(reaches[i], selections[i])
        try:
            attention = _attention(fields, i, reach, selection)
            attention = replace(
                attention,
                dtype=dtypes.dtype,
                kv_dtype=dtypes.kv_dtype,
                sinks=_sinks(fields, family, reach),
                logit_soft_cap=soft_cap,
            )
        except ValueError as error:
            raise fields.error(f"layer {i}: {error}") from None
        layer = Layer(
            i,
            attention,
            cross=mixer == "cross",
            owns_indexer=selection is not None and selection.indexer_head_dim is not None and selection.owns_indexer,
            shares_kv=shared[i],
            compression=selection.compression if selection else 1,
            indexer_dtype="fp8_e4m3" if attention.kv_lora_rank else dtypes.dtype,
        )
        layers += [layer, replace(layer, cross=crosses)] if crosses or family.two_attentions else [layer]
    return layers


def _attention(fields: Fields, layer: int, reach: Reach, selection: Selection | None) -> Attention:
    latent = layer_latent(fields, reach)
    if latent is not None:
        attention = Attention.mla(
            num_qo_heads(fields, layer),
            kv_lora_rank=latent.kv_lora_rank,
            qk_rope_head_dim=latent.rope_dim,
            qk_nope_head_dim=latent.nope_dim,
            v_head_dim=latent.v_head_dim,
        )
    elif is_compressed(fields):
        attention = _shared_key_value(fields, layer, reach)
    else:
        shape = layer_shape(fields, layer, reach)
        attention = Attention(shape.qo_heads, shape.kv_heads, shape.head_dim, shape.v_head_dim)
    attention = replace(attention, sliding_window=reach.window, chunk_size=reach.chunk)
    if selection is None:
        return attention
    return replace(
        attention,
        top_k=selection.top_k,
        block=selection.block,
        indexer_heads=selection.indexer_heads,
        indexer_head_dim=selection.indexer_head_dim,
    )


def _shared_key_value(fields: Fields, layer: int, reach: Reach) -> Attention:
    """DeepSeek-V4: one stored vector a token is key and value of all heads; its last part carries the rotation."""
    shape = layer_shape(fields, layer, reach)
    rope = fields.require("qk_rope_head_dim", low=0, high=shape.head_dim)
    if shape.kv_heads != 1:
        raise fields.error(f"num_key_value_heads={shape.kv_heads} must be 1 where compress_ratios is set")
    latent = Attention.mla(
        shape.qo_heads,
        kv_lora_rank=max(1, shape.head_dim - rope),
        qk_rope_head_dim=min(rope, shape.head_dim - 1),
        qk_nope_head_dim=shape.head_dim - rope,
        v_head_dim=shape.head_dim,
    )
    return replace(latent, v_head_dim=shape.head_dim)


def _reconcile(reach: Reach, selection: Selection | None) -> tuple[Reach, Selection | None]:
    if selection is None or reach.window is None:
        return reach, selection
    return (FULL, selection) if selection.compression > 1 else (reach, None)


def _sinks(fields: Fields, family: Family, reach: Reach) -> bool:
    windowed = fields.flag("add_swa_attention_sink_bias", False)
    full = fields.flag("add_full_attention_sink_bias", False)
    every = fields.flag("learnable_sink", False) or fields.flag("use_attention_sinks", False)
    return bool(family.sinks or every or (windowed if reach.window is not None else full))


def _soft_cap(fields: Fields, family: Family) -> float | None:
    value = fields.number(*SOFT_CAPS)
    if value is None and family.soft_cap is not None and not any(name in fields.data for name in SOFT_CAPS):
        fields.assumed[SOFT_CAPS[0]] = family.soft_cap
        return family.soft_cap
    return value


def _shares_kv(fields: Fields, mixers: tuple[Mixer, ...]) -> list[bool]:
    layers = len(mixers)
    last = fields.count("num_kv_shared_layers", low=0, high=max(0, layers - 1)) or 0
    factor = fields.count("cla_share_factor") if fields.flag("use_cla") else None
    fields.seen.add("cla_share_factor")
    return [i >= layers - last or (factor is not None and i % factor != 0) for i in range(layers)]
