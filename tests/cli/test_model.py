"""`attnroof model show`."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.commands.model import app
from costmodel import ConfigError

MODELS = Path(__file__).parents[1] / "data" / "models"
GROUP_FIELDS = {
    "layers",
    "kind",
    "num_qo_heads",
    "num_kv_heads",
    "head_dim",
    "v_head_dim",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "sliding_window",
    "attention_chunk_size",
    "top_k",
    "sinks",
    "logit_soft_cap",
    "kv_bytes_per_token",
}


def run(model: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["show", str(MODELS / f"{model}.json"), *arguments])


def run_json(model: str, *arguments: str) -> Any:
    result = run(model, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_json_has_the_promised_fields() -> None:
    shown = run_json("gpt-oss-20b")
    assert {"layer_groups", "kv_bytes_per_token", "kv_dtype", "unread", "layers_without_kv"} <= set(shown)
    assert all(set(group) >= GROUP_FIELDS for group in shown["layer_groups"])
    assert [(g["layers"], g["sliding_window"], g["sinks"]) for g in shown["layer_groups"]] == [
        (12, 128, True),
        (12, None, True),
    ]


@pytest.mark.parametrize(("tp", "heads", "size"), [(1, (64, 8), 327680), (8, (8, 1), 40960), (16, (4, 1), 40960)])
def test_heads_and_bytes_are_per_rank(tp: int, heads: tuple[int, int], size: int) -> None:
    shown = run_json("Llama-3.1-70B-FP8", "--tp", str(tp))
    (group,) = shown["layer_groups"]
    assert (group["num_qo_heads"], group["num_kv_heads"], shown["kv_bytes_per_token"]) == (*heads, size)
    assert group["kind"] == "gqa"


def test_attention_dp_takes_ranks_out_of_tp() -> None:
    (group,) = run_json("DeepSeek-V3", "--tp", "8", "--attention-dp", "8")["layer_groups"]
    assert (group["num_qo_heads"], group["kv_replication"]) == (128, 1)


def test_context_parallelism_takes_ranks_out_of_tp_and_pipelines_divide_layers() -> None:
    shown = run_json("Llama-3.1-8B", "--tp", "8", "--attention-cp", "2", "--pp", "3")
    assert (shown["layer_groups"][0]["num_qo_heads"], shown["attention_cp"], shown["pp"]) == (8, 2, 3)
    assert shown["kv_bytes_per_token_by_stage"] == [10 * 1024, 11 * 1024, 11 * 1024]
    assert "by pipeline stage: 10,240, 11,264, 11,264" in run("Llama-3.1-8B", "--tp", "4", "--pp", "3").stdout


def test_kv_dtype_can_be_asked_for() -> None:
    assert run_json("Qwen3-8B")["kv_bytes_per_token"] == 147456
    shown = run_json("Qwen3-8B", "--kv-cache-dtype", "fp8_e4m3")
    assert (shown["kv_bytes_per_token"], shown["kv_dtype"]) == (73728, "fp8_e4m3")


def test_sparse_latent_models() -> None:
    shown = run_json("GLM-5", "--tp", "8")
    (group,) = shown["layer_groups"]
    assert (group["kind"], group["top_k"], group["kv_lora_rank"], group["qk_rope_head_dim"]) == (
        "sparse",
        2048,
        512,
        64,
    )
    assert (shown["kv_bytes_per_token"], shown["indexer_bytes_per_token"]) == (89856, 78 * 128)


def test_layers_without_a_cache_are_in_no_group() -> None:
    shown = run_json("Kimi-K3")
    assert (shown["layers_without_kv"], sum(g["layers"] for g in shown["layer_groups"])) == (69, 24)


def test_the_table_says_what_tensor_parallelism_does() -> None:
    text = run("DeepSeek-V3", "--tp", "8").stdout
    assert "TP does not shrink it" in text
    text = run("Qwen3-235B-A22B", "--tp", "8").stdout
    assert "TP exceeds the KV heads" in text
    assert "192,512 KV bytes per token without copies; 385,024 over these ranks" in text
    assert "sinks" in run("gpt-oss-20b").stdout


@pytest.mark.parametrize("arguments", [("--tp", "3"), ("--kv-cache-dtype", "int3")])
def test_impossible_options_are_refused(arguments: tuple[str, str]) -> None:
    result = run("Llama-3.1-8B", *arguments)
    assert result.exit_code != 0
    assert "tp=3" in str(result.exception) or "'int3' is not one of auto" in result.stderr


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer_config.json"
    path.write_text('{"tokenizer_class": "LlamaTokenizer", "added_tokens_decoder": {}}')
    result = CliRunner().invoke(app, ["show", str(path)])
    assert isinstance(result.exception, ConfigError)
    assert "tokenizer" in str(result.exception)
