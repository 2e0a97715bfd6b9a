"""The form of MLA that a phase runs: on heads expanded from the latent, or on the latent itself."""

from dataclasses import replace

from costmodel.attention import Attention
from costmodel.batch import Phase

ON_LATENT: tuple[Phase, ...] = ("decode", "verify")


def form_for(attention: Attention, phase: Phase) -> Attention:
    """Give the form that a phase runs: dense MLA prefills on expanded heads; everything else stays as it is.

    SGLang expands where no request has a cached prefix or all together a long one; docs/tuning.md has the other cases.
    """
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
