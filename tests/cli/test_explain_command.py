"""`attnroof explain` as a command of its own."""

import json

import typer
from typer.testing import CliRunner

from cli.commands.explain import explain
from cli.errors import AnswerIsNo, WrongInput

app = typer.Typer()
app.command()(explain)
LLAMA = ("--model", "examples/models/Llama-3.1-8B", "--gpu", "h200")


def run(*arguments):
    """The result of one call."""
    return CliRunner().invoke(app, [*LLAMA, *arguments])


def test_picture_shows_tiles_slots_and_splits():
    out = run("--batch-spec", "q1s32k", "--backend", "fa3").stdout
    assert "128 query rows x 128 keys" in out
    assert "120 CTAs with 2048 tiles run on 132 slots" in out
    assert "12 slots without work" in out
    assert "Split count: best" in out
    assert "launch" in out


def test_without_a_backend_the_fastest_is_shown():
    assert "Where the time goes" in run("--batch-spec", "2q2k").stdout


def test_json_adds_up():
    (row,) = json.loads(run("--batch-spec", "8q1s4k", "--backend", "triton", "--json").stdout)
    assert sum(job["count"] * job["tiles"] for job in row["jobs"]) == 8 * 8 * 128
    assert sum(load["slots"] for load in row["slot_loads"]) <= row["slots"]
    assert set(map(str, row["split_plateau"])) <= set(row["split_us"])


def test_json_holds_the_stored_score_matrix():
    (row,) = json.loads(run("--batch-spec", "q32k", "--backend", "fa3", "--json").stdout)
    assert row["stored_scores"]["head_bytes"] == 2 * 2**30
    assert row["stored_scores"]["limit_us"] > row["latency_us"]


def test_errors():
    assert isinstance(run("--batch-spec", "8q1s4k", "--backend", "flashmla").exception, AnswerIsNo)
    assert isinstance(run("--batch-spec", "8q1s4k", "--knob", "num_splits=2").exception, WrongInput)
