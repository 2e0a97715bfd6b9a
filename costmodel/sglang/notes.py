"""What a user should know beside the backends: other kinds of attention, and options that no rule here reads."""

from collections.abc import Mapping
from typing import Any

from costmodel.sglang.facts import Facts

UNREAD_THAT_MATTER = (
    "enable_hierarchical_cache",
    "enable_hisparse",
    "dllm_algorithm",
    "enable_unified_memory",
    "enable_page_major_kv_layout",
    "enable_mis",
    "dcp_size",
    "enable_prefill_cp",
    "json_model_override_args",
    "config",
    "device",
)
"""Options that can change attention settings and that the rules here do not cover."""


def notes_on(facts: Facts, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Collect remarks for one launch."""
    notes = []
    if _has_linear_layers(facts):
        notes.append(
            "linear-attention and Mamba layers have flags of their own: --linear-attn-backend (and -prefill-, "
            "-decode-, -verify-), --mamba-backend; the backends here are for the attention layers"
        )
    if facts["multimodal"]:
        notes.append("the vision or audio encoder has a flag of its own: --mm-attention-backend")
    if facts["dsa"]:
        notes.append("sparse attention picks its kernels by --dsa-prefill-backend and --dsa-decode-backend")
    unread = [name for name in UNREAD_THAT_MATTER if options.get(name)]
    if unread:
        names = ", ".join("--" + name.replace("_", "-") for name in unread)
        notes.append(f"{names} can change attention settings and is not covered by these rules")
    return tuple(notes)


def _has_linear_layers(facts: Facts) -> bool:
    return bool(
        facts["gdn"]
        or facts["short_conv"]
        or facts["model"] in facts["MAMBA_RADIX"]
        or (facts["model"] == "GraniteMoeHybridForCausalLM" and facts["granite_mamba"])
        or facts["minicpm_lightning"]
    )
