"""A model's config.json as SGLang's resolution reads it."""

from collections.abc import Mapping, Sequence
from typing import Any

from costmodel.layer_group import Model
from costmodel.sglang.quantization import checkpoint_method, kv_cache_is_fp8

Lists = Mapping[str, frozenset[str]]
Config = Mapping[str, Any]

TORCH_DTYPES = {"half": "float16", "float": "float32", "bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
KV_HEAD_FIELDS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")
STATE_CHUNK = 64
"""Tokens between saved states of a hybrid model unless its config says otherwise."""
STATE_CHUNK_MAMBA2 = 256


def model_facts(model: Model, lists: Lists, architectures: Mapping[str, str]) -> dict[str, Any]:
    """Say what SGLang's rules ask about a model.

    Args:
        model: `raw` holds the parsed config.json.
        lists: The named sets of the rule tables.
        architectures: Architectures that follow from `model_type` alone.

    Returns:
        Facts by name, as the rules use them.
    """
    raw = model.raw
    text = text_config(raw)
    names = raw.get("architectures") or ()
    arch = architectures.get(str(raw.get("model_type")), names[0] if names else None)
    dsa = arch in lists["DSA"] and _either(raw, text, "index_topk") is not None
    quantization = model.quantization or raw.get("quantization_config") or text.get("quantization_config") or {}
    mla = _is_mla(arch, raw, text, lists)
    return {
        "model": arch,
        "model_type": raw.get("model_type") or "",
        "mla": mla,
        "ssm": arch in lists["SSM"],
        "asymmetric_kv": not mla and _asymmetric(text),
        "sinks": _has_sinks(arch, text, lists),
        "learnable_sink": bool(_either(raw, text, "learnable_sink")),
        "encoder_decoder": arch in lists["ENCODER_DECODER"],
        "dsa": dsa,
        "dsa_shares_selection": _shares_selection(raw),
        "index_kpool": _whole(_either(raw, text, "index_kpool")) or 1,
        "qsa": text.get("indexer_n_heads") is not None and arch == "Qwen4ExpForConditionalGeneration",
        "gdn": raw.get("model_type") in lists["GDN_TYPES"] or text.get("model_type") in lists["GDN_TYPES"],
        "short_conv": raw.get("model_type") in lists["SHORT_CONV_TYPES"],
        "granite_mamba": "mamba" in _listed(raw.get("layer_types")),
        "minicpm_sparse": _minicpm(raw, "minicpm4") and raw.get("sparse_config") is not None,
        "minicpm_lightning": _minicpm(raw, "lightning-attn"),
        "sliding_window_pattern": _exaone_pattern(raw),
        "step3p": "Step3p5ForCausalLM" in (arch or "") or "Step3p7ForConditionalGeneration" in (arch or ""),
        "hrm_text": (raw.get("model_type") == "hrm_text" or arch == "HrmTextForCausalLM")
        and raw.get("prefix_lm", True),
        "fused_qkv_heads": _whole(text.get("num_key_value_heads"))
        if raw.get("attention_projection_layout") == "fused_qkv"
        else None,
        "multimodal": model.multimodal or text is not raw,
        "whole_prompt": arch in lists["WHOLE_PROMPT"],
        "total_kv_heads": _kv_heads(raw, text),
        "state_chunk": _whole(raw.get("mamba_chunk_size"))
        or _whole(raw.get("chunk_size"))
        or _default_state_chunk(arch),
        "checkpoint_quantization": checkpoint_method(quantization),
        "quantization_in_config": raw.get("quantization_config") is not None,
        "m3_nvfp4": checkpoint_method(quantization) == "mxfp8"
        and str(quantization.get("moe_quant_algo", "")).upper() == "NVFP4"
        and quantization.get("moe_quant_format") == "nvfp4-pack-quantized",
        "kv_fp8_checkpoint": kv_cache_is_fp8(quantization),
        "checkpoint_dtype": _dtype(raw, text),
    }


def text_config(raw: Config) -> Config:
    """Give the language model's part of a config, the config itself for text models."""
    thinker = raw.get("thinker_config")
    if isinstance(thinker, Mapping):
        inner = thinker.get("text_config")
        return inner if isinstance(inner, Mapping) else thinker
    for name in ("llm_config", "language_config", "text_config"):
        part = raw.get(name)
        if isinstance(part, Mapping):
            return part
    return raw


def _either(raw: Config, text: Config, name: str) -> Any:
    value = raw.get(name)
    return text.get(name) if value is None else value


def _is_mla(arch: str | None, raw: Config, text: Config, lists: Lists) -> bool:
    if arch == "PixtralForConditionalGeneration":
        return text.get("kv_lora_rank") is not None
    if arch == "DeepseekVL2ForCausalLM":
        return bool(text.get("use_mla", True))
    return arch in lists["MLA"]


def _asymmetric(text: Config) -> bool:
    heads, hidden = text.get("num_attention_heads"), text.get("hidden_size")
    head_dim = text.get("head_dim")
    if head_dim is None and isinstance(heads, int) and isinstance(hidden, int) and heads:
        head_dim = hidden // heads
    v_head_dim = text.get("v_head_dim") or head_dim
    swa_head_dim = text.get("swa_head_dim") or head_dim
    swa_v_head_dim = text.get("swa_v_head_dim") or swa_head_dim
    return bool(head_dim != v_head_dim or swa_head_dim != swa_v_head_dim)


def _has_sinks(arch: str | None, text: Config, lists: Lists) -> bool:
    if arch in lists["SINKS"]:
        return True
    if arch in lists["MIMO"]:
        return bool(text.get("add_swa_attention_sink_bias") or text.get("add_full_attention_sink_bias"))
    return bool(text.get("learnable_sink"))


def _shares_selection(raw: Config) -> bool:
    frequency, pattern = _whole(raw.get("index_topk_freq")) or 1, raw.get("index_topk_pattern")
    return (
        frequency > 1
        or (isinstance(pattern, (str, list)) and "S" in pattern)
        or "shared" in _listed(raw.get("indexer_types"))
    )


def _minicpm(raw: Config, mixer: str) -> bool:
    if raw.get("model_type") != "minicpm_sala":
        return False
    names = {
        "lightning-attn" if str(name).startswith("lightning") else "minicpm4"
        for name in _listed(raw.get("mixer_types")) or ("minicpm4",)
    }
    return mixer in names


def _exaone_pattern(raw: Config) -> Any:
    if "sliding_window_pattern" in raw and raw["sliding_window_pattern"] is None:
        return 0 if raw.get("sliding_window", 4096) is None else None
    return raw.get("sliding_window_pattern", 4)


def _kv_heads(raw: Config, text: Config) -> int | None:
    if raw.get("multi_query") and not raw.get("new_decoder_architecture"):
        return 1
    for name in (*KV_HEAD_FIELDS, "num_attention_heads"):
        heads = text.get(name)
        if heads is not None:
            return _whole(heads)
    return None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _default_state_chunk(arch: str | None) -> int:
    return STATE_CHUNK_MAMBA2 if arch in ("FalconH1ForCausalLM", "GraniteMoeHybridForCausalLM") else STATE_CHUNK


def _dtype(raw: Config, text: Config) -> str:
    named = (text.get("dtype") or text.get("torch_dtype")) or (raw.get("dtype") or raw.get("torch_dtype"))
    dtype = str(named or "float32").removeprefix("torch.")
    dtype = TORCH_DTYPES.get(dtype, dtype)
    if dtype != "float32":
        return dtype
    return "bfloat16" if str(text.get("model_type", "")).startswith("gemma") else "float16"
