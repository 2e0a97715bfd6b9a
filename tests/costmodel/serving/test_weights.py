"""Weights counted from config.json against the published parameter counts."""

import pytest
from serving_cases import MODELS, made, model

from costmodel import ConfigError
from costmodel.models import read_model
from costmodel.serving import rank_weights, read_architecture


@pytest.mark.parametrize(
    ("name", "billions", "digits"),
    [
        ("Llama-3.1-8B", 8.03, 2),
        ("Llama-3.1-70B-Instruct-FP8", 70.6, 1),
        ("Mixtral-8x7B-v0.1", 46.7, 1),
        ("Qwen3-0.6B", 0.60, 2),
        ("Qwen3-8B", 8.2, 1),
        ("DeepSeek-V3", 671, 0),
        ("gpt-oss-120b", 116.8, 1),
        ("gpt-oss-20b", 20.9, 1),
        ("Llama-4-Scout-17B-16E-Instruct", 107.8, 1),
        ("DeepSeek-V4-Flash", 284, 0),
        ("Nemotron-H-56B-Base-8K", 56.3, 1),
        ("Llama-3_3-Nemotron-Super-49B-v1", 49.9, 1),
    ],
)
def test_parameters_are_those_that_were_published(name, billions, digits):
    assert round(rank_weights(model(name)).parameters / 1e9, digits) == billions


@pytest.mark.parametrize("name", sorted(path.name for path in MODELS.iterdir() if path.is_dir()))
def test_every_example_is_counted(name):
    w = rank_weights(model(name))
    assert w.bytes > 0
    assert w.architecture.sublayers >= w.architecture.layers / 2


def test_parameters_of_a_small_model_by_hand():
    w = rank_weights(made())
    attention = 1024 * (8 + 2 + 2) * 128 + 8 * 128 * 1024
    mlp = 3 * 1024 * 4096
    assert w.parameters == 2 * (attention + mlp) + 2 * 1000 * 1024
    assert w.bytes == 2 * w.parameters


def test_tied_embeddings_are_held_once():
    tied, free = rank_weights(made(tie_word_embeddings=True)), rank_weights(made())
    assert free.parameters - tied.parameters == 1000 * 1024


@pytest.mark.parametrize(("name", "tp"), [("Llama-3.1-8B", 8), ("Mixtral-8x7B-v0.1", 4), ("DeepSeek-V3", 8)])
def test_ranks_share_what_can_be_split(name, tp):
    whole, rank = rank_weights(model(name)), rank_weights(model(name), tp=tp)
    assert whole.parameters / tp <= rank.parameters
    split = {p.name: p.parameters for p in rank.products if p.name in ("o", "gate_up", "down", "shared_down")}
    for product in whole.products:
        if product.name in split and [p.name for p in whole.products].count(product.name) == 1:
            assert split[product.name] * tp == product.parameters


def test_experts_are_dealt_out_or_split():
    split, dealt = rank_weights(model("Mixtral-8x7B-v0.1"), tp=4), rank_weights(model("Mixtral-8x7B-v0.1"), tp=4, ep=4)
    assert (split.experts.local, split.experts.intermediate_size) == (8, 14336 // 4)
    assert (dealt.experts.local, dealt.experts.intermediate_size) == (2, 14336)
    assert split.experts.parameters == dealt.experts.parameters


@pytest.mark.parametrize(("ep", "why"), [(3, "must divide tp"), (4, "no experts")])
def test_expert_parallelism_that_cannot_be(ep, why):
    with pytest.raises(ValueError, match=why):
        rank_weights(model("Llama-3.1-8B"), tp=4, ep=ep)


def test_quantised_weights_are_smaller_and_the_head_is_not():
    fp8 = rank_weights(model("Llama-3.1-70B-Instruct-FP8"))
    assert fp8.formats.dense.name == "fp8"
    assert fp8.formats.head.name == "bf16"
    assert 1.0 < fp8.bytes / fp8.parameters < 1.1
    experts = rank_weights(model("gpt-oss-20b")).formats.experts
    assert (experts.name, experts.bytes) == ("mxfp4", 4 / 8 + 1 / 32)


@pytest.mark.parametrize("field", ["hidden_size", "intermediate_size", "vocab_size"])
def test_a_missing_size_is_named(field):
    with pytest.raises(ConfigError, match=f"made: config.json has no .*{field}"):
        read_architecture(made(**{field: None}))


@pytest.mark.parametrize("value", [-4, 0, 1.5, True, "4096", 10**400])
def test_a_size_that_none_can_have_is_shown(value):
    with pytest.raises(ConfigError, match=r"made: config.json's intermediate_size=.* must be a whole number from 1"):
        read_architecture(made(intermediate_size=value))


def test_layers_without_a_stated_size_are_named():
    hybrid = made(layer_types=["linear_attention", "full_attention"])
    with pytest.raises(ConfigError, match=r"1 layers have no KV cache, and config\.json has no size"):
        read_architecture(hybrid)


def test_a_searched_block_without_a_width_is_named():
    blocks = [{"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 4.0}}, {"attention": {}, "ffn": {}}]
    with pytest.raises(ConfigError, match="block_configs has an ffn without ffn_mult"):
        read_architecture(made(block_configs=blocks, num_key_value_heads=None))


def test_an_unknown_quantisation_is_said():
    with pytest.raises(ConfigError, match="quantised by 'secret'"):
        rank_weights(made(quantization_config={"quant_method": "secret"}))


def test_a_mamba_layer_by_hand():
    a = read_architecture(model("Nemotron-H-56B-Base-8K"))
    width, state, groups = 256 * 64, 256, 8
    assert {p.name: (p.n, p.k) for p in a.linear.projections} == {
        "linear_in": (2 * width + 2 * groups * state + 256, 8192),
        "linear_out": (8192, width),
    }
    assert a.linear.state_bytes == width * state * 4 + 3 * (width + 2 * groups * state) * 2
    assert (a.linear.layers, a.dense_layers, a.sublayers) == (54, 54, 118)


def test_routed_experts_work_on_their_latent():
    w = rank_weights(model("Kimi-K3"))
    assert (w.experts.hidden_size, w.experts.intermediate_size, w.experts.count) == (3584, 3072, 92)
    latent = {p.name: (p.n, p.k) for p in w.products if p.name.startswith("latent")}
    assert latent == {"latent_in": (3584, 7168), "latent_out": (7168, 3584)}
    assert round(w.parameters / 1e12, 1) == 2.8


def test_what_a_quantisation_leaves_out_keeps_its_size():
    formats = rank_weights(model("Kimi-K3")).formats
    assert (formats.attention.name, formats.shared.name, formats.experts.name) == ("bf16", "bf16", "mxfp4")
    one = {"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["model.layers.1.self_attn*"]}
    left = rank_weights(made(quantization_config=one)).formats
    assert (left.attention.name, left.dense.name) == ("bf16", "nvfp4")


def test_mixed_precision_is_read_layer_by_layer():
    layers = {
        "model.layers.1.mlp.down_proj": {"quant_algo": "NVFP4"},
        "model.layers.1.self_attn.o_proj": {"quant_algo": "FP8"},
    }
    mixed = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    found = rank_weights(made(quantization_config=mixed)).formats
    assert (found.attention.name, found.dense.name, found.head.name) == ("fp8", "nvfp4", "bf16")


def test_an_output_gate_widens_the_projection():
    plain, gated = rank_weights(made()), rank_weights(made(attn_output_gate=True))
    assert gated.parameters - plain.parameters == 2 * 1024 * 8 * 128


@pytest.mark.parametrize(
    ("fields", "dense", "moe"),
    [
        ({"num_experts": 4, "num_experts_per_tok": 2, "expert_layer_period": 2, "expert_layer_offset": 1}, 1, 1),
        ({"num_experts": 4, "num_experts_per_tok": 2, "mlp_layer_types": ["dense", "sparse"]}, 1, 1),
        ({"num_experts": 4, "num_experts_per_tok": 2, "moe_layers_enum": "1"}, 1, 1),
        ({"num_experts": 4, "num_experts_per_tok": 2, "enable_moe_block": True}, 2, 2),
    ],
)
def test_layers_with_experts_are_told_apart(fields, dense, moe):
    a = read_architecture(made(**fields))
    assert (a.dense_layers, a.moe_layers) == (dense, moe)


# Sizes as in the models' published config.json files; published counts in billions.
JAMBA = {
    "model_type": "jamba", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "attn_layer_offset": 4, "attn_layer_period": 8,
    "expert_layer_offset": 1, "expert_layer_period": 2, "mamba_d_conv": 4, "mamba_d_state": 16, "mamba_dt_rank": 256,
    "mamba_expand": 2, "num_experts": 16, "num_experts_per_tok": 2, "vocab_size": 65536, "tie_word_embeddings": False,
}  # fmt: skip
KIMI_LINEAR = {
    "model_type": "kimi_linear", "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 27,
    "num_attention_heads": 32, "num_key_value_heads": 32, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "moe_intermediate_size": 1024, "num_experts": 256,
    "num_experts_per_token": 8, "num_shared_experts": 1, "first_k_dense_replace": 1, "vocab_size": 163840,
    "linear_attn_config": {"full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "head_dim": 128, "num_heads": 32},
    "tie_word_embeddings": False,
}  # fmt: skip
FALCON_H1 = {
    "model_type": "falcon_h1", "hidden_size": 3072, "intermediate_size": 12288, "num_hidden_layers": 44,
    "num_attention_heads": 12, "num_key_value_heads": 2, "head_dim": 128, "mamba_n_heads": 24, "mamba_d_head": 128,
    "mamba_n_groups": 1, "mamba_d_state": 256, "vocab_size": 130048, "tie_word_embeddings": False,
}  # fmt: skip
LONGCAT = {
    "model_type": "longcat_flash", "hidden_size": 6144, "num_layers": 28, "ffn_hidden_size": 12288,
    "expert_ffn_hidden_size": 2048, "n_routed_experts": 512, "moe_topk": 12, "num_attention_heads": 64,
    "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "vocab_size": 131072, "tie_word_embeddings": False,
}  # fmt: skip
LFM2 = {
    "model_type": "lfm2", "hidden_size": 2048, "block_auto_adjust_ff_dim": True, "block_ff_dim": 12288,
    "block_multiple_of": 256, "conv_L_cache": 3, "full_attn_idxs": [2, 5, 8, 10, 12, 14], "num_attention_heads": 32,
    "num_key_value_heads": 8, "num_hidden_layers": 16, "vocab_size": 65536, "tie_word_embeddings": True,
}  # fmt: skip
MINIMAX = {
    "model_type": "minimax_text_01", "hidden_size": 6144, "intermediate_size": 9216, "num_hidden_layers": 80,
    "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1] * 10, "num_attention_heads": 64, "num_key_value_heads": 8,
    "head_dim": 128, "num_local_experts": 32, "num_experts_per_tok": 2, "vocab_size": 200064,
    "tie_word_embeddings": False,
}  # fmt: skip
RECURRENT_GEMMA = {
    "model_type": "recurrent_gemma", "hidden_size": 2560, "intermediate_size": 15360, "num_hidden_layers": 26,
    "block_types": ["recurrent", "recurrent", "attention"], "num_attention_heads": 10, "num_key_value_heads": 1,
    "head_dim": 256, "lru_width": 2560, "attention_window_size": 2048, "vocab_size": 256000,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "billions", "digits"),
    [
        (JAMBA, 52, 0),
        (KIMI_LINEAR, 49, 0),
        (FALCON_H1, 7.6, 1),
        (LONGCAT, 561, 0),
        (LFM2, 1.17, 2),
        (MINIMAX, 456, 0),
        (RECURRENT_GEMMA, 2.7, 1),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else str(value),
)
def test_hybrid_parameters_are_those_that_were_published(config, billions, digits):
    found = read_model({"torch_dtype": "bfloat16", **config}, name=config["model_type"])
    assert round(rank_weights(found).parameters / 1e9, digits) == billions


def test_embeddings_of_every_layer_are_held():
    plain, with_them = rank_weights(made()), rank_weights(made(hidden_size_per_layer_input=64))
    assert with_them.embedding - plain.embedding == 1000 * 2 * 64
    assert with_them.parameters - plain.parameters == 1000 * 2 * 64 + 3 * 2 * 64 * 1024
