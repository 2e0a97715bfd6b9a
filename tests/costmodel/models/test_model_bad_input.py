"""Bad input: one clear message, never a traceback of another kind."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cases import CASES, LLAMA, config

from costmodel import ConfigError, Model, load_model, sglang_resolve
from costmodel.compat import judge
from costmodel.models import read_model
from costmodel.models.source import MAX_BYTES, parse_object
from hwprofiles import load_profile

H200 = load_profile("h200")


def write(folder: Path, text: str, name: str = "config.json") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"model_type": "llama", "hidden', "not valid JSON.*truncated"),
        ("", "not valid JSON"),
        ("[1, 2]", "list, not an object"),
        ("{}", "empty object"),
        ('{"num_attention_heads": NaN}', "NaN"),
        ('{"num_attention_heads": 32, "num_attention_heads": 16}', "more than once"),
        ('{"a": ' + "[" * 100 + "]" * 100 + "}", "nests deeper"),
        ('{"a": ' + "[" * 100_000, "nests deeper"),
        ('{"tokenizer_class": "LlamaTokenizer", "added_tokens_decoder": {}}', "tokenizer"),
        ('{"version": "1.0", "added_tokens": [], "model": {"type": "BPE"}}', "tokenizer"),
        ('{"do_sample": true, "temperature": 0.6, "top_p": 0.9}', "generation"),
        ('{"image_processor_type": "CLIPImageProcessor", "image_mean": [0.5]}', "processor"),
        ('{"peft_type": "LORA", "base_model_name_or_path": "x"}', "adapter"),
        ('{"metadata": {}, "weight_map": {"a": "b"}}', "index of weights"),
        ('{"model_type": "x", "vision_config": {"num_attention_heads": 16}}', "vision or audio only"),
        ('{"hidden_size": 4096}', "no num_attention_heads"),
        ('{"num_attention_heads": 1' + "0" * 5000 + "}", "number that cannot be read"),
    ],
)
def test_files_that_are_no_model(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_model(write(tmp_path, text))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_attention_heads": None}, "no num_attention_heads"),
        ({"architectures": "LlamaForCausalLM"}, "architectures='LlamaForCausalLM' must be a list of class names"),
        ({"architectures": [5]}, "architectures=.* must be a list of class names"),
        ({"architectures": ["\x1b]0;x\x07"]}, "architectures=.* must be a list of class names"),
        ({"model_type": []}, r"model_type=\[\] must be a name"),
        ({"quantization_config": "fp8"}, "quantization_config='fp8' must be an object"),
        ({"llm_config": {"model_type": []}}, r"llm_config: model_type=\[\] must be a name"),
        ({"text_config": [1]}, r"text_config=\[1\] must be an object"),
        ({"num_hidden_layers": None}, "no num_hidden_layers"),
        ({"hidden_size": None}, "neither head_dim nor hidden_size"),
        ({"num_attention_heads": 31, "num_key_value_heads": 31}, "hidden_size=4096 is not a multiple"),
        ({"num_key_value_heads": 7}, "num_attention_heads=32 is not a multiple of num_key_value_heads=7"),
        ({"num_attention_heads": -32}, "num_attention_heads=-32 must be from 1"),
        ({"num_attention_heads": "32"}, "must be a whole number"),
        ({"num_attention_heads": 32.5}, "must be a whole number"),
        ({"num_attention_heads": True}, "must be a whole number"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"head_dim": 0}, "head_dim=0 must be from 1"),
        ({"head_dim": float("inf")}, "head_dim=inf"),
        ({"sliding_window": -4096}, "sliding_window=-4096 must be from 0"),
        ({"sliding_window": "4k"}, "sliding_window='4k' must be a whole number"),
        ({"layer_types": ["full_attention"] * 31}, "31 entries for 32 layers"),
        ({"layer_types": ["magic"] * 32}, "'magic', a kind of layer"),
        ({"layer_types": "full_attention"}, "must be a list"),
        ({"layer_types": ["sliding_attention"] * 32}, "no sliding_window"),
        ({"attn_logit_softcapping": -1.0}, "must be a positive number"),
        ({"kv_lora_rank": 512}, "no qk_rope_head_dim"),
        ({"block_configs": [{"attention": None}] * 32}, "without an attention object"),
        ({"attn_layer_indices": [40]}, "attention layer 40"),
        ({"cross_attention_layers": [32]}, "layer 32"),
        ({"num_attention_heads": [32] * 3}, "num_attention_heads has 3 entries"),
        ({"layer_types": [["full_attention"]] * 32}, "a kind of layer"),
        (
            {"sparse_attention_config": {"sparse_topk_blocks": 16, "sparse_attention_freq": [1]}},
            "1 entries for 32 layers",
        ),
    ],
)
def test_fields_that_do_not_fit(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    path = write(tmp_path, json.dumps(LLAMA | fields))
    with pytest.raises(ConfigError, match=message):
        load_model(path)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES * 12)
    with pytest.raises(ConfigError, match="192 MiB"):
        load_model(path)


def test_weights_in_place_of_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + bytes(60))
    for path in (tmp_path, tmp_path / "model.gguf"):
        with pytest.raises(ConfigError, match="GGUF"):
            load_model(path)
    (tmp_path / "config.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_model(tmp_path)


def test_a_missing_path_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_model(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=r"holds no config\.json"):
        load_model(tmp_path)


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="neither a file nor a folder"):
        load_model(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="'' is not a path"):
        load_model("")


def test_a_folder_name_with_control_characters_is_made_printable(tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[31mb"
    folder.mkdir()
    assert load_model(write(folder, json.dumps(LLAMA))).name == "a?[31mb"


def test_infinity_elsewhere_is_no_obstacle(tmp_path: Path) -> None:
    text = json.dumps(LLAMA | {"time_step_limit": [0.0, float("inf")]})
    assert load_model(write(tmp_path, text)).num_layers == 32


def test_a_byte_order_mark_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(LLAMA).encode())
    assert load_model(path).num_layers == 32


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 5000)
    | st.floats(allow_nan=False)
    | st.sampled_from(["full_attention", "sliding_attention", "mamba", "M*-E", "LLLG", "bfloat16", ""]),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from(sorted(LLAMA)), inner, max_size=4),
    max_leaves=8,
)
NAMES = sorted(
    {name for fields, _ in CASES.values() for name in fields}
    | {"index_topk", "compress_ratios", "kv_lora_rank", "architectures", "quantization_config", "chunk_size"}
)


def read_or_none(fields: dict[str, Any]) -> Model | None:
    """Read a configuration; None where the reader refuses it with its own error, any other error fails the test."""
    try:
        return read_model(fields, name="fuzz")
    except ConfigError:
        return None


@settings(max_examples=150, deadline=None)
@given(base=st.sampled_from(list(CASES)), changes=st.dictionaries(st.sampled_from(NAMES), JSON_VALUES, max_size=4))
def test_any_field_either_reads_or_is_refused(base: str, changes: dict[str, Any]) -> None:
    model = read_or_none(CASES[base][0] | changes)
    if model is None:
        return
    assert model.layer_groups
    sglang_resolve(model, H200, ["--page-size", "64"])
    assert judge(model, H200).rows
    for group in model.layer_groups:
        attention = group.attention
        assert 1 <= group.layers <= 2 * model.num_layers
        assert 0 <= group.kv_shared_layers <= group.layers
        assert attention.num_qo_heads % attention.num_kv_heads == 0
        assert group.kv_bytes_per_token >= 0
        assert attention.sliding_window is None or attention.chunk_size is None


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet='{}[]",:0123456789-.eEnulltrufasNI \n\\', max_size=80))
def test_any_text_either_parses_or_is_refused(text: str) -> None:
    try:
        value = parse_object(text, "text")
    except ConfigError:
        return
    assert isinstance(value, dict)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from([*NAMES, "text_config", "llm_config", "vision_config"]), JSON_VALUES, max_size=8)
)
def test_any_object_either_reads_or_is_refused(fields: dict[str, Any]) -> None:
    model = read_or_none(fields)
    assert model is None or model.layer_groups


def test_a_list_of_layers_may_go_on_with_prediction_heads() -> None:
    fields = config(
        "step3p5", 8, 2, 1024, sliding_window=64, layer_types=["full_attention", "sliding_attention", "full_attention"]
    )
    assert read_model(fields, name="test").num_layers == 2
