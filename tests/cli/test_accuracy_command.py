"""`attnroof accuracy` as a command of its own."""

import json

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from cli.commands.accuracy import accuracy
from cli.errors import AnswerIsNo, WrongInput
from costmodel import Record
from costmodel.record import RecordedBatch, RecordedDevice
from hwprofiles import load_profile

app = typer.Typer()
app.command()(accuracy)


def run(*arguments):
    """The result of one call."""
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def records(tmp_path):
    """A file with one record and one damaged line."""
    record = Record(
        attention={"num_qo_heads": 32, "num_kv_heads": 8, "head_dim": 128},
        batch=RecordedBatch(phase="decode", q_lens=[1, "*", 8], kv_lens=[4096, "*", 8], page_size=64),
        backend="fa3",
        implementation="flash_attn_interface",
        implementation_version="3.0.0",
        outcome="measured",
        latency_us=50.0,
        device=RecordedDevice(name="NVIDIA H200"),
        time="2026-11-30T14:05:09Z",
    )
    file = tmp_path / "some.jsonl"
    file.write_text(record.to_line() + "\n" + record.to_line()[:40] + "\n")
    return file


def test_prints_and_counts_damage(records):
    result = run("--records", str(records))
    assert result.exit_code == 0
    assert "fa3" in result.stdout
    assert "1 damaged" in result.stderr


@pytest.mark.parametrize(("width", "baselines"), [(80, False), (100, True), (120, True)])
def test_the_table_is_readable_at_every_width(records, monkeypatch, width, baselines):
    def console():
        return Console(width=width, highlight=False, markup=False)

    monkeypatch.setattr("cli.output.stdout_console", console)
    shown = run("--records", str(records)).stdout
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    assert ("noise" in shown) == baselines


def test_json(records):
    (document,) = json.loads(run("--records", str(records), "--json").stdout)
    assert document["device"] == load_profile("h200").id
    assert document["groups"][0]["rows"] == 1


def test_without_records(tmp_path):
    missing = run("--records", str(tmp_path / "none")).exception
    assert isinstance(missing, WrongInput)
    assert "--records" in str(missing)
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert isinstance(run("--records", str(empty)).exception, AnswerIsNo)


def test_rows_under_the_power_cap_are_counted_apart(records):
    record = Record.from_line(records.read_text().splitlines()[0])
    capped = record.model_copy(update={"throttle": ("power cap",), "sm_clock_mhz": 1400.0})
    records.write_text(f"{record.to_line()}\n{capped.to_line()}\n")
    assert "1 rows under the power cap left out" in " ".join(run("--records", str(records)).stdout.split())
    (found,) = json.loads(run("--records", str(records), "--json").stdout)
    assert (found["groups"][0]["rows"], found["power_capped"]["rows"], found["independent"]) == (1, 1, [])
