"""The form of MLA that a phase runs: on heads expanded from the latent, or on the latent itself."""

from dataclasses import replace

from costmodel.attention import Attention
from costmodel.batch import Phase


def form_for(attention: Attention, phase: Phase) -> Attention:
    """Give the form that a phase runs: dense MLA prefills on expanded heads; everything else stays as it is.

    SGLang expands where no request has a cached prefix; the other cases are in docs/tuning.md.
    """
    if phase != "extend" or not attention.is_latent or attention.top_k is not None:
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
