"""`attnroof ingest` as a user sees it."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli.commands import ingest
from cli.errors import AnswerIsNo, WrongInput

LLAMA = str(Path(__file__).parents[2] / "examples" / "models" / "Llama-3.1-8B")
SGLANG = {
    "backend": "sglang", "dataset_name": "random", "request_rate": 8.0, "max_concurrency": None, "duration": 25.0,
    "completed": 200, "total_input_tokens": 102400, "total_output_tokens": 12800, "output_throughput": 512.0,
    "mean_ttft_ms": 25.0, "mean_tpot_ms": 6.0, "server_info": {"attention_backend": "flashinfer", "page_size": 1},
}  # fmt: skip
VLLM = {**SGLANG, "num_prompts": 200, "burstiness": 1.0}
VLLM.pop("server_info")

app = typer.Typer()
app.command("ingest")(ingest.ingest)


@app.command("other")
def other() -> None:
    """Keep the app a group."""


def run(*args):
    return CliRunner().invoke(app, ["ingest", "--model", LLAMA, "--gpu", "h200", *args])


@pytest.fixture
def files(tmp_path):
    sglang, vllm, log = tmp_path / "s.jsonl", tmp_path / "v.json", tmp_path / "server.log"
    sglang.write_text(json.dumps(SGLANG) + "\n" + json.dumps(SGLANG) + "\n", encoding="utf-8")
    vllm.write_text(json.dumps(VLLM, indent=2), encoding="utf-8")
    log.write_text("Using TRITON_ATTN attention backend out of potential backends: [..]\n", encoding="utf-8")
    return str(sglang), str(vllm), str(log)


def test_every_run_is_compared(files):
    rows = json.loads(run(files[0], files[1], "--json").stdout)
    assert [row["engine"] for row in rows] == ["sglang", "sglang", "vllm"]
    for row in rows:
        assert {f["name"] for f in row["figures"]} == {"ttft_ms", "tpot_ms", "tokens_per_s"}
        for figure in row["figures"]:
            assert figure["low"] < figure["predicted"] < figure["high"]
        assert row["explanation"]


def test_vllm_decodes_inside_prefill_steps(files):
    def waits(*args):
        figures = json.loads(run(files[1], *args, "--json").stdout)[0]["figures"]
        return {f["name"]: f["predicted"] for f in figures}["ttft_ms"]

    fa3 = "--attention-backend fa3"
    assert waits() == waits("--server-args", f"{fa3} --enable-mixed-chunk")
    assert waits() != waits("--server-args", f"{fa3} --enable-mixed-chunk=false")


def test_what_ran_is_taken_from_the_result_the_log_or_the_arguments(files):
    assert json.loads(run(files[0], "--json").stdout)[0]["decode_backend"] == "flashinfer"
    assert json.loads(run(files[1], "--json").stdout)[0]["decode_backend"] == "fa3"
    assert json.loads(run(files[1], "--log", files[2], "--json").stdout)[0]["decode_backend"] == "triton"
    named = json.loads(run(files[1], "--server-args", "--attention-backend fa3 --page-size 64", "--json").stdout)[0]
    assert named["backend_from"] == "the launch arguments"


def test_a_table_is_printed_otherwise(files):
    result = run(files[1])
    assert result.exit_code == 0
    assert "ttft_ms" in result.stdout
    assert "ran with fa3 (nothing tells: SGLang's own choice is assumed, which need not be vLLM's)" in result.stdout
    assert "is furthest off" in result.stdout


@pytest.mark.parametrize(
    ("text", "args", "why"),
    [
        ("", [], "is empty"),
        ("hello", [], "line 1: no JSON object"),
        (json.dumps({"a": 1}), [], "'completed' is missing"),
        (json.dumps({**VLLM, "duration": "soon"}), [], "duration='soon' is no finite number"),
        (json.dumps(VLLM), ["--log", "/no/such/log"], "is no file"),
        (json.dumps({**VLLM, "duration": 10**400}), [], "is no finite number"),
        ('{"completed": 1' + "0" * 5000 + "}", [], "line 1: no JSON object"),
        (json.dumps({**VLLM, "total_input_tokens": 1e300}), [], "tokens each on average"),
        (json.dumps(VLLM), ["--server-args", "--port 1"], "names no attention option"),
        (json.dumps(VLLM), ["--server-args", '--attention-backend "fa3'], "cannot be split into words"),
        (json.dumps(VLLM), ["--server-args", "--attention-backend"], "lacks its value"),
        (json.dumps(VLLM), ["--server-args", "--attention-backend fa3 --tp-size 0"], "no whole number above 0"),
        (json.dumps(VLLM), ["--server-args", "--attention-backend fa3 --page-size=x"], "no whole number above 0"),
    ],
)
def test_bad_files_are_one_message(tmp_path, text, args, why):
    path = tmp_path / "result.json"
    path.write_text(text, encoding="utf-8")
    error = run(str(path), *args).exception
    assert isinstance(error, (WrongInput, ValueError))
    assert why in str(error)


def test_a_log_without_a_word_about_attention_is_told(files, tmp_path):
    log = tmp_path / "other.log"
    log.write_text("nothing here\n", encoding="utf-8")
    assert "is it a server's log" in str(run(files[1], "--log", str(log)).exception)


def test_a_backend_that_cannot_have_run_there_ends_with_no(files):
    result = run(files[1], "--server-args", "--attention-backend flashmla")
    assert isinstance(result.exception, AnswerIsNo)
    assert "is --gpu the device" in str(result.exception)


def test_files_of_gigabytes_are_not_read(files, monkeypatch):
    monkeypatch.setattr(ingest, "LARGEST_BYTES", 100)
    assert "split it" in str(run(files[1]).exception)
