"""`attnroof sglang` and `attnroof conformance` as a user sees them."""

import json
import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli.commands import conformance, sglang
from cli.errors import AnswerIsNo

MODELS = Path(__file__).parents[1] / "data" / "models"

app = typer.Typer()
app.command("sglang")(sglang.sglang)
app.command("conformance")(conformance.conformance)


def run(*args):
    return CliRunner().invoke(app, list(args))


def test_picks_rewrites_and_remarks():
    model = str(MODELS / "Qwen3.5-397B-A17B.json")
    result = run("sglang", "--model", model, "--gpu", "b200", "--", "--tp-size", "8", "--page-size", "128")
    assert result.exit_code == 0
    assert "triton" in result.stdout
    assert "asked otherwise" in result.stdout
    assert "--linear-attn-backend" in result.stdout
    assert "--mm-attention-backend" in result.stdout


def test_json_is_one_document():
    model = str(MODELS / "Llama-3.1-8B.json")
    result = run("sglang", "--model", model, "--gpu", "b200", "--json")
    document = json.loads(result.stdout)
    assert document["prefill"] == document["decode"] == "trtllm_mha"
    assert document["page_size"] == 64
    assert document["refused"] is None
    assert [c["field"] for c in document["changed"]] == ["--attention-backend", "--page-size"]
    assert document["warnings"] == []
    assert document["default"] is None
    assert document["ours"]["decode_us"] > 0


def test_what_sglang_accepts_and_kernels_do_not_is_warned_about():
    model = str(MODELS / "Llama-3.1-8B.json")
    result = run("sglang", "--model", model, "--gpu", "b200", "--json", "--", "--attention-backend", "flashmla")
    document = json.loads(result.stdout)
    assert document["refused"] is None
    assert any("MLA" in warning for warning in document["warnings"])


@pytest.mark.parametrize(("size", "says"), [("7", "not a multiple of tp=7"), ("0", "tp=0 must be at least 1")])
def test_a_size_that_sglang_accepts_and_the_model_does_not_is_warned_about(size, says):
    model = str(MODELS / "Llama-3.1-8B.json")
    document = json.loads(run("sglang", "--model", model, "--gpu", "h200", "--json", "--", "--tp-size", size).stdout)
    assert document["refused"] is None
    assert says in document["warnings"][0]


def test_a_refusal_ends_with_no():
    model = str(MODELS / "DeepSeek-V3.json")
    result = run("sglang", "--model", model, "--gpu", "h200", "--", "--attention-backend", "trtllm_mla")
    assert isinstance(result.exception, AnswerIsNo)
    assert "Blackwell" in str(result.exception)
    assert "SGLang would serve with prefill=fa3, decode=fa3" in result.stdout
    assert "we would pick prefill=" in result.stdout


def test_an_unknown_flag_is_a_refusal_of_the_parser():
    model = str(MODELS / "DeepSeek-V3.json")
    result = run("sglang", "--model", model, "--gpu", "h200", "--json", "--", "--no-such-flag")
    assert json.loads(result.stdout)["stage"] == "cli"


def test_conformance_opens_files_and_folders_only(tmp_path):
    os.mkfifo(tmp_path / "pipe.whl")
    for path in (tmp_path / "pipe.whl", tmp_path / "nothing.whl", tmp_path):
        result = run("conformance", str(path))
        assert isinstance(result.exception, ValueError)


@pytest.mark.parametrize("as_json", [True, False])
def test_conformance_names_differences(tmp_path, as_json):
    choices = tmp_path / "sglang" / "srt" / "arg_groups" / "choices.py"
    choices.parent.mkdir(parents=True)
    choices.write_text("ATTENTION_BACKEND_CHOICES = ['triton', 'brand_new']\n", encoding="utf-8")
    result = run("conformance", str(tmp_path), *(["--json"] if as_json else []))
    assert isinstance(result.exception, AnswerIsNo)
    assert "brand_new" in result.stdout
    if as_json:
        document = json.loads(result.stdout)
        assert {"where": "ATTENTION_BACKEND_CHOICES", "name": "brand_new", "kind": "added", "detail": ""} in document[
            "differences"
        ]
        assert "attention registry" in document["missing"]
