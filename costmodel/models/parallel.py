"""What tensor parallelism leaves of an attention layer on one rank."""

from collections.abc import Sequence
from dataclasses import replace

from costmodel.attention import Attention
from costmodel.layer_group import LayerGroup


def per_rank(attention: Attention, tp: int, attention_dp: int = 1) -> Attention:
    """Give the attention that one rank computes.

    Query heads are divided; KV heads are divided until each rank holds one, then replicated. The latent of MLA is
    one KV head and is replicated on every rank. Pipeline parallelism divides layers, not heads.

    Args:
        attention: The attention before parallelism.
        tp: Tensor-parallel size.
        attention_dp: Data- times context-parallel size of the attention inside `tp`; heads are divided by
            `tp / attention_dp`.

    Raises:
        ValueError: Heads do not divide.
    """
    if tp < 1 or attention_dp < 1 or tp % attention_dp:
        raise ValueError(
            f"tp={tp} must be a positive multiple of attention_dp={attention_dp} (data- times context-parallel size)"
        )
    ranks = tp // attention_dp
    if ranks == 1:
        return attention
    if attention.num_qo_heads % ranks:
        raise ValueError(f"num_attention_heads={attention.num_qo_heads} is not a multiple of tp={ranks}")
    if attention.is_latent:
        return replace(attention, num_qo_heads=attention.num_qo_heads // ranks)
    kv = attention.num_kv_heads
    if kv % ranks and ranks % kv:
        raise ValueError(f"num_key_value_heads={kv} and tp={ranks} do not divide each other")
    if attention.form == "expanded":
        return replace(attention, num_qo_heads=attention.num_qo_heads // ranks, num_kv_heads=kv // ranks)
    return replace(attention, num_qo_heads=attention.num_qo_heads // ranks, num_kv_heads=max(1, kv // ranks))


def group_per_rank(group: LayerGroup, tp: int, kv_dtype: str | None = None, attention_dp: int = 1) -> LayerGroup:
    """Give a layer group as one rank holds it, with another KV dtype where one is named.

    Raises:
        ValueError: Heads do not divide, or the dtype is not one that attention knows.
    """
    attention = per_rank(group.attention, tp, attention_dp)
    if kv_dtype is not None and kv_dtype != "auto":
        attention = replace(attention, kv_dtype=kv_dtype)
    return replace(group, attention=attention)


def stage_bytes_per_token(groups: Sequence[LayerGroup], num_layers: int, stages: int) -> tuple[float, ...]:
    """KV bytes of one token that a rank of each pipeline stage holds; the last stages take the layers left over.

    Args:
        groups: Layer groups as one rank holds them.
        num_layers: Layers of the model, with those that keep no cache.
        stages: Pipeline-parallel size.

    Raises:
        ValueError: There are more stages than layers.
    """
    if not 1 <= stages <= num_layers:
        raise ValueError(f"pp={stages} must be from 1 to the model's {num_layers} layers")
    base, extra = divmod(num_layers, stages)
    held: list[float] = []
    start = 0
    for stage in range(stages):
        end = start + base + (stage >= stages - extra)
        held.append(
            sum(
                group.kv_bytes_per_token * sum(start <= i < end for i in group.layer_indices) / len(group.layer_indices)
                for group in groups
            )
        )
        start = end
    return tuple(held)


def kv_replication(attention: Attention, tp: int) -> int:
    """Ranks that hold the same KV head: `tp` for MLA, more than 1 once TP exceeds the KV heads."""
    return tp if attention.is_latent else max(1, tp // attention.num_kv_heads)
