"""SGLang's `trtllm_mha` where FlashInfer serves it without trtllm-gen: XQA decode on capability 9.0 and 12.x."""

from typing import TYPE_CHECKING

from costmodel import Attention, Batch
from executors.backends.flashinfer_modules import modules
from executors.backends.knob_values import knob_values
from executors.base import Backend, Knob, Knobs, Prepared
from executors.environment import installed_version
from hwprofiles import Profile

if TYPE_CHECKING:
    import torch

    from executors.inputs import Inputs

WORKSPACE_BYTES = 256 << 20
PAGES = (16, 32, 64, 128)


class TrtllmMha(Backend):
    """FlashInfer's `trtllm_batch_decode_with_kv_cache`, which takes XQA on these devices.

    XQA is compiled for one page size, head dim and group size at a time, at first use. On compute capability 10.x the
    same call takes trtllm-gen; no such device has run this adapter, so it is refused there.
    """

    name = "trtllm_mha"
    phases = frozenset({"decode"})
    install_hint = "pip install flashinfer-python"

    def implementation(self) -> tuple[str, str] | None:
        """Name the library and its version."""
        found = installed_version("flashinfer-python")
        return ("flashinfer_xqa", found) if found else None

    def reject(self, attention: Attention, batch: Batch, profile: Profile) -> list[str]:
        """Say all reasons why this workload cannot run."""
        reasons = super().reject(attention, batch, profile)
        capability = profile.compute_capability or ""
        if capability.startswith("10."):
            reasons.append("trtllm-gen on compute capability 10.x: no device of this kind has run this adapter")
        elif not capability.startswith(("9.", "12.")):
            reasons.append(f"XQA needs compute capability 9.0 or 12.x, {profile.name} has {capability or 'none'}")
        if attention.kv_lora_rank is not None:
            reasons.append("MLA")
        if attention.top_k is not None or attention.chunk_size is not None or attention.logit_soft_cap is not None:
            reasons.append("sparse attention, chunks or soft-cap")
        if batch.page_size not in PAGES:
            reasons.append(f"page size {batch.page_size} not among {', '.join(map(str, PAGES))}")
        if attention.head_dim % 16 or attention.head_dim > 256 or attention.value_dim != attention.head_dim:
            reasons.append(f"head dims {attention.head_dim}/{attention.value_dim}: one multiple of 16 up to 256 wanted")
        if attention.kv_dtype != attention.dtype:
            reasons.append(f"KV dtype {attention.kv_dtype} with dtype {attention.dtype}")
        return reasons

    def knobs(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Knob, ...]:
        """XQA chooses its own splits."""
        return ()

    def prepare(self, inputs: "Inputs", knobs: Knobs) -> Prepared:
        """Allocate a zeroed workspace (its head holds semaphores), compile, and bind one call per KV copy.

        Raises:
            Incompatible: The kernel is not compiled and must not be.
        """
        import time

        import torch
        from flashinfer.decode import trtllm_batch_decode_with_kv_cache

        knob_values(self.name, knobs, {})
        attention, q = inputs.attention, inputs.q
        workspace = torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=inputs.device)
        sinks = None if inputs.sinks is None else inputs.sinks.float()
        window = -1 if attention.sliding_window is None else attention.sliding_window - 1
        longest = max(inputs.batch.kv_lens)

        def run(slot: int) -> "torch.Tensor":
            return trtllm_batch_decode_with_kv_cache(
                q,
                (inputs.k_cache[slot], inputs.v_cache[slot]),
                workspace,
                inputs.page_table,
                inputs.kv_lens,
                longest,
                bmm1_scale=inputs.scale,
                bmm2_scale=1.0,
                window_left=window,
                sinks=sinks,
                kv_layout="NHD",
                out=torch.empty_like(q),
            )

        started = time.perf_counter()
        with modules(self.name):
            run(0)
        seconds = time.perf_counter() - started
        return Prepared(
            run, compile_seconds=seconds, path="XQA", workspace_bytes=WORKSPACE_BYTES, keep=(workspace, sinks)
        )
