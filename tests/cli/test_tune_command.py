"""`tune`, `validate`, `export` and `diff` by their entry point, on a simulated GPU."""

import errno
import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tuner.setup
from cli.main import main
from executors.isolated import WorkerFailed
from executors.outcome import Conditions, Failed, Measured, Outcome
from executors.simulated import SimulatedMeasurer
from hwprofiles import load_profile
from tuner.configuration import ConfigurationError, loads
from tuner.presence import presence
from tuner.store import open_store

MODEL = str(Path(__file__).parents[2] / "examples" / "models" / "Qwen3-0.6B")
H200 = load_profile("h200")
SPECS = ["--batch-spec", "q2k", "--batch-spec", "4q1s8k"]
BACKENDS = ("fa3", "flashinfer", "triton")


class Simulated(SimulatedMeasurer):
    """A simulated H200 in the place of the worker process."""

    def __init__(
        self, device: str = "cuda:0", backends: list[str] | None = None, *, until: float | None = None, **options: Any
    ) -> None:
        super().__init__(H200, backends=backends or BACKENDS, **options)

    def __enter__(self) -> "Simulated":
        return self

    def __exit__(self, *_: object) -> None:
        return None


@pytest.fixture(autouse=True)
def simulated_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("executors.isolated.IsolatedMeasurer", Simulated)
    monkeypatch.setattr("tuner.setup.detect_profile", lambda device: H200)
    return


def run(*arguments: str) -> int:
    """Run the command line; the exit code."""
    old, sys.argv = sys.argv, ["attnroof", *arguments]
    try:
        main()
        return 0
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.argv = old


def tune(out: Path, *arguments: str) -> int:
    return run("tune", "--model", MODEL, "--device", "cuda:0", "--out", str(out), *SPECS, *arguments)


def saved(out: Path) -> Path:
    return next(out.glob("attn,*.json"))


def test_tune_prints_the_table_the_file_and_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(tmp_path) == 0
    shown = capsys.readouterr().out
    for text in ("predicted us", "measured us", "error", "winner", "saved", "attnroof validate", "attnroof export"):
        assert text in shown
    assert saved(tmp_path).name.startswith("attn,device_name=H200")
    assert (tmp_path / "records.jsonl").read_text().count("\n") >= 8


def test_json_is_one_document_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(tmp_path, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert {row["spec"] for row in document["rows"]} == {"q2k", "4q1s8k"}
    assert document["files"] == [str(saved(tmp_path))]
    for row in document["rows"]:
        assert row["best"]["measured_us"] > 0
        assert row["counts"]["measured"] >= 2


def test_an_existing_study_needs_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(tmp_path) == 0
    first = saved(tmp_path).read_text()
    assert tune(tmp_path) == 2
    assert "--resume" in capsys.readouterr().err
    lines = (tmp_path / "records.jsonl").read_text()
    assert tune(tmp_path, "--resume") == 0
    assert (tmp_path / "records.jsonl").read_text() == lines
    assert json.loads(first)["decode"].keys() == json.loads(saved(tmp_path).read_text())["decode"].keys()
    assert tune(tmp_path, "--study", "another") == 0


def test_only_the_backends_that_were_asked_for_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(tmp_path, "--backend", "triton", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["best"]["backend"] for row in rows} == {"triton"}


@pytest.mark.parametrize(("more", "other"), [((), "another attnroof tune"), (("--worker",), "without --worker")])
def test_two_runs_do_not_measure_at_the_same_time(
    more: tuple[str, ...], other: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with presence(f"sqlite:///{tmp_path / 'study.db'}", "attnroof", shared=False):
        assert tune(tmp_path, "--resume", *more) == 2
    error = capsys.readouterr().err
    assert other in error
    assert not (tmp_path / "records.jsonl").exists()
    assert tune(tmp_path, "--resume", *more) == 0


def test_workers_get_along_and_keep_a_run_by_itself_out(tmp_path: Path) -> None:
    with presence(f"sqlite:///{tmp_path / 'study.db'}", "attnroof", shared=True):
        assert tune(tmp_path, "--worker") == 0
        assert tune(tmp_path, "--resume") == 2
        assert tune(tmp_path, "--study", "another") == 0


def test_a_folder_that_cannot_be_written_is_met_before_the_device_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path, text: str) -> None:
        raise ConfigurationError(f"cannot write {path}: Read-only file system")

    monkeypatch.setattr("tuner.tune.write_atomically", full)
    monkeypatch.setattr("tuner.setup.detect_profile", lambda device: pytest.fail("the device was opened"))
    assert tune(tmp_path) == 2
    assert "Read-only file system" in capsys.readouterr().err


def told(out: Path) -> Counter[tuple[str, str]]:
    """How often each study was told an outcome of each candidate."""
    store = open_store(f"sqlite:///{out / 'study.db'}")
    studies = [(s.study_name, store.storage.get_all_trials(s._study_id)) for s in store.storage.get_all_studies()]
    store.close()
    return Counter(
        (n, t.user_attrs["result"]["candidate"]) for n, trials in studies for t in trials if t.user_attrs.get("result")
    )


@pytest.mark.parametrize(
    ("place", "error", "message"),
    [
        ("cli_measurer", WorkerFailed("the worker process for cuda:0 did not start"), "go on with --resume"),
        ("records", OSError(errno.ENOSPC, "No space left on device", "records.jsonl"), "No space left on device"),
    ],
    ids=["the GPU falls off", "the disk is full"],
)
def test_what_was_measured_survives_and_is_not_measured_again(
    place: str,
    error: Exception,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls = [0]
    owner, name = (Simulated, "measure") if place == "cli_measurer" else (tuner.setup, "append_records")
    works = getattr(owner, name)

    def fails_later(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] == 2:
            raise error
        return works(*arguments, **options)

    with monkeypatch.context() as broken:
        broken.setattr(owner, name, fails_later)
        assert tune(tmp_path) == 2
    assert message in capsys.readouterr().err
    before = told(tmp_path)
    assert before
    assert tune(tmp_path, "--resume") == 0
    assert "unfinished trial" in capsys.readouterr().out
    after = told(tmp_path)
    assert before.keys() < after.keys()
    assert set(after.values()) == {1}
    assert {"q2k", "4q1s8k"} == {row.spec for row in loads(saved(tmp_path).read_text()).rows}


def test_trials_are_a_total(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(tmp_path, "--trials", "4", "--json") == 0
    assert json.loads(capsys.readouterr().out)["trials"] <= 4


def test_plan_only_runs_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert tune(out, "--plan-only", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert [p["spec"] for p in plan] == ["q2k", "4q1s8k"]
    assert all(p["candidates"] >= len(p["first"]) > 1 for p in plan)
    assert not out.exists()
    assert tune(out, "--plan-only") == 0
    assert "plan: about" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "/nonexistent"], "nonexistent"),
        (["--batch-spec", "nonsense"], "nonsense"),
        (["--storage", "nonsense"], "not a URL"),
        (["--study", ""], "study="),
        (["--backend", "fa33"], "fa3"),
        (["--tp", "7"], "multiple of tp"),
        (["--batch-spec", "4000q1s1024k"], "memory"),
        (["--out", "/proc/nothing"], "/proc/nothing"),
    ],
)
def test_wrong_input_is_one_message_and_exit_2(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("tune", "--model", MODEL, "--device", "cuda:0", "--out", str(tmp_path), *SPECS, *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_damaged_file_in_the_place_of_the_result_stops_before_time_is_spent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune(tmp_path) == 0
    saved(tmp_path).write_text("{")
    assert tune(tmp_path, "--study", "again") == 2
    assert "damaged" in capsys.readouterr().err


def test_validate_holds_and_is_lost_when_another_candidate_became_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune(tmp_path) == 0
    config = str(saved(tmp_path))
    capsys.readouterr()
    assert run("validate", "--config", config, "--device", "cuda:0", "--json") == 0
    findings = json.loads(capsys.readouterr().out)
    assert {f["finding"] for f in findings} == {"holds"}
    best = findings[0]["best"]
    faults = {best: Failed("crashed", "gone")}
    monkeypatch.setattr("executors.isolated.IsolatedMeasurer", lambda device: Simulated(device, faults=faults))
    assert run("validate", "--config", config, "--device", "cuda:0") == 1
    assert "do not hold" in capsys.readouterr().err


def test_validate_refuses_the_configuration_of_another_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tune(tmp_path) == 0
    l40s = load_profile("l40s")
    other = SimulatedMeasurer(l40s, backends=("triton",))
    monkeypatch.setattr(Simulated, "environment", lambda self: other.environment())
    assert run("validate", "--config", str(saved(tmp_path)), "--device", "cuda:0") == 2
    assert "the configuration is of" in capsys.readouterr().err


def busy(outcome: Outcome) -> Outcome:
    """The same outcome, measured while others used the machine and the winner was slowed down."""
    assert isinstance(outcome, Measured)
    disturbed = Conditions(busy="busy machine: 3 of 9 samples were interrupted by other processes")
    return replace(outcome, conditions=disturbed)


def test_a_busy_machine_does_not_make_a_winner_lose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune(tmp_path) == 0
    config = str(saved(tmp_path))
    quiet = Simulated.measure

    def slowed(self: Simulated, attention: Any, batch: Any, candidates: Any, **options: Any) -> dict[str, Outcome]:
        found = {key: busy(o) for key, o in quiet(self, attention, batch, candidates, **options).items()}
        first = found[candidates[0].key]
        assert isinstance(first, Measured)
        return found | {candidates[0].key: replace(first, seconds=tuple(2 * s for s in first.seconds))}

    monkeypatch.setattr(Simulated, "measure", slowed)
    capsys.readouterr()
    assert run("validate", "--config", config, "--device", "cuda:0", "--json") == 1
    shown = capsys.readouterr()
    assert {f["finding"] for f in json.loads(shown.out)} == {"unsteady"}
    assert "nothing can be said while the machine is busy" in shown.err
    assert "do not hold" not in shown.err


def test_export_in_every_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(tmp_path) == 0
    config = str(saved(tmp_path))
    capsys.readouterr()
    assert run("export", "--config", config, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["schema_version"] == 1
    assert run("export", "--config", config, "--format", "sglang") == 0
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith("python -m sglang.launch_server --model-path Qwen3-0.6B")
    assert "attention-backend" in line
    assert run("export", "--config", config, "--format", "vllm", "--json") == 0
    assert json.loads(capsys.readouterr().out)["engine"] == "vllm"
    assert run("export", "--config", config, "--format", "attune") == 0
    attune = json.loads(capsys.readouterr().out)
    assert attune["schema_version"] == "attune/1"
    assert all(len(key.split(":")) == 2 for key in (*attune["decode"], *attune["prefill"]))


@pytest.mark.parametrize(("form", "flag"), [("sglang", "--dtype float16"), ("vllm", "--dtype float16")])
def test_a_launch_line_names_a_dtype_that_is_not_the_models(
    form: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune(tmp_path, "--dtype", "fp16") == 0
    capsys.readouterr()
    assert run("export", "--config", str(saved(tmp_path)), "--format", form) == 0
    assert flag in capsys.readouterr().out.splitlines()[0]


def test_export_over_a_traffic_says_what_it_loses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(tmp_path) == 0
    capsys.readouterr()
    traffic = ["--isl", "2048", "--osl", "512", "--concurrency", "4"]
    assert run("export", "--config", str(saved(tmp_path)), "--format", "sglang", *traffic, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["weighted"] == "by the traffic"
    assert document["loss"] >= 0
    assert run("export", "--config", str(saved(tmp_path)), "--format", "sglang", "--isl", "5") == 2


def test_export_and_diff_of_what_is_no_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = tmp_path / "E=8,N=14336,device_name=NVIDIA_H200.json"
    foreign.write_text(json.dumps({"16": {"BLOCK_SIZE_M": 16}}))
    for arguments in (
        ["export", "--config", str(foreign)],
        ["validate", "--config", str(foreign)],
        ["diff", str(foreign), str(foreign)],
    ):
        assert run(*arguments) == 2
        assert "not an attnroof configuration" in capsys.readouterr().err


def test_diff_finds_what_became_slower(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tuner.configuration import dumps, loads

    assert tune(tmp_path) == 0
    before = saved(tmp_path)
    made = loads(before.read_text())
    row = next(iter(made.decode.values()))
    slow = row.model_copy(
        update={
            "best": row.best.model_copy(
                update={"measured_us": 1.5 * (row.best.measured_us or 1), "p10_us": None, "p90_us": None}
            )
        }
    )
    after = tmp_path / "after.json"
    after.write_text(dumps(made.model_copy(update={"decode": {row.key: slow}})))
    capsys.readouterr()
    assert run("diff", str(before), str(after), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["summary"]["slower"] == 1
    assert document["differences"][0]["ratio"] == pytest.approx(1.5)
    assert run("diff", str(before), str(after), "--fail-on-slower") == 1
    assert run("diff", str(tmp_path / "records.jsonl"), str(tmp_path / "records.jsonl")) == 0
    assert "0 slower" in capsys.readouterr().out


def test_without_batches_the_model_chooses_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["tune", "--model", MODEL, "--device", "cuda:0", "--out", str(tmp_path), "--plan-only", "--json"]
    assert run(*arguments) == 0
    plan = json.loads(capsys.readouterr().out)
    assert {p["phase"] for p in plan} == {"extend", "decode", "verify"}
    assert len(plan) <= 18


def test_diff_of_what_has_nothing_in_common_is_no_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune(tmp_path) == 0
    assert run("diff", str(saved(tmp_path)), str(tmp_path / "records.jsonl")) == 2
    assert "no call is in both" in capsys.readouterr().err
