"""FlashAttention-2 where it is installed: a comparison, not one of SGLang's backends."""

from typing import TYPE_CHECKING

from costmodel import Attention, Batch
from executors.backends.knob_values import knob_values, split_ladder, whole
from executors.base import Backend, Knob, Knobs, Prepared
from executors.environment import installed_version
from hwprofiles import Profile

if TYPE_CHECKING:
    import torch

    from executors.inputs import Inputs

PAGE = 256
"""Paged KV needs pages of a multiple of this many tokens."""


class FlashAttn2(Backend):
    """FlashAttention-2 over paged KV: `flash_attn_with_kvcache` for decode, `flash_attn_varlen_func` for extend."""

    name = "flash_attn"
    phases = frozenset({"decode", "extend"})
    install_hint = "pip install --no-build-isolation flash-attn"

    def implementation(self) -> tuple[str, str] | None:
        """Name the library and its version."""
        found = installed_version("flash-attn")
        return ("flash_attn", found) if found else None

    def reject(self, attention: Attention, batch: Batch, profile: Profile) -> list[str]:
        """Say all reasons why this workload cannot run."""
        reasons = super().reject(attention, batch, profile)
        if profile.compute_capability is not None and float(profile.compute_capability) < 8:
            reasons.append(f"needs compute capability 8.0, {profile.name} has {profile.compute_capability}")
        if batch.page_size % PAGE:
            reasons.append(f"page size {batch.page_size} is not a multiple of {PAGE}")
        if max(attention.head_dim, attention.value_dim) > 256 or attention.value_dim != attention.head_dim:
            reasons.append(f"head dims {attention.head_dim}/{attention.value_dim}: equal ones up to 256 wanted")
        if attention.kv_dtype != attention.dtype:
            reasons.append(f"KV dtype {attention.kv_dtype} with dtype {attention.dtype}")
        if attention.sinks or attention.top_k is not None or attention.chunk_size is not None:
            reasons.append("sinks, sparse or chunked attention")
        return reasons

    def knobs(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Knob, ...]:
        """Name `num_splits` for decode."""
        if batch.phase != "decode":
            return ()
        tile = 256 if attention.head_dim <= 64 else 128 if attention.head_dim <= 128 else 64
        return (Knob("num_splits", (0, *split_ladder(-(-max(batch.kv_lens) // tile)))),)

    def prepare(self, inputs: "Inputs", knobs: Knobs) -> Prepared:
        """Bind one call per KV copy."""
        from flash_attn import flash_attn_varlen_func, flash_attn_with_kvcache

        attention, batch, q = inputs.attention, inputs.batch, inputs.q
        common = {
            "softmax_scale": inputs.scale,
            "causal": attention.causal,
            "window_size": (-1, -1) if attention.sliding_window is None else (attention.sliding_window - 1, 0),
            "softcap": attention.logit_soft_cap or 0.0,
            "block_table": inputs.page_table,
        }
        if batch.phase == "decode":
            chosen = knob_values(self.name, knobs, {"num_splits": 0})
            splits = whole(self.name, "num_splits", chosen["num_splits"], 0, 128)

            def decode(slot: int) -> "torch.Tensor":
                k, v = inputs.k_cache[slot], inputs.v_cache[slot]
                out = flash_attn_with_kvcache(
                    q[:, None], k, v, cache_seqlens=inputs.kv_lens, num_splits=splits, **common
                )
                return out[:, 0]

            return Prepared(decode, path="flash_attn_with_kvcache")
        knob_values(self.name, knobs, {})
        longest = (max(batch.q_lens), max(batch.kv_lens))

        def extend(slot: int) -> "torch.Tensor":
            k, v = inputs.k_cache[slot], inputs.v_cache[slot]
            return flash_attn_varlen_func(q, k, v, inputs.cu_q, inputs.cu_kv, *longest, **common)

        return Prepared(extend, path="flash_attn_varlen_func, paged")
