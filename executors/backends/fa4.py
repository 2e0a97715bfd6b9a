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

HOPPER, BLACKWELL = "9.", ("10.", "11.")
TILE = 128
"""Keys in one tile up to head dim 128; pages of another size are copied row by row, not by TMA."""
_COPIED_DIMS = 16
"""Such pages need head dims of a multiple of this."""


class Fa4(Backend):
    """`flash_attn.cute`'s varlen call over paged KV; the CuTe DSL compiles it at first use.

    Its Hopper kernels never split KV: there the call has no knob, and the library's own split choice is not asked,
    since it would name counts that those kernels refuse.
    """

    name = "fa4"
    phases = frozenset({"decode", "extend", "verify", "mixed"})
    install_hint = "pip install flash-attn-4==4.0.0b36 'nvidia-cutlass-dsl[cu13]==4.6.2' quack-kernels==0.5.3"

    def implementation(self) -> tuple[str, str] | None:
        """Name the library and its version."""
        found = installed_version("flash-attn-4")
        return ("flash_attn.cute", found) if found else None

    def reject(self, attention: Attention, batch: Batch, profile: Profile) -> list[str]:
        """Say all reasons why this workload cannot run."""
        reasons = super().reject(attention, batch, profile)
        capability = profile.compute_capability or ""
        if not capability.startswith((HOPPER, *BLACKWELL)):
            reasons.append(f"paged KV needs compute capability 9, 10 or 11, {profile.name} has another")
        if attention.is_latent:
            reasons.append("absorbed MLA: kernels for compute capability 10 and 11 only, and not by this adapter")
        else:
            reasons += _head_dims(attention, batch.page_size, capability)
        if attention.kv_dtype != attention.dtype:
            reasons.append(f"KV dtype {attention.kv_dtype} with dtype {attention.dtype}: one dtype for all")
        if attention.top_k is not None or attention.chunk_size is not None or batch.topk > 1:
            reasons.append("sparse or chunked attention, or a tree mask")
        return reasons

    def knobs(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Knob, ...]:
        """Name `num_splits`, 0 the library's own choice, where the kernels can split KV."""
        if not (profile.compute_capability or "").startswith(BLACKWELL):
            return ()
        return (Knob("num_splits", (0, *split_ladder(-(-max(batch.kv_lens) // TILE)))),)

    def prepare(self, inputs: "Inputs", knobs: Knobs) -> Prepared:
        """Compile with a first call, then bind one call per KV copy."""
        from time import perf_counter

        from flash_attn.cute import flash_attn_varlen_func

        attention = inputs.attention
        chosen = knob_values(self.name, knobs, {"num_splits": 0})
        splitting = _splits_kv(inputs.device)
        splits = whole(self.name, "num_splits", chosen["num_splits"], 0, 128 if splitting else 1)
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
            "num_splits": splits if splitting else 1,
        }

        def run(slot: int) -> "torch.Tensor":
            out, _ = flash_attn_varlen_func(inputs.q, inputs.k_cache[slot], inputs.v_cache[slot], **keywords)
            return out

        start = perf_counter()
        run(0)
        path = "flash_attn.cute, paged" if splitting else "flash_attn.cute, paged, KV not split"
        return Prepared(run, compile_seconds=perf_counter() - start, path=path)


def _head_dims(attention: Attention, page_size: int, capability: str) -> list[str]:
    """Say why the kernels lack these head dims."""
    dims = (attention.head_dim, attention.value_dim)
    shown = f"head dims {dims[0]}/{dims[1]}"
    if any(d % 8 for d in dims):
        return [f"{shown}: multiples of 8 wanted"]
    if any(d % _COPIED_DIMS for d in dims) and (page_size != TILE or max(dims) > TILE):
        return [f"{shown} on pages of {page_size}: multiples of {_COPIED_DIMS} wanted"]
    if max(dims) > 256:
        return [f"{shown}: at most 256"]
    if capability.startswith(BLACKWELL) and max(dims) > 128 and dims != (192, 128):
        return [f"{shown}: at most 128, or 192/128, on paged KV of compute capability {capability}"]
    return []


def _splits_kv(device: str) -> bool:
    """Whether the kernels of this device split KV."""
    import torch

    return device.startswith("cuda") and torch.cuda.get_device_capability(device)[0] >= 10
