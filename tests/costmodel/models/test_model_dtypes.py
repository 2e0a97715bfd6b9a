"""Dtypes of activations and KV cache, as checkpoints declare them."""

import json
from pathlib import Path
from typing import Any

import pytest
from model_cases import LLAMA

from costmodel import ConfigError, load_model
from costmodel.models import read_model

FP8_SCHEME = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False}


def kv_dtype(quantization: dict[str, Any] | None) -> str:
    return read_model(LLAMA | {"quantization_config": quantization}, name="test").kv_dtype


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        (None, "bf16"),
        ({"quant_method": "fp8"}, "bf16"),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": None}, "bf16"),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": FP8_SCHEME}, "fp8_e4m3"),
        ({"quant_method": "modelopt", "kv_cache_scheme": "FP8"}, "fp8_e4m3"),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}, "fp8_e4m3"),
        ({"quant_method": "modelopt", "quantization": {"kv_cache_quant_algo": "NVFP4"}}, "nvfp4"),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": None}, "bf16"),
        (
            {
                "quant_method": "quark",
                "export": {"kv_cache_group": ["*k_proj", "*v_proj"]},
                "layer_quant_config": {"*k_proj": {"output_tensors": {"dtype": "fp8_e4m3"}}},
            },
            "fp8_e4m3",
        ),
        ({"quant_method": "quark", "export": {"kv_cache_group": []}}, "bf16"),
    ],
)
def test_kv_dtype_of_a_quantisation(quantization: dict[str, Any] | None, expected: str) -> None:
    assert kv_dtype(quantization) == expected


def test_an_unknown_kv_scheme_is_said() -> None:
    int8 = {"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "int"}}
    model = read_model(LLAMA | {"quantization_config": int8}, name="test")
    assert model.kv_dtype == "bf16"
    assert any("int8" in line for line in model.unread)


def test_a_sibling_file_declares_the_kv_dtype(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert load_model(tmp_path).kv_dtype == "bf16"
    assert any("hf_quant_config.json" in note for note in load_model(tmp_path).notes)
    (tmp_path / "hf_quant_config.json").write_text(
        json.dumps(
            {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
        )
    )
    model = load_model(tmp_path)
    assert (model.kv_dtype, model.layer_groups[0].attention.kv_dtype) == ("fp8_e4m3", "fp8_e4m3")
    (tmp_path / "hf_quant_config.json").write_text("{")
    with pytest.raises(ConfigError, match="hf_quant_config"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("own", "kv"),
    [
        ({"quant_method": "fp8"}, "bf16"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "bf16"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "fp8_e4m3"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "NVFP4"}, "nvfp4"),
    ],
)
def test_the_configs_own_quantisation_counts_before_the_siblings(tmp_path: Path, own: dict[str, Any], kv: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"quantization_config": own}))
    sibling = {"quantization": {"quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "FP8"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(sibling))
    model = load_model(tmp_path)
    assert (model.kv_dtype, model.quantization["quant_method"]) == (kv, own["quant_method"])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"torch_dtype": "bfloat16"}, "bf16"),
        ({"torch_dtype": None, "dtype": "float16"}, "fp16"),
        ({"torch_dtype": "torch.float16"}, "fp16"),
        ({"torch_dtype": "float32"}, "fp16"),
        ({"torch_dtype": "float32", "model_type": "gemma"}, "bf16"),
        ({"torch_dtype": None}, "bf16"),
    ],
)
def test_activation_dtype(fields: dict[str, Any], expected: str) -> None:
    model = read_model(LLAMA | fields, name="test")
    assert (model.dtype, model.kv_dtype, model.layer_groups[0].attention.dtype) == (expected,) * 3


def test_quantisation_nested_in_the_text_part_counts() -> None:
    nested = {"model_type": "kimi_k25", "text_config": LLAMA | {"quantization_config": {"kv_cache_scheme": FP8_SCHEME}}}
    assert read_model(nested, name="test").kv_dtype == "fp8_e4m3"
