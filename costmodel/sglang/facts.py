"""What the rules see: the launch line's options, the device and the model, and what follows from them."""

from collections.abc import Callable, Mapping
from typing import Any

from costmodel.layer_group import Model
from costmodel.sglang.checkpoint import model_facts
from costmodel.sglang.device import device_facts
from costmodel.sglang.quantization import conflicts, effective_method, is_known
from costmodel.sglang.tables import Tables
from hwprofiles import Profile

OPTIONS: dict[str, tuple[str, Any]] = {
    "base": ("attention_backend", None),
    "prefill": ("prefill_attention_backend", None),
    "decode": ("decode_attention_backend", None),
    "draft": ("speculative_draft_attention_backend", None),
    "page": ("page_size", None),
    "kv": ("kv_cache_dtype", "auto"),
    "deterministic": ("enable_deterministic_inference", False),
    "speculative": ("speculative_algorithm", None),
    "steps": ("speculative_num_steps", None),
    "topk": ("speculative_eagle_topk", None),
    "draft_tokens": ("speculative_num_draft_tokens", None),
    "draft_path": ("speculative_draft_model_path", None),
    "verify_mode": ("speculative_attention_mode", "prefill"),
    "ngram_breadth": ("speculative_ngram_max_bfs_breadth", 10),
    "radix_off": ("disable_radix_cache", False),
    "overlap_off": ("disable_overlap_schedule", False),
    "strategy": ("mamba_radix_cache_strategy", "auto"),
    "track_interval": ("mamba_track_interval", 256),
    "linear_backend": ("linear_attn_backend", "triton"),
    "linear_decode": ("linear_attn_decode_backend", None),
    "state_dtype": ("mamba_ssm_dtype", None),
    "tp": ("tp_size", 1),
    "pp": ("pp_size", 1),
    "nodes": ("nnodes", 1),
    "two_batches": ("enable_two_batch_overlap", False),
    "all_to_all": ("moe_a2a_backend", "none"),
    "host_cache": ("enable_hierarchical_cache", False),
    "disaggregation": ("disaggregation_mode", "null"),
    "dp": ("dp_size", 1),
    "attention_dp_flag": ("attn_dp_size", 1),
    "attention_cp": ("attn_cp_size", 1),
    "dp_attention_flag": ("enable_dp_attention", False),
    "custom_all_reduce_off": ("disable_custom_all_reduce", False),
    "prefill_dequant": ("prefill_kv_cache_dequant_dtype", "auto"),
    "dsa_prefill": ("dsa_prefill_backend", None),
    "dsa_decode": ("dsa_decode_backend", None),
    "dsv4_flag": ("dsv4_attn_backend", "auto"),
    "dtype_flag": ("dtype", "auto"),
    "quantization_flag": ("quantization", None),
    "chunked_prefill": ("chunked_prefill_size", None),
}
"""Fact to the launch option it holds (as the parser names it) and its default."""


class Facts(dict[str, Any]):
    """Facts by name; those in `_DERIVED` are computed from the others whenever a rule asks."""

    def __missing__(self, name: str) -> Any:
        """Compute a derived fact.

        Raises:
            NameError: No such fact.
        """
        try:
            return _DERIVED[name](self)
        except KeyError:
            raise NameError(f"no fact named {name!r}") from None


def gather_facts(model: Model, profile: Profile, options: Mapping[str, Any], tables: Tables) -> Facts:
    """Collect what the rules of a version ask about a launch."""
    facts = Facts(tables.lists)
    facts["sglang"] = tables.sglang
    facts |= {name: options.get(option, default) for name, (option, default) in OPTIONS.items()}
    facts |= device_facts(profile)
    facts |= model_facts(model, tables.lists, tables.architectures)
    facts["mamba"] = False
    facts["dtype"] = None
    facts["aiter_enabled"] = False  # SGLANG_USE_AITER, which the launch line does not carry
    facts["speculative_as_written"] = facts["speculative"]
    if facts["speculative"] is not None:
        facts["speculative"] = str(facts["speculative"]).upper()
    flag, checkpoint = facts["quantization_flag"], facts["checkpoint_quantization"]
    facts["quantization"] = effective_method(checkpoint, flag, facts["sm"])
    facts["quantization_known"] = is_known(facts["quantization"], facts)
    facts["quantization_conflict"] = conflicts(checkpoint, flag)
    if facts["chunked_prefill"] is None:
        facts["chunked_prefill"] = -1 if facts["whole_prompt"] else facts["chunked_prefill_default"]
    return facts


def _phases(facts: Facts) -> tuple[str | None, str | None]:
    return facts["prefill"] or facts["base"], facts["decode"] or facts["base"]


def _any_phase_outside(facts: Facts) -> Callable[..., bool]:
    return lambda *names: any(backend not in names for backend in _phases(facts))


def _any_other_than(facts: Facts) -> Callable[..., bool]:
    return lambda name: any(facts[flag] not in (None, name) for flag in ("base", "prefill", "decode"))


def _chain(facts: Facts) -> bool:
    """Without drafts, or with a draft chain over single-token pages."""
    return facts["topk"] is None or (facts["topk"] == 1 and facts["page"] in (1, None))


def _sm100_draft_ok(facts: Facts) -> bool:
    return facts["speculative"] is None or facts["topk"] is not None or facts["speculative"] == "DFLASH"


def _keeps_extra_buffer(facts: Facts) -> bool:
    return not facts["radix_off"] and facts["strategy"] in ("extra_buffer", "extra_buffer_lazy")


def _sm100_pages(facts: Facts) -> bool:
    """Whether a hybrid Qwen's state allows trtllm_mha, which needs pages, on SM100."""
    default = not facts["mla"] and _chain(facts) and _sm100_draft_ok(facts) and not facts["asymmetric_kv"]
    return default and (_keeps_extra_buffer(facts) or facts["radix_off"] or facts["speculative"] is not None)


def _extra_buffer_supported(facts: Facts) -> bool:
    return not facts["xpu"] and facts["model"] in facts["EXTRA_BUFFER"] and facts["linear_backend"] == "triton"


def _state_chunk_mismatch(facts: Facts) -> bool:
    chunk, page = facts["state_chunk"], facts["page"] or 1
    return bool(max(chunk, page) % min(chunk, page))


def _attention_dp_size(facts: Facts) -> int:
    if facts["attention_dp_flag"] > 1:
        return int(facts["attention_dp_flag"])
    return int(facts["dp"]) if facts["dp_attention_flag"] else 1


def _kv_heads_per_rank(facts: Facts) -> int | None:
    total = facts["total_kv_heads"]
    return None if total is None else max(1, total // max(1, facts["tp"]))


def _large_hopper_vl(facts: Facts) -> bool:
    multimodal = facts["multimodal"] and facts["model_type"] in ("qwen3_vl", "qwen3_vl_moe")
    return multimodal and facts["sm90"] and facts["memory_mib"] >= 60 * 1024


def _nvfp4_sm100(facts: Facts) -> bool:
    return facts["kv"] == "nvfp4" and facts["sm100"] and "trtllm_mha" in _phases(facts)


_DERIVED: dict[str, Callable[[Facts], Any]] = {
    "P": lambda f: _phases(f)[0],
    "D": lambda f: _phases(f)[1],
    "unset": lambda f: f["base"] is None and f["prefill"] is None and f["decode"] is None,
    "any_phase_outside": _any_phase_outside,
    "any_other_than": _any_other_than,
    "chain": _chain,
    "sm100_draft_ok": _sm100_draft_ok,
    "sm100_pages": _sm100_pages,
    "extra_buffer_supported": _extra_buffer_supported,
    "state_chunk_mismatch": _state_chunk_mismatch,
    "attention_dp_size": _attention_dp_size,
    "attention_dp": lambda f: _attention_dp_size(f) > 1,
    "attention_tp": lambda f: max(1, f["tp"] // max(1, _attention_dp_size(f)) // max(1, f["attention_cp"])),
    "kv_heads": _kv_heads_per_rank,
    "large_hopper_vl": _large_hopper_vl,
    "nvfp4_sm100": _nvfp4_sm100,
    "draft_decode": lambda f: f["draft"] or _phases(f)[1],
    "draft_extend": lambda f: f["draft"] or _phases(f)[f["verify_mode"] == "decode"],
    "draft_mla": lambda f: f["mla"] and (f["draft_path"] is not None or f["model"] in f["OWN_DRAFT"]),
}
