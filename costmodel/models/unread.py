"""Fields that look as if they said something about attention but that nothing has read."""

import re

from costmodel.models.fields import Fields

_ABOUT_ATTENTION = re.compile(
    r"attn|attention|sliding|window|sparse|mamba|ssm|lightning|recurrent|chunk|lora_rank|compress|hybrid|layer_types"
    r"|kv_heads|key_value|head_dim|index_(?!er_rope)|sink(?!horn)|softcap|soft_cap|block_type|block_config|cla_|shared_layers",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"bias|dropout|norm|rope|attn_implementation|attention_probs|output_gate|output_attentions|temperature|tuning"
    r"|multiplier|value_scale|scale_attn|scaling|moe|mlp|expert|mamba_|ssm_|_ssm|linear_|conv|chunk_size$|chunk_size_feed|q_lora_rank|o_lora_rank"
    r"|final_logit|vision|audio|image|video|hidden_act|attention_type$|attn_type$|mtp_|cross_attention_hidden|add_cross"
    r"|gate|pdrop|initializer|use_flash|flash_attn|_implementation|rotary|qk_head_dim|index_share|index_init|router|quant|bidirectional"
    r"|scale_attention|query_pre_attn|decoder_sparse_step|encoder_|attn_scale$|full_attn_(alpha|beta)|logits_soft_cap|relative_attention|floor_scale|attn_res|apply_query_key|attention_softmax|masked_softmax|kv_cache|hidden_size|embedding|max_window_layers|parallel_attn|alibi|attention_mode|attn_factor|prefix_lm|attn_uses_sequence_id|clip_qkv|attn_pdrop|qk_ln|attn_impl|sequence_parallel|lm_head",
    re.IGNORECASE,
)


def unread_fields(fields: Fields) -> list[str]:
    """Name the fields that nothing has read although they seem to be about attention."""
    found: list[str] = []
    for name, value in fields.data.items():
        unset = value is None or value is False or value in ([], {}, 0, "")
        if unset or name in fields.seen or not _ABOUT_ATTENTION.search(name) or _HARMLESS.search(name):
            continue
        found.append(f"{name} is set but this tool does not know what it means for attention")
    return found
