"""The form of MLA that a phase runs: on heads expanded from the latent, or on the latent itself.

SGLang decides per backend and batch, in the published sglang 0.5.23 package, below srt/:
models/deepseek_common/attention_backend_handler.py:25-255 and environ.py (the threshold).
"""

from dataclasses import replace

from costmodel.attention import Attention
from costmodel.batch import Batch, Phase
from hwprofiles import Profile

ON_LATENT: tuple[Phase, ...] = ("decode", "verify")
PREFIX_THRESHOLD = 8192
"""Cached tokens of a batch from which they are expanded (SGLANG_CHUNKED_PREFIX_CACHE_THRESHOLD); below, none only."""
BY_THRESHOLD = frozenset({"fa3", "flashinfer", "flashmla", "intel_xpu"})
ALWAYS_EXPANDED = frozenset({"aiter", "ascend", "trtllm_mla"})
CAPTURED_EXPANDED = frozenset({"aiter", "ascend"})
"""Backends whose prefill stays expanded in a CUDA graph."""
ABSORBED_IF_DETERMINISTIC = frozenset({"fa3", "fa4", "triton"})
NOT_SGLANG = frozenset({"attnroof_triton"})
FA4_ON_LATENT = ("10", "11")
"""Major compute capabilities on which FA4 runs absorbed MLA."""


def form_for(attention: Attention, phase: Phase) -> Attention:
    """Give the form that a phase runs without cached tokens: dense MLA prefills expanded; all else stays as it is."""
    if phase in ON_LATENT or not attention.is_latent or attention.top_k is not None:
        return attention
    nope, rope = attention.qk_nope_head_dim or 0, attention.qk_rope_head_dim or 0
    return replace(
        attention,
        num_kv_heads=attention.num_qo_heads,
        head_dim=nope + rope,
        v_head_dim=attention.expanded_v_head_dim,
        form="expanded",
        kv_dtype=attention.dtype,
    )


def served_form(
    attention: Attention,
    batch: Batch,
    backend: str,
    *,
    profile: Profile,
    deterministic: bool = False,
    captured: bool = False,
) -> Attention:
    """Give the form of dense MLA in which SGLang runs a batch with a backend; everything else stays as it is.

    Args:
        attention: The layer, on the latent.
        batch: Its phase and cached tokens decide.
        backend: One of SGLang's names; the project's own kernels expand whatever the prefix.
        profile: The device: FA4 absorbs on some only.
        deterministic: In deterministic inference.
        captured: Prefill runs in a CUDA graph. SGLang 0.5.23 does that on NVIDIA GPUs up to 8,192 new tokens unless
            told otherwise; False is what it runs beyond, and with `--disable-prefill-cuda-graph`.
    """
    cached = batch.total_kv - batch.total_q
    if backend == "fa4" and (profile.compute_capability or "").split(".")[0] not in FA4_ON_LATENT:
        expanded = True
    elif captured and backend not in NOT_SGLANG:
        expanded = backend in CAPTURED_EXPANDED
    elif deterministic and backend in ABSORBED_IF_DETERMINISTIC:
        expanded = False
    elif backend in ALWAYS_EXPANDED or backend in NOT_SGLANG:
        expanded = True
    else:
        by_threshold = backend in BY_THRESHOLD or backend == "fa4"
        expanded = not cached or (by_threshold and cached >= PREFIX_THRESHOLD)
    return form_for(attention, batch.phase) if expanded else attention
