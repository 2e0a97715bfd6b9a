"""Field families: one small configuration for each way of writing heads, windows and layer kinds."""

from typing import Any

import pytest
from model_cases import CASES, LLAMA, SLIDING, Group, config, cycle

from costmodel import ConfigError, Model
from costmodel.models import read_model


def read(fields: dict[str, Any]) -> Model:
    return read_model(fields, name="test")


def groups(model: Model) -> list[Group]:
    shapes = [(g.layers, g.attention) for g in model.layer_groups]
    return [(n, a.num_qo_heads, a.num_kv_heads, a.head_dim, a.sliding_window) for n, a in shapes]


@pytest.mark.parametrize(("fields", "expected"), CASES.values(), ids=CASES)
def test_groups(fields: dict[str, Any], expected: list[Group]) -> None:
    assert groups(read(fields)) == expected


def test_soft_cap_of_gemma_2_comes_from_its_class_and_null_switches_it_off() -> None:
    gemma, _ = CASES["gemma-2"]
    assert {g.attention.logit_soft_cap for g in read(gemma).layer_groups} == {50.0}
    off = read(gemma | {"attn_logit_softcapping": None})
    assert {g.attention.logit_soft_cap for g in off.layer_groups} == {None}


def test_architecture_alone_implies_sinks() -> None:
    fields, _ = CASES["gpt-oss, layer types left out"]
    del (nameless := dict(fields))["model_type"]
    assert all(g.attention.sinks for g in read(nameless | {"architectures": ["GptOssForCausalLM"]}).layer_groups)


def test_cross_attention_is_a_group_of_its_own() -> None:
    text = config(
        "mllama_text_model", 32, 40, 4096, num_key_value_heads=8, cross_attention_layers=[3, 8, 13, 18, 23, 28, 33, 38]
    )
    model = read({"model_type": "mllama", "text_config": text, "vision_config": {}})
    assert [(g.layers, g.cross_attention) for g in model.layer_groups] == [(32, False), (8, True)]


def test_whisper_has_self_and_cross_attention_in_each_decoder_layer() -> None:
    model = read(
        {
            "model_type": "whisper",
            "is_encoder_decoder": True,
            "d_model": 1280,
            "num_hidden_layers": 32,
            "decoder_layers": 4,
            "encoder_attention_heads": 20,
            "decoder_attention_heads": 20,
        }
    )
    assert [(g.layers, g.cross_attention, g.attention.head_dim) for g in model.layer_groups] == [
        (4, False, 64),
        (4, True, 64),
    ]


def test_shared_kv_layers_store_nothing() -> None:
    fields = config(
        "gemma3n_text",
        8,
        30,
        2048,
        num_key_value_heads=2,
        head_dim=256,
        sliding_window=512,
        num_kv_shared_layers=10,
        layer_types=cycle("ssssf", 30, SLIDING),
    )
    model = read({"model_type": "gemma3n", "text_config": fields, "vision_config": {}})
    assert sum(g.kv_bytes_per_token for g in model.layer_groups) == 20 * 2 * 2 * 256 * 2


def test_cross_layer_sharing_halves_the_cache() -> None:
    model = read(config("hunyuan", 80, 64, 6400, num_key_value_heads=8, head_dim=128, use_cla=True, cla_share_factor=2))
    assert sum(g.kv_bytes_per_token for g in model.layer_groups) == 32 * 2 * 8 * 128 * 2


def test_latent_models() -> None:
    mla = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
    lite = read(config("deepseek_v2", 16, 27, 2048, num_key_value_heads=16, q_lora_rank=None, **mla))
    assert [(g.layers, g.attention.family, g.attention.head_dim) for g in lite.layer_groups] == [(27, "mla", 576)]
    cpm = read(config("minicpm3", 40, 62, 2560, kv_lora_rank=256, qk_rope_head_dim=32, qk_nope_head_dim=64))
    (group,) = cpm.layer_groups
    assert (group.attention.head_dim, group.attention.value_dim, group.attention.expanded_v_head_dim) == (288, 256, 64)
    longcat = read({"model_type": "longcat_flash", "num_layers": 28, "num_attention_heads": 64, **mla})
    assert [(g.layers, longcat.num_layers) for g in longcat.layer_groups] == [(56, 28)]


def test_kimi_linear_counts_layers_from_one() -> None:
    fields = config(
        "kimi_linear",
        32,
        8,
        2304,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
        linear_attn_config={"full_attn_layers": [4, 8], "kda_layers": [1, 2, 3, 5, 6, 7]},
    )
    model = read(fields)
    assert [g.layer_indices for g in model.layer_groups] == [(3, 7)]
    assert (model.layers_without_kv, model.hybrid_linear) == (6, True)


DSA = {
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "index_topk": 2048,
    "index_n_heads": 64,
    "index_head_dim": 128,
}


@pytest.mark.parametrize(
    ("sharing", "owners"),
    [
        ({}, 6),
        ({"indexer_types": ["full", "full", "shared", "shared", "full", "shared"]}, 3),
        ({"index_topk_freq": 4}, 3),
        ({"index_topk_freq": 4, "index_skip_topk_offset": 3}, 3),
        ({"index_topk_pattern": "FFSSFS"}, 3),
    ],
)
def test_shared_indexers(sharing: dict[str, Any], owners: int) -> None:
    (group,) = read(config("deepseek_v32", 128, 6, 7168, **DSA, **sharing)).layer_groups
    assert (group.layers, group.attention.family, group.attention.top_k, group.indexer_layers) == (
        6,
        "sparse",
        2048,
        owners,
    )
    assert group.indexer_bytes_per_token == owners * 128


def test_deepseek_v4_compresses_by_layer() -> None:
    model = read(
        config(
            "deepseek_v4",
            64,
            4,
            4096,
            head_dim=512,
            num_key_value_heads=1,
            qk_rope_head_dim=64,
            sliding_window=128,
            index_topk=512,
            index_n_heads=64,
            index_head_dim=128,
            compress_ratios=[0, 4, 128, 4, 0],
            max_position_embeddings=1048576,
        )
    )
    shapes = [(g.layers, g.attention.sliding_window, g.attention.top_k, g.kv_compression) for g in model.layer_groups]
    assert shapes == [(1, 128, None, 1), (2, None, 512, 4), (1, None, 8192, 128)]
    assert {(g.attention.head_dim, g.attention.v_head_dim) for g in model.layer_groups} == {(512, 512)}
    assert sum(g.kv_bytes_per_token for g in model.layer_groups) == 1024 + 2 * 1024 / 4 + 1024 / 128


def test_minicpm_selects_blocks() -> None:
    (group,) = read(
        config(
            "minicpm",
            32,
            32,
            4096,
            num_key_value_heads=2,
            sparse_config={"topk": 64, "block_size": 64, "dense_len": 8192},
        )
    ).layer_groups
    assert (group.attention.family, group.attention.top_k, group.attention.block) == ("sparse", 64, 64)


def test_a_window_as_long_as_the_context_hides_nothing() -> None:
    fields = config("phi3", 24, 32, 3072, num_key_value_heads=8, sliding_window=262144, max_position_embeddings=131072)
    model = read(fields)
    assert groups(model) == [(32, 24, 8, 128, None)]
    assert any("262144" in note for note in model.notes)


def test_a_window_that_is_switched_off_hides_nothing_whatever_the_layers_are_called() -> None:
    fields = config(
        "qwen3", 16, 4, 2048, sliding_window=4096, use_sliding_window=False, layer_types=cycle("sf", 4, SLIDING)
    )
    assert groups(read(fields)) == [(4, 16, 16, 128, None)]


def test_blocks_may_have_windows_of_their_own() -> None:
    blocks = [{"attention": {"n_heads_in_group": 8, "window_length": w}} for w in (None, 512, 512)]
    fields = config("nemotron-nas", 64, 3, 8192, block_configs=blocks)
    assert groups(read(fields)) == [(1, 64, 8, 128, None), (2, 64, 8, 128, 512)]


def test_dual_chunk_is_told_apart() -> None:
    assert read(LLAMA | {"dual_chunk_attention_config": {"chunk_size": 262144, "local_size": 8192}}).dual_chunk


def test_llama_4_without_a_list_of_layers() -> None:
    text = config(
        "llama4_text",
        40,
        8,
        5120,
        num_key_value_heads=8,
        head_dim=128,
        no_rope_layers=[1, 1, 1, 0, 1, 1, 1, 0],
        attention_chunk_size=8192,
    )
    model = read({"model_type": "llama4", "text_config": text})
    assert [(g.layers, g.attention.chunk_size) for g in model.layer_groups] == [(6, 8192), (2, None)]


def test_an_unknown_architecture_is_read_and_said() -> None:
    model = read(
        LLAMA | {"model_type": "brandnew", "architectures": ["BrandNewForCausalLM"], "hyper_attention_taps": 3}
    )
    assert any("brandnew" in line for line in model.unread)
    assert any("hyper_attention_taps" in line for line in model.unread)


@pytest.mark.parametrize("model_type", ["bert", "clip"])
def test_encoders_have_no_cache_to_judge(model_type: str) -> None:
    with pytest.raises(ConfigError, match="encoder"):
        read(config(model_type, 12, 12, 768))


def test_a_model_without_attention_is_refused() -> None:
    with pytest.raises(ConfigError, match="none of its 2 layers"):
        read(config("nemotron_h", 8, 2, 1024, hybrid_override_pattern="M-"))
