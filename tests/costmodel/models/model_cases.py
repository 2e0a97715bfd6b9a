"""Small configurations, one per family of field names, with what a reader has to find in them."""

from typing import Any

Group = tuple[int, int, int, int, int | None]
"""Layers, query heads, KV heads, head dim, window."""

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
}


def config(model_type: str, heads: int, layers: int, hidden: int, **fields: Any) -> dict[str, Any]:
    base = {"num_attention_heads": heads, "num_hidden_layers": layers, "hidden_size": hidden, "torch_dtype": "bfloat16"}
    return {"model_type": model_type, **base, **fields}


def types(*spans: tuple[str, int]) -> list[str]:
    return [kind for kind, count in spans for _ in range(count)]


def cycle(pattern: str, layers: int, names: dict[str, str]) -> list[str]:
    return [names[pattern[i % len(pattern)]] for i in range(layers)]


SLIDING = {"s": "sliding_attention", "f": "full_attention", "l": "linear_attention", "m": "mamba", "a": "attention"}

CASES: dict[str, tuple[dict[str, Any], list[Group]]] = {
    "llama, KV heads null": (LLAMA | {"num_key_value_heads": None}, [(32, 32, 32, 128, None)]),
    "falcon-7b": (
        config("falcon", 71, 32, 4544, multi_query=True, new_decoder_architecture=False),
        [(32, 71, 1, 64, None)],
    ),
    "falcon-7b, defaults": (config("falcon", 71, 32, 4544), [(32, 71, 1, 64, None)]),
    "falcon-rw": (config("falcon", 32, 24, 2048, multi_query=False), [(24, 32, 32, 64, None)]),
    "falcon-40b": (
        config("falcon", 128, 60, 8192, multi_query=True, new_decoder_architecture=True, num_kv_heads=8),
        [(60, 128, 8, 64, None)],
    ),
    "falcon-40b, first naming": (
        {"model_type": "RefinedWeb", "hidden_size": 8192, "n_head": 128, "n_head_kv": 8, "n_layer": 60},
        [(60, 128, 8, 64, None)],
    ),
    "gpt2": (
        {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_ctx": 1024},
        [(12, 12, 12, 64, None)],
    ),
    "starcoder": (
        {"model_type": "gpt_bigcode", "n_embd": 6144, "n_head": 48, "n_layer": 40, "multi_query": True},
        [(40, 48, 1, 128, None)],
    ),
    "starcoder2": (
        config("starcoder2", 24, 30, 3072, num_key_value_heads=2, sliding_window=4096),
        [(30, 24, 2, 128, 4096)],
    ),
    "gpt_neox": (config("gpt_neox", 40, 36, 5120), [(36, 40, 40, 128, None)]),
    "gpt_neo": (
        {
            "model_type": "gpt_neo",
            "hidden_size": 768,
            "num_heads": 12,
            "num_layers": 12,
            "attention_types": [[["global", "local"], 6]],
            "window_size": 256,
        },
        [(6, 12, 12, 64, None), (6, 12, 12, 64, 256)],
    ),
    "mpt-7b": (
        {
            "model_type": "mpt",
            "d_model": 4096,
            "n_heads": 32,
            "n_layers": 32,
            "attn_config": {"attn_type": "multihead_attention", "alibi": True},
        },
        [(32, 32, 32, 128, None)],
    ),
    "mpt, multi-query": (
        {
            "model_type": "mpt",
            "d_model": 4096,
            "n_heads": 32,
            "n_layers": 32,
            "attn_config": {"attn_type": "multiquery_attention"},
        },
        [(32, 32, 1, 128, None)],
    ),
    "dbrx": (
        {"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "attn_config": {"kv_n_heads": 8}},
        [(40, 48, 8, 128, None)],
    ),
    "bloom": ({"model_type": "bloom", "n_embed": 14336, "n_head": 112, "n_layer": 70}, [(70, 112, 112, 128, None)]),
    "opt": (config("opt", 32, 24, 2048, ffn_dim=8192), [(24, 32, 32, 64, None)]),
    "chatglm3": (
        {
            "model_type": "chatglm",
            "hidden_size": 4096,
            "num_layers": 28,
            "num_attention_heads": 32,
            "kv_channels": 128,
            "multi_query_attention": True,
            "multi_query_group_num": 2,
        },
        [(28, 32, 2, 128, None)],
    ),
    "qwen-1": (config("qwen", 32, 32, 4096, kv_channels=128, seq_length=8192), [(32, 32, 32, 128, None)]),
    "phi-2": (config("phi", 32, 32, 2560), [(32, 32, 32, 80, None)]),
    "phi-3-mini": (config("phi3", 32, 32, 3072, num_key_value_heads=32, sliding_window=2047), [(32, 32, 32, 96, 2047)]),
    "mistral-7b-v0.1": (
        config("mistral", 32, 32, 4096, num_key_value_heads=8, sliding_window=4096),
        [(32, 32, 8, 128, 4096)],
    ),
    "mistral, window list": (
        config("mistral", 32, 36, 4096, num_key_value_heads=8, sliding_window=[None, 32768, 32768, 32768]),
        [(9, 32, 8, 128, None), (27, 32, 8, 128, 32768)],
    ),
    "qwen2.5, window off": (
        config("qwen2", 28, 28, 3584, num_key_value_heads=4, sliding_window=131072, use_sliding_window=False),
        [(28, 28, 4, 128, None)],
    ),
    "qwen2.5, window flag absent": (
        config("qwen2", 28, 28, 3584, num_key_value_heads=4, sliding_window=131072),
        [(28, 28, 4, 128, None)],
    ),
    "qwen2.5, window in late layers": (
        config(
            "qwen2",
            28,
            28,
            3584,
            num_key_value_heads=4,
            sliding_window=4096,
            use_sliding_window=True,
            max_window_layers=21,
        ),
        [(21, 28, 4, 128, None), (7, 28, 4, 128, 4096)],
    ),
    "gemma-2": (
        config("gemma2", 16, 42, 3584, num_key_value_heads=8, head_dim=256, sliding_window=4096),
        [(21, 16, 8, 256, 4096), (21, 16, 8, 256, None)],
    ),
    "command-r7b": (
        config("cohere2", 32, 32, 4096, num_key_value_heads=8, sliding_window=4096, sliding_window_pattern=4),
        [(24, 32, 8, 128, 4096), (8, 32, 8, 128, None)],
    ),
    "exaone-4": (
        config("exaone4", 40, 64, 5120, num_key_value_heads=8, sliding_window=4096, sliding_window_pattern="LLLG"),
        [(48, 40, 8, 128, 4096), (16, 40, 8, 128, None)],
    ),
    "olmo-3": (
        config("olmo3", 32, 32, 4096, sliding_window=4096, layer_types=cycle("sssf", 32, SLIDING)),
        [(24, 32, 32, 128, 4096), (8, 32, 32, 128, None)],
    ),
    "smollm3": (
        config(
            "smollm3", 16, 36, 2048, num_key_value_heads=4, no_rope_layers=[1, 1, 1, 0] * 9, use_sliding_window=False
        ),
        [(36, 16, 4, 128, None)],
    ),
    "gpt-oss, layer types left out": (
        config("gpt_oss", 64, 24, 2880, num_key_value_heads=8, head_dim=64, sliding_window=128),
        [(12, 64, 8, 64, 128), (12, 64, 8, 64, None)],
    ),
    "step-3.5, other heads in windows": (
        config(
            "step3p5",
            64,
            4,
            4096,
            num_attention_groups=8,
            head_dim=128,
            sliding_window=512,
            layer_types=cycle("fsss", 4, SLIDING),
            attention_other_setting={
                "attention_type": "sliding_attention",
                "num_attention_heads": 96,
                "num_attention_groups": 8,
                "head_dim": 128,
            },
        ),
        [(1, 64, 8, 128, None), (3, 96, 8, 128, 512)],
    ),
    "gemma-4, K and V apart": (
        config(
            "gemma4_text",
            8,
            6,
            2304,
            num_key_value_heads=2,
            head_dim=256,
            global_head_dim=512,
            num_global_key_value_heads=1,
            attention_k_eq_v=False,
            sliding_window=512,
            layer_types=cycle("sssssf", 6, SLIDING),
        ),
        [(5, 8, 2, 256, 512), (1, 8, 2, 512, None)],
    ),
    "nemotron-nas": (
        config(
            "nemotron-nas",
            64,
            4,
            8192,
            num_key_value_heads=None,
            block_configs=[
                {"attention": {"n_heads_in_group": 8, "no_op": False, "replace_with_linear": False}},
                {"attention": {"n_heads_in_group": None, "no_op": True, "replace_with_linear": False}},
                {"attention": {"n_heads_in_group": None, "no_op": False, "replace_with_linear": True}},
                {"attention": {"n_heads_in_group": 16, "no_op": False, "replace_with_linear": False}},
            ],
        ),
        [(1, 64, 8, 128, None), (1, 64, 4, 128, None)],
    ),
    "decilm-7b": (
        config("deci", 32, 4, 4096, num_key_value_heads_per_layer=[4, 4, 1, 2]),
        [(2, 32, 4, 128, None), (1, 32, 1, 128, None), (1, 32, 2, 128, None)],
    ),
    "plamo-1": (config("plamo", 40, 40, 5120, n_shared_head=8), [(40, 40, 5, 128, None)]),
    "qwen3-next": (
        config("qwen3_next", 16, 48, 2048, num_key_value_heads=2, head_dim=256, linear_num_value_heads=32),
        [(12, 16, 2, 256, None)],
    ),
    "minimax-text-01": (
        config(
            "minimax_text_01", 64, 80, 6144, num_key_value_heads=8, head_dim=128, attn_type_list=([0] * 7 + [1]) * 10
        ),
        [(10, 64, 8, 128, None)],
    ),
    "bamba": (
        config("bamba", 32, 32, 4096, num_key_value_heads=8, attn_layer_indices=[9, 18, 27]),
        [(3, 32, 8, 128, None)],
    ),
    "zamba2": (
        config(
            "zamba2",
            32,
            6,
            2560,
            attention_hidden_size=5120,
            num_key_value_heads=32,
            attention_head_dim=160,
            layers_block_type=["mamba", "hybrid", "mamba", "mamba", "hybrid", "mamba"],
        ),
        [(2, 32, 32, 160, None)],
    ),
    "granite-4-hybrid": (
        config("granitemoehybrid", 32, 8, 4096, num_key_value_heads=8, layer_types=cycle("mmma", 8, SLIDING)),
        [(2, 32, 8, 128, None)],
    ),
    "falcon-h1, both mixers in every layer": (
        config("falcon_h1", 12, 44, 2560, num_key_value_heads=2, head_dim=128, mamba_n_heads=24),
        [(44, 12, 2, 128, None)],
    ),
    "lfm2": (
        config("lfm2", 32, 16, 2048, num_key_value_heads=8, full_attn_idxs=[2, 5, 8, 10, 12, 14], conv_L_cache=3),
        [(6, 32, 8, 64, None)],
    ),
    "recurrentgemma": (
        config(
            "recurrent_gemma",
            10,
            26,
            2560,
            num_key_value_heads=1,
            attention_window_size=2048,
            block_types=["recurrent", "recurrent", "attention"],
        ),
        [(8, 10, 1, 256, 2048)],
    ),
    "plamo-2": (
        config(
            "plamo2", 32, 8, 4096, num_key_value_heads=4, hidden_size_per_head=128, mamba_step=2, mamba_enabled=True
        ),
        [(4, 32, 4, 128, None)],
    ),
    "ling linear": (
        config("bailing_moe_linear", 16, 20, 2048, num_key_value_heads=4, head_dim=128, layer_group_size=8),
        [(6, 16, 4, 128, None)],
    ),
    "eagle-3 head": (
        LLAMA | {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "draft_vocab_size": 32000},
        [(1, 32, 8, 128, None)],
    ),
    "qwen2-vl, flat": (
        config("qwen2_vl", 28, 28, 3584, num_key_value_heads=4, vision_config={"depth": 32, "num_heads": 16}),
        [(28, 28, 4, 128, None)],
    ),
    "qwen2.5-omni": (
        {
            "model_type": "qwen2_5_omni",
            "thinker_config": {
                "audio_config": {"encoder_attention_heads": 20},
                "text_config": config("qwen2_5_omni_text", 28, 28, 3584, num_key_value_heads=4),
            },
            "talker_config": config("qwen2_5_omni_talker", 12, 24, 896),
        },
        [(28, 28, 4, 128, None)],
    ),
    "ovis": (
        {"model_type": "ovis", "llm_config": config("qwen2", 28, 28, 3584, num_key_value_heads=4)},
        [(28, 28, 4, 128, None)],
    ),
    "deepseek-vl2-tiny, no MLA": (
        {
            "model_type": "deepseek_vl_v2",
            "language_config": config(
                "deepseek_v2",
                10,
                12,
                1280,
                num_key_value_heads=10,
                kv_lora_rank=None,
                use_mla=False,
                v_head_dim=0,
                qk_nope_head_dim=0,
            ),
            "vision_config": {"num_heads": 16},
        },
        [(12, 10, 10, 128, None)],
    ),
    "llava-1.5, fields left to the class": (
        {
            "model_type": "llava",
            "architectures": ["LlavaForConditionalGeneration"],
            "text_config": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "torch_dtype": "float16"},
            "vision_config": {"num_attention_heads": 16, "hidden_size": 1024},
        },
        [(32, 32, 32, 128, None)],
    ),
    "paligemma": (
        {
            "model_type": "paligemma",
            "text_config": {
                "model_type": "gemma",
                "hidden_size": 2048,
                "num_attention_heads": 8,
                "num_hidden_layers": 18,
                "num_key_value_heads": 1,
            },
            "vision_config": {"num_attention_heads": 16},
        },
        [(18, 8, 1, 256, None)],
    ),
}
