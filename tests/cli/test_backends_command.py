"""`attnroof backends`."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from cli.commands.backends import backends
from cli.errors import AnswerIsNo, WrongInput
from costmodel import UnknownBackend
from costmodel.compat import backend_names
from costmodel.sglang import latest_version

MODELS = Path(__file__).parents[1] / "data" / "models"
APP = typer.Typer()
APP.command()(backends)


def run(model: str, gpu: str, *arguments: str) -> Result:
    return CliRunner().invoke(APP, ["--model", str(MODELS / f"{model}.json"), "--gpu", gpu, *arguments])


def run_json(model: str, gpu: str, *arguments: str) -> Any:
    result = run(model, gpu, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_json_has_all_names_phases_and_groups() -> None:
    shown = run_json("gemma-4-26B-A4B", "b200")
    assert set(shown) >= {"model", "device", "sglang_version", "sglang_default", "backends", "extra"}
    keys = {(row["backend"], row["phase"], row["layer_group"]) for row in shown["backends"]}
    assert keys == {(n, p, g) for n in backend_names() for p in ("extend", "decode", "verify", "draft") for g in (0, 1)}
    assert all(row["verdict"] in ("compatible", "incompatible", "rewritten", "unknown") for row in shown["backends"])
    assert shown["device"] == "nvidia-b200-sxm-180gb"


@pytest.mark.parametrize(
    ("model", "gpu", "arguments", "default"),
    [
        ("Llama-3.1-8B", "h200", (), "fa3"),
        ("gpt-oss-20b", "a100", (), "triton"),
        ("Llama-3.1-8B", "rtx_pro_6000", (), "flashinfer"),
        ("DeepSeek-V3", "b200", ("--tp", "8"), "trtllm_mla"),
    ],
)
def test_the_default_of_sglang_is_shown(model: str, gpu: str, arguments: tuple[str, ...], default: str) -> None:
    shown = run_json(model, gpu, *arguments)
    assert (shown["sglang_default"]["prefill"], shown["sglang_default"]["decode"]) == (default, default)


def test_options_reach_the_judge() -> None:
    rows = {(r["backend"], r["phase"]): r for r in run_json("Llama-3.1-8B", "b200", "--page-size", "16")["backends"]}
    assert rows["fa4", "decode"]["settings"] == {"page_size": 128}
    shown = run_json("DeepSeek-V3", "b200", "--tp", "8", "--sglang", "0.5.22")
    assert shown["sglang_version"] == "0.5.22"
    assert sum(bool(row["alias_of"]) for row in shown["backends"]) == 2 * 4
    rows = run_json("Llama-3.1-8B", "h200", "--deterministic", "--spec-topk", "4", "--kv-cache-dtype", "bfloat16")
    assert {r["backend"] for r in rows["backends"] if r["verdict"] == "compatible"} == {"fa3", "fa4", "triton"}


def test_the_table_marks_and_explains() -> None:
    text = run("gemma-4-26B-A4B", "b200").stdout
    assert "✗ (✗✓)" in text
    assert "head dim 256" in text
    assert "SGLang's default: prefill trtllm_mha, decode trtllm_mha" in text
    assert all(name in text for name in backend_names())


def test_why_gives_all_reasons_of_one_name() -> None:
    text = " ".join(run("gpt-oss-20b", "h200", "--why", "flashinfer").stdout.split())
    assert "sinks" in text
    assert "SGLang serves gpt-oss with" in text
    assert "runs here instead: fa3" in text
    shown = run_json("gpt-oss-20b", "h200", "--why", "flashinfer")
    assert {row["backend"] for row in shown["backends"]} == {"flashinfer"}


def test_why_of_a_name_that_is_none_lists_the_nearest() -> None:
    result = run("gpt-oss-20b", "h200", "--why", "flashinfr")
    assert isinstance(result.exception, UnknownBackend)
    assert "flashinfer" in str(result.exception)


def test_releases_that_were_not_read_are_told() -> None:
    shown = run_json("Llama-3.1-8B", "h200", "--sglang", "0.9.0")
    assert shown["sglang_default"]["rules_of"] == latest_version()
    assert "not read for SGLang 0.9.0" in shown["warnings"][0]
    assert run_json("Llama-3.1-8B", "h200", "--sglang", "0.5.21")["sglang_default"]["rules_of"] == "0.5.22"
    for wrong in ("", "0.4", "x"):
        assert isinstance(run("Llama-3.1-8B", "h200", "--sglang", wrong).exception, ValueError)


def test_kv_dtypes_are_those_of_all_commands() -> None:
    result = run("Llama-3.1-8B", "h200", "--kv-cache-dtype", "fp8")
    assert result.exit_code == 2
    assert "fp8_e4m3" in result.stderr


def test_a_pair_is_judged_together() -> None:
    found = run_json("DeepSeek-V3", "h200", "--tp", "8", "--pair", "fa3,flashmla")
    assert (found["compatible"], found["page_size"], found["reasons"]) == (True, 64, [])
    result = run("DeepSeek-V3", "h200", "--tp", "8", "--pair", "fa3,trtllm_mla")
    assert isinstance(result.exception, AnswerIsNo)
    assert "Blackwell" in result.stdout
    for wrong, error in (("fa3", WrongInput), ("fa3,fa33", UnknownBackend)):
        assert isinstance(run("DeepSeek-V3", "h200", "--pair", wrong).exception, error)


def test_draft_rows_are_about_the_draft_model() -> None:
    draft = str(MODELS / "gemma-4-26B-A4B.json")
    rows = run_json("Llama-3.1-8B", "h200", "--draft-model", draft)["backends"]
    verdicts = {(r["phase"], r["layer_group"]): r["verdict"] for r in rows if r["backend"] == "flashinfer"}
    assert verdicts["decode", 0] == "compatible"
    assert verdicts["draft", 0] == verdicts["draft", 1] == "incompatible"


def test_nothing_that_runs_is_an_answer_of_no() -> None:
    result = run("GLM-5", "a100", "--json")
    assert isinstance(result.exception, AnswerIsNo)
    assert len(json.loads(result.stdout)["backends"]) == len(backend_names()) * 4


def test_flags_for_linear_and_vision_layers_are_mentioned() -> None:
    assert "--linear-attn-backend" in run("Qwen3.5-397B-A17B", "h200", "--tp", "2").stdout
    assert "--mm-attention-backend" in run("Qwen3-VL-235B-A22B", "h200").stdout
