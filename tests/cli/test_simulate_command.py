"""`attnroof simulate` as a user sees it."""

import gzip
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli.commands import simulate
from cli.errors import AnswerIsNo, WrongInput

LLAMA = str(Path(__file__).parents[2] / "examples" / "models" / "Llama-3.1-8B")
SYNTHETIC = ("--isl", "256", "--osl", "32", "--num-requests", "200")
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.68,374,44\r\n2023-11-16 18:15:50.99,396,109\r\n"
MOONCAKE = "".join(
    json.dumps({"timestamp": 500 * i, "input_length": 1100, "output_length": 8, "hash_ids": [0, 1, 100 + i]}) + "\n"
    for i in range(5)
)

app = typer.Typer()
app.command("simulate")(simulate.simulate)


@app.command("other")
def other() -> None:
    """Keep the app a group."""


def run(*args):
    return CliRunner().invoke(app, ["simulate", "--model", LLAMA, "--gpu", "h200", *args])


def document(*args):
    result = run(*args, "--json")
    assert result.exception is None
    return json.loads(result.stdout)


def test_a_poisson_load_has_percentiles_and_goodput():
    found = document(*SYNTHETIC, "--rps", "10", "--slo-ttft-ms", "1000")
    assert found["requests"] == 200
    assert found["output_tokens"] == 200 * 32
    assert found["ttft_ms"]["p50"] <= found["ttft_ms"]["p90"] <= found["ttft_ms"]["p99"] <= found["ttft_ms"]["max"]
    assert found["goodput_requests_per_s"] == pytest.approx(found["requests_per_s"])
    assert found["prefill_backend"] == found["decode_backend"] == "fa3"


def test_seeds_decide():
    args = (*SYNTHETIC, "--rps", "10", "--spread", "0.5")
    assert document(*args, "--seed", "1") == document(*args, "--seed", "1")
    assert document(*args, "--seed", "1")["ttft_ms"] != document(*args, "--seed", "2")["ttft_ms"]


def test_a_closed_loop_keeps_its_concurrency():
    assert document(*SYNTHETIC, "--concurrency", "16")["mean_running"] == pytest.approx(16, rel=0.1)


def test_named_backends_and_settings_are_used():
    found = document(*SYNTHETIC, "--rps", "10", "--prefill-backend", "flashinfer", "--decode-backend", "triton")
    assert (found["prefill_backend"], found["decode_backend"]) == ("flashinfer", "triton")
    drafted = document(*SYNTHETIC, "--rps", "10", "--draft-tokens", "4", "--enable-mixed-chunk", "--ignore-eos")
    assert drafted["decode_steps"] < found["decode_steps"]


def test_a_table_is_printed_otherwise():
    result = run(*SYNTHETIC, "--rps", "10")
    assert result.exit_code == 0
    assert "TTFT" in result.stdout
    assert "200 requests in" in result.stdout


def trace(tmp_path, text, *args):
    path = tmp_path / "trace"
    path.write_bytes(text.encode())
    return run("--trace", str(path), *args)


def test_a_trace_brings_times_and_lengths(tmp_path):
    found = json.loads(trace(tmp_path, AZURE, "--json").stdout)
    assert (found["requests"], found["input_tokens"], found["output_tokens"]) == (2, 770, 153)
    assert 4.31 < found["seconds"] < 6


def test_a_packed_trace_is_read_and_one_that_is_cut_off_is_said(tmp_path):
    whole, cut = tmp_path / "a.csv.gz", tmp_path / "cut.csv.gz"
    packed = gzip.compress(AZURE.encode())
    whole.write_bytes(packed)
    cut.write_bytes(packed[:-12])
    assert document("--trace", str(whole))["requests"] == 2
    error = run("--trace", str(cut)).exception
    assert isinstance(error, WrongInput)
    assert "cut off" in str(error)


def test_a_traces_shared_blocks_hit_the_prefix_cache(tmp_path):
    found = json.loads(trace(tmp_path, MOONCAKE, "--json").stdout)
    assert found["cached_tokens"] == 4 * 1024


def test_a_trace_can_be_cut_and_respaced(tmp_path):
    found = json.loads(trace(tmp_path, MOONCAKE, "--json", "--num-requests", "3", "--rps", "100").stdout)
    assert found["requests"] == 3
    assert found["seconds"] < 0.5


def test_conversations_need_a_load(tmp_path):
    talks = json.dumps([{"conversations": [{"value": "hello there"}, {"value": "hi"}]}])
    assert "has no arrival times" in str(trace(tmp_path, talks).exception)
    found = json.loads(trace(tmp_path, talks, "--concurrency", "1", "--json").stdout)
    assert found["requests"] == 1
    assert "characters / 4" in found["notes"][0]


@pytest.mark.parametrize(
    ("text", "args", "why"),
    [
        (AZURE + "2023-11-16 18:15:40,1,1\r\n", [], "line 4: time goes back"),
        (AZURE + "2023-11-16 18:15:59,0,1\r\n", [], "line 4: ContextTokens='0'"),
        ("a,b\n1,2\n", [], "no known header"),
        ("", [], "is empty"),
        ("TIMESTAMP,ContextTokens\0,GeneratedTokens\n", [], "no UTF-8 text"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens,ContextTokens\n", [], "'ContextTokens' is there twice"),
        (AZURE + "2023-11-16 18:15:59,1," + "1" * 200_000, [], "line 4: cannot be split into cells"),
        (AZURE, ["--time-unit", "ms"], "are dates, which have no unit"),
        ("[" * 200_000, ["--rps", "1"], "line 1: a conversation nests too deeply"),
        ('[{"id": 1' + "0" * 5000 + "}]", ["--rps", "1"], "a number of thousands of digits"),
        (AZURE, ["--isl", "5"], "brings its own lengths"),
        (AZURE, ["--spread", "0.5"], "brings its own lengths"),
        (AZURE, ["--prefix-share", "0.5"], "brings its own prefixes"),
        (AZURE, ["--cv", "2"], "give --rps or leave it out"),
        (AZURE, ["--rps", "-1"], "rate=-1.0 must be positive and finite"),
    ],
)
def test_bad_traces_are_one_message(tmp_path, text, args, why):
    error = trace(tmp_path, text, *args).exception
    assert isinstance(error, (WrongInput, ValueError))
    assert why in str(error)


def test_bad_rows_can_be_left_out(tmp_path):
    result = trace(tmp_path, AZURE + "2023-11-16 18:15:59,0,1\r\n", "--skip-bad-rows")
    assert "1 rows were left out, the first: line 4" in result.stdout


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ([], "give --trace FILE"),
        (["--isl", "5"], "give --trace FILE"),
        (["--isl", "5", "--osl", "5", "--rps", "1", "--concurrency", "2"], "exclude each other"),
        (["--isl", "5", "--osl", "5", "--rps", "nan"], "rate=nan"),
        (["--isl", "5", "--osl", "5", "--rps", "1", "--cv", "-1"], "cv=-1"),
        (["--isl", "5", "--osl", "5", "--rps", "1", "--spread", "2"], "spread=2"),
        (["--isl", "5", "--osl", "5", "--rps", "1", "--draft-tokens", "4", "--acceptance", "1.5"], "acceptance=1.5"),
        (["--isl", "5", "--osl", "5", "--rps", "1", "--cv", "1e200"], "cv=1e+200 must be 0"),
        (["--isl", "5", "--osl", "5", "--concurrency", "1", "--cv", "2"], "give --rps or leave it out"),
        (["--isl", "5", "--osl", "5", "--rps", "1", "--acceptance", "0.5"], "give --draft-tokens"),
        (["--isl", "5", "--osl", "5", "--rps", "1", "--time-unit", "ms"], "give a trace or leave them out"),
        (["--trace", "/no/such/file"], "is no file"),
        (["--isl", "5", "--osl", "5", "--rps", "1", "--backend", "flashinfr"], "did you mean flashinfer"),
    ],
)
def test_bad_options_are_one_message(args, why):
    error = run(*args).exception
    assert isinstance(error, (WrongInput, ValueError))
    assert why in str(error)


def test_a_backend_that_cannot_serve_ends_with_no():
    result = run(*SYNTHETIC, "--rps", "1", "--backend", "flashmla")
    assert isinstance(result.exception, AnswerIsNo)
    assert "MLA" in str(result.exception)


@pytest.mark.parametrize(
    ("isl", "why"),
    [
        ("200000", "longer than the model's context of 131072 tokens: the shortest has 200005"),
        ("131068", "longer than the model's context of 131072 tokens: the shortest has 131073"),
    ],
)
def test_requests_that_never_fit_end_with_no_and_by_how_much(isl, why):
    result = run("--isl", isl, "--osl", "5", "--rps", "1", "--num-requests", "2")
    assert isinstance(result.exception, AnswerIsNo)
    assert why in str(result.exception)
    assert not result.stdout
