"""From single layers to groups of layers that share one attention shape."""

from collections.abc import Iterable
from dataclasses import dataclass

from costmodel.attention import Attention
from costmodel.layer_group import LayerGroup


@dataclass(frozen=True, slots=True)
class Layer:
    """One attention layer of a model."""

    index: int
    attention: Attention
    cross: bool = False
    owns_indexer: bool = False
    shares_kv: bool = False
    compression: int = 1
    indexer_dtype: str = "fp8_e4m3"


def group_layers(layers: Iterable[Layer]) -> tuple[LayerGroup, ...]:
    """Join layers that are alike, in the order of their first appearance."""
    alike: dict[tuple[Attention, bool, int, str], list[Layer]] = {}
    for layer in layers:
        key = (layer.attention, layer.cross, layer.compression, layer.indexer_dtype)
        alike.setdefault(key, []).append(layer)
    return tuple(
        LayerGroup(
            layers=len(members),
            attention=attention,
            layer_indices=tuple(m.index for m in members),
            cross_attention=cross,
            indexer_layers=sum(m.owns_indexer for m in members),
            kv_shared_layers=sum(m.shares_kv for m in members),
            kv_compression=compression,
            indexer_dtype=indexer_dtype,
        )
        for (attention, cross, compression, indexer_dtype), members in alike.items()
    )
