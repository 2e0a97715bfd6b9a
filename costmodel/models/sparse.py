"""Sparse attention: what each layer selects, and which layers own an indexer."""

from dataclasses import dataclass

from costmodel.models.fields import Fields

_SHARING = ("indexer_types", "cli_factor", "index_topk_pattern", "index_topk_freq", "index_skip_topk_offset")


@dataclass(frozen=True, slots=True)
class Selection:
    """What a sparse layer attends to."""

    top_k: int
    block: int = 1
    """Tokens in one selected block."""
    indexer_heads: int | None = None
    indexer_head_dim: int | None = None
    owns_indexer: bool = True
    compression: int = 1
    """Tokens that one cache entry stands for."""


def layer_selections(fields: Fields, layers: int) -> tuple[Selection | None, ...]:
    """Give each layer's selection; None for layers that see everything.

    Raises:
        ConfigError: A field of the indexer is missing or out of range.
    """
    if is_compressed(fields):
        return _compressed(fields, layers)
    if fields.present("indexer_budget"):
        return _budgeted(fields, layers)
    if fields.present("index_topk"):
        return _indexed(fields, layers)
    return _blocked(fields, layers)


def is_compressed(fields: Fields) -> bool:
    """Whether layers keep one cache entry for several tokens, as in DeepSeek-V4."""
    return fields.present("compress_ratios", "compress_rates") is not None


def _ratios(fields: Fields, layers: int) -> list[int]:
    rates = fields.part("compress_rates")
    if rates is None:
        ratios = fields.counts("compress_ratios", high=1 << 20) or []
        return [int(ratio) for ratio in fields.per_layer("compress_ratios", ratios, layers)]
    kinds = fields.per_layer("layer_types", fields.items("layer_types") or [], layers)
    return [rates.count(kind) or 0 if isinstance(kind, str) else 0 for kind in kinds]


def _budgeted(fields: Fields, layers: int) -> tuple[Selection | None, ...]:
    """Qwen sparse attention: indexed layers select groups of tokens up to a budget."""
    ratio = fields.count("indexer_compress_ratio") or 1
    blocks = max(1, fields.require("indexer_budget") // ratio)
    selection = Selection(blocks, ratio, fields.count("indexer_n_heads"), fields.count("indexer_head_dim"))
    kinds = fields.items("layer_types")
    if kinds is None:
        return (selection,) * layers
    sparse = ("indexed_attention", "qwen_sparse_attention")
    return tuple(selection if kind in sparse else None for kind in fields.per_layer("layer_types", kinds, layers))


def _indexed(fields: Fields, layers: int) -> tuple[Selection | None, ...]:
    heads, dim = fields.count("index_n_heads"), fields.count("index_head_dim")
    top_k = fields.require("index_topk")
    shared = _shared_indexers(fields, layers)
    return tuple(Selection(top_k, 1, heads, dim, owns_indexer=not shared[i]) for i in range(layers))


def _shared_indexers(fields: Fields, layers: int) -> list[bool]:
    fields.seen.update(_SHARING)
    types = fields.items("indexer_types")
    if types:
        return [kind == "shared" for kind in fields.per_layer("indexer_types", types, layers)]
    factor = fields.count("cli_factor") or 1
    if factor > 1:
        return [i % factor != 0 for i in range(layers)]
    pattern = fields.text("index_topk_pattern")
    if pattern:
        return [i < len(pattern) and pattern[i] == "S" for i in range(layers)]
    every = fields.count("index_topk_freq") or 1
    first = (fields.count("index_skip_topk_offset") or 2) - 1
    return [max(i - first, 0) % every != 0 for i in range(layers)]


def _compressed(fields: Fields, layers: int) -> tuple[Selection | None, ...]:
    """DeepSeek-V4: ratio 0 is a window alone, 4 selects among compressed entries, larger ratios read them all."""
    ratios = _ratios(fields, layers)
    heads, dim = fields.count("index_n_heads"), fields.count("index_head_dim")
    top_k, longest = fields.require("index_topk"), fields.count("max_position_embeddings") or 1 << 20
    smallest = min((r for r in ratios if r > 0), default=0)
    chosen: list[Selection | None] = []
    for ratio in ratios:
        if ratio == 0:
            chosen.append(None)
        elif ratio == smallest:
            chosen.append(Selection(top_k, 1, heads, dim, compression=ratio))
        else:
            chosen.append(Selection(max(1, longest // ratio), owns_indexer=False, compression=ratio))
    return tuple(chosen)


def _blocked(fields: Fields, layers: int) -> tuple[Selection | None, ...]:
    part = fields.part("sparse_attention_config")
    if part is not None and part.flag("use_sparse_attention", True) and part.present("sparse_topk_blocks"):
        selection = Selection(
            part.require("sparse_topk_blocks"),
            part.count("sparse_block_size") or 1,
            part.count("sparse_num_index_heads"),
            part.count("sparse_index_dim"),
        )
        flags = part.counts("sparse_attention_freq", high=1)
        on = [1] * layers if flags is None else part.per_layer("sparse_attention_freq", flags, layers)
        return tuple(selection if flag else None for flag in on)
    if fields.present("index_topk_blocks"):
        heads, dim = fields.count("index_n_heads"), fields.count("index_head_dim")
        selection = Selection(fields.require("index_topk_blocks"), fields.count("index_block_size") or 1, heads, dim)
        fields.seen.add("index_local_blocks")
        kinds = fields.items("layer_types") or []
        return tuple(selection if "minimax_m3_sparse" in kinds[i : i + 1] else None for i in range(layers))
    part = fields.part("sparse_config")
    if part is not None and part.present("topk"):
        block = part.count("block_size") or 1
        return (Selection(part.require("topk"), block, owns_indexer=False),) * layers
    return (None,) * layers
