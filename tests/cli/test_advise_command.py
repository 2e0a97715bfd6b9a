"""`attnroof advise` as a user sees it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli.commands import advise
from cli.errors import AnswerIsNo, WrongInput

MODELS = Path(__file__).parents[2] / "examples" / "models"
LLAMA, SMALL = str(MODELS / "Llama-3.1-8B"), str(MODELS / "gpt-oss-20b")
CHOICE = {
    "prefill_backend", "decode_backend", "page_size", "kv_cache_dtype", "ttft_ms", "tpot_ms", "tokens_per_s",
    "kv_tokens", "flags", "env", "reasons",
}  # fmt: skip

app = typer.Typer()
app.command("advise")(advise.advise)


@app.command("other")
def other() -> None:
    """Keep the app a group."""


def run(*args):
    return CliRunner().invoke(app, ["advise", "--gpu", "h200", *args])


@pytest.fixture(scope="module")
def document():
    return json.loads(run("--model", SMALL, "--isl", "512", "--osl", "64", "--concurrency", "8", "--json").stdout)


def test_the_document_has_the_contracts_fields(document):
    assert {"choices", "sglang_default"} <= set(document)
    for choice in (*document["choices"], document["sglang_default"]):
        assert set(choice) >= CHOICE
        assert choice["ttft_low_ms"] < choice["ttft_ms"] < choice["ttft_high_ms"]
        assert choice["kv_cache_dtype"] == "bf16"
    assert document["sglang_default"]["prefill_backend"] == "fa3"


@pytest.mark.parametrize(
    ("load", "goal"),
    [(["--rate", "3"], "tpot"), (["--rate", "3", "--goal", "ttft"], "ttft"), (["--concurrency", "3"], "throughput")],
)
def test_what_a_rate_leaves_open_counts_where_nobody_says(load, goal):
    found = json.loads(run("--model", SMALL, "--isl", "512", "--osl", "64", *load, "--json").stdout)
    assert found["goal"] == goal
    assert {"tpot": "in TPOT", "ttft": "in TTFT", "throughput": "in throughput"}[goal] in found["verdict"]


def test_choices_are_best_first(document):
    values = [(c["evidence"] == "structure", -c["tokens_per_s"]) for c in document["choices"]]
    assert values == sorted(values)


def test_each_part_of_a_step_has_its_origin(document):
    for step in ("prefill_step", "decode_step"):
        found = document["choices"][0][step]
        assert found["ms"] == pytest.approx(sum(part["ms"] for part in found["parts"].values()))
        assert all(part["evidence"] for part in found["parts"].values())


def test_refusals_a_front_and_disaggregation_come_with_it(document):
    assert document["refused"]["flashmla"]
    assert document["pareto"]
    assert document["disaggregated"]["kv_transfer_bytes"] == 512 * 24 * 8 * (64 + 64) * 2
    assert document["to_be_sure"][0].startswith("attnroof tune")


def test_the_table_says_the_verdict_first():
    result = run("--model", SMALL, "--concurrency", "8")
    assert result.exit_code == 0
    first = result.stdout.splitlines()[0]
    assert "SGLang's default" in first
    assert "matmul" in result.stdout
    assert "cannot be used: " in result.stdout


def test_a_load_that_was_not_given_is_said():
    result = run("--model", SMALL, "--json")
    assert "16 requests at all times are assumed" in result.stderr
    assert json.loads(result.stdout)["concurrency"] == 16


def test_neither_torch_nor_optuna_nor_scipy_is_imported():
    code = (
        "import sys; from typer.testing import CliRunner; from tests.cli.test_advise_command import run, SMALL;"
        "assert run('--model', SMALL, '--concurrency', '2', '--json').exit_code == 0;"
        "print([m for m in ('torch', 'optuna', 'scipy', 'triton') if m in sys.modules])"
    )
    root = Path(__file__).parents[2]
    result = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(("engine", "start"), [("sglang", "python -m sglang.launch_server"), ("vllm", "vllm serve")])
def test_emit_prints_one_line_alone(engine, start):
    result = run("--model", SMALL, "--concurrency", "4", "--emit", engine)
    assert result.stdout.startswith(start)
    assert len(result.stdout.strip().splitlines()) == 1


def test_emit_json_is_the_document():
    assert json.loads(run("--model", SMALL, "--concurrency", "4", "--emit", "json").stdout)["choices"]


def test_an_slo_that_nothing_keeps_ends_with_no():
    result = run("--model", SMALL, "--concurrency", "4", "--slo-tpot-ms", "0.5", "--json")
    assert isinstance(result.exception, AnswerIsNo)
    assert "above the SLO of 0.5 ms" in str(result.exception)
    assert json.loads(result.stdout)["choices"][0]["keeps_slo"] is False


def test_nothing_compatible_ends_with_no():
    result = run("--model", SMALL, "--concurrency", "1", "--kv-cache-dtype", "nvfp4")
    assert isinstance(result.exception, AnswerIsNo)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--model", LLAMA, "--concurrency", "4", "--rate", "2"], "exclude each other"),
        (["--model", LLAMA, "--rate", "-2"], "rate=-2"),
        (["--model", SMALL, "--rate", "9000"], "times too few"),
        (["--model", SMALL, "--isl", "100000", "--concurrency", "64"], "too much; at most"),
        (["--model", SMALL, "--isl", "200000", "--concurrency", "1"], "above the model's context"),
        (["--model", LLAMA, "--concurrency", "1", "--cached", "2000"], "cached=2000"),
        (["--model", LLAMA, "--concurrency", "1", "--slo-ttft-ms", "-1"], "SLO ttft_seconds"),
        (["--model", str(MODELS / "DeepSeek-V3"), "--concurrency", "1"], "537 GB too much; raise --tp"),
        (["--model", str(MODELS / "Kimi-K3"), "--tp", "8", "--concurrency", "1"], "70.5 GB too much; raise --tp"),
        (["--model", LLAMA, "--tp", "3", "--concurrency", "1"], "num_attention_heads=32"),
    ],
)
def test_bad_input_is_one_message(args, why):
    error = run(*args).exception
    assert isinstance(error, (WrongInput, ValueError))
    assert why in str(error)


def test_a_limit_brings_the_most_throughput_within_it():
    args = ("--model", SMALL, "--isl", "512", "--osl", "64", "--concurrency", "8", "--slo-tpot-ms", "6")
    shown = run(*args).stdout
    assert "most throughput within the SLO" in shown
    best = json.loads(run(*args, "--json").stdout)["best_within_slo"]
    assert best["tpot_ms"] <= 6
    assert best["evidence"] != "structure"
