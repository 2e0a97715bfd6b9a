"""FlashMLA: dense decode and chain verification over the MLA latent, pages of 64 tokens."""

from typing import TYPE_CHECKING

from costmodel import Attention, Batch
from executors.backends.knob_values import knob_values
from executors.base import Backend, Knob, Knobs, Prepared
from executors.environment import installed_version
from hwprofiles import Profile

if TYPE_CHECKING:
    import torch

    from executors.inputs import Inputs

PAGE = 64


class FlashMla(Backend):
    """DeepSeek's FlashMLA on Hopper, dense bf16.

    The tile schedule is made on the device by the first call of a step and reused by all layers, so there is no host
    plan to time apart.
    """

    name = "flashmla"
    phases = frozenset({"decode", "verify"})
    dtypes = frozenset({"bf16"})
    kv_dtypes = frozenset({"bf16"})
    install_hint = "pip install tokenspeed-flashmla"

    def implementation(self) -> tuple[str, str] | None:
        """Name the library and its version."""
        for package in ("tokenspeed-flashmla", "flash-mla"):
            if found := installed_version(package):
                return "flash_mla", found
        return None

    def reject(self, attention: Attention, batch: Batch, profile: Profile) -> list[str]:
        """Say all reasons why this workload cannot run."""
        reasons = super().reject(attention, batch, profile)
        if profile.compute_capability not in (None, "9.0"):
            reasons.append(f"dense decode needs compute capability 9.0, {profile.name} has another")
        if not attention.is_latent or (attention.head_dim, attention.value_dim) != (576, 512):
            reasons.append("only absorbed MLA with dims 576/512")
        if attention.top_k is not None:
            reasons.append("sparse attention needs the fp8 cache of 656 bytes a token")
        if attention.sliding_window is not None or attention.logit_soft_cap is not None or attention.sinks:
            reasons.append("windows, soft-cap or sinks")
        if batch.page_size != PAGE:
            reasons.append(f"page size {batch.page_size}: the kernel reads pages of {PAGE}")
        if batch.topk > 1:
            reasons.append("tree mask")
        if len(set(batch.q_lens)) > 1:
            reasons.append("requests with different numbers of query tokens")
        return reasons

    def knobs(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Knob, ...]:
        """FlashMLA has no knobs."""
        return ()

    def prepare(self, inputs: "Inputs", knobs: Knobs) -> Prepared:
        """Make the tile schedule with a first call, then bind one call per KV copy."""
        from flash_mla import flash_mla_with_kvcache, get_mla_metadata

        knob_values(self.name, knobs, {})
        attention, batch = inputs.attention, inputs.batch
        q_len = batch.q_lens[0]
        q = inputs.q.view(batch.size, q_len, attention.num_qo_heads, attention.head_dim)
        schedule, _ = get_mla_metadata()

        def run(slot: int) -> "torch.Tensor":
            out, _ = flash_mla_with_kvcache(
                q,
                inputs.k_cache[slot],
                inputs.page_table,
                inputs.kv_lens,
                attention.value_dim,
                schedule,
                softmax_scale=inputs.scale,
                causal=q_len > 1,
            )
            return out.view(batch.total_q, attention.num_qo_heads, attention.value_dim)

        run(0)
        return Prepared(run, path="dense decode", keep=(schedule,))
