"""The plainest model with a given attention: for asking SGLang's rules where no model is known."""

from functools import lru_cache
from typing import Any

from costmodel import Attention, Model
from costmodel.models import read_model

TORCH_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""Attention's dtypes in PyTorch's spelling, which configs and launch lines have."""


@lru_cache(maxsize=256)
def plain_model(attention: Attention) -> Model:
    """Make a model of one layer: DeepSeek's form for latent keys, gpt-oss's for sinks, Llama's for the rest."""
    heads = attention.num_qo_heads
    raw: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 4096,
        "vocab_size": 32000,
        "num_hidden_layers": 1,
        "num_attention_heads": heads,
        "num_key_value_heads": attention.num_kv_heads,
        "head_dim": attention.head_dim,
        "torch_dtype": TORCH_DTYPES.get(attention.dtype, "bfloat16"),
    }
    if attention.is_latent:
        latent = {"kv_lora_rank": attention.value_dim, "qk_rope_head_dim": attention.head_dim - attention.value_dim}
        names = {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "q_lora_rank": 1536}
        raw |= names | latent | {"num_key_value_heads": heads, "qk_nope_head_dim": 128, "v_head_dim": 128}
        del raw["head_dim"]
    elif attention.sinks:
        window = {"sliding_window": attention.sliding_window or 128, "layer_types": ["full_attention"]}
        raw |= {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss"} | window
    return read_model(raw, name="plain")
