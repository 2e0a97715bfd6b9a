"""FlashAttention-4 (CuTe DSL), where flash-attn-4 is installed."""

from typing import TYPE_CHECKING

from costmodel import Attention, Batch
from executors.backends.knob_values import knob_values, split_ladder, whole
from executors.base import Backend, Knob, Knobs, Prepared
from executors.environment import installed_version
from hwprofiles import Profile

if TYPE_CHECKING:
    import torch

    from executors.inputs import Inputs

CAPABILITIES = ("9.", "10.", "11.")
TILE = 128


class Fa4(Backend):
    """`flash_attn.cute`'s varlen call over paged KV; the CuTe DSL compiles it at first use."""

    name = "fa4"
    phases = frozenset({"decode", "extend", "verify", "mixed"})
    install_hint = "pip install flash-attn-4==4.0.0b36"

    def implementation(self) -> tuple[str, str] | None:
        """Name the library and its version."""
        found = installed_version("flash-attn-4")
        return ("flash_attn.cute", found) if found else None

    def reject(self, attention: Attention, batch: Batch, profile: Profile) -> list[str]:
        """Say all reasons why this workload cannot run."""
        reasons = super().reject(attention, batch, profile)
        if not (profile.compute_capability or "").startswith(CAPABILITIES):
            reasons.append(f"paged KV needs compute capability 9, 10 or 11, {profile.name} has another")
        if attention.is_latent:
            reasons.append("absorbed MLA: this adapter does not pass the separate value query")
        if attention.head_dim > 256 or attention.kv_dtype != attention.dtype:
            reasons.append(f"head dim {attention.head_dim} or KV dtype {attention.kv_dtype}")
        if attention.top_k is not None or attention.chunk_size is not None or batch.topk > 1:
            reasons.append("sparse or chunked attention, or a tree mask")
        return reasons

    def knobs(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Knob, ...]:
        """Name `num_splits`, 0 the library's own choice."""
        return (Knob("num_splits", (0, *split_ladder(-(-max(batch.kv_lens) // TILE)))),)

    def prepare(self, inputs: "Inputs", knobs: Knobs) -> Prepared:
        """Compile with a first call, then bind one call per KV copy."""
        from time import perf_counter

        from flash_attn.cute import flash_attn_varlen_func

        attention = inputs.attention
        chosen = knob_values(self.name, knobs, {"num_splits": 0})
        keywords = {
            "cu_seqlens_q": inputs.cu_q,
            "seqused_k": inputs.kv_lens,
            "max_seqlen_q": max(inputs.batch.q_lens),
            "max_seqlen_k": max(inputs.batch.kv_lens),
            "page_table": inputs.page_table,
            "softmax_scale": inputs.scale,
            "causal": attention.causal,
            "window_size": (None, None) if attention.sliding_window is None else (attention.sliding_window - 1, 0),
            "learnable_sink": inputs.sinks,
            "softcap": attention.logit_soft_cap or 0.0,
            "num_splits": whole(self.name, "num_splits", chosen["num_splits"], 0, 128),
        }

        def run(slot: int) -> "torch.Tensor":
            out, *_ = flash_attn_varlen_func(inputs.q, inputs.k_cache[slot], inputs.v_cache[slot], **keywords)
            return out

        start = perf_counter()
        run(0)
        return Prepared(run, compile_seconds=perf_counter() - start, path="flash_attn.cute, paged")
