"""`--device all`: the command line of each worker, and its end."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli import all_devices
from cli.all_devices import run_workers, worker_arguments
from cli.errors import WrongInput
from cli.main import main

TYPED = ["tune", "--model", "M", "--device", "all", "--trials=9", "--storage", "postgresql://h/d", "--json"]


def test_a_worker_gets_its_device_and_its_part() -> None:
    expected = [
        "tune",
        "--model",
        "M",
        "--storage",
        "postgresql://h/d",
        "--json",
        "--device",
        "cuda:1",
        "--worker",
        "--trials",
        "5",
    ]
    assert worker_arguments(TYPED, "cuda:1", 5) == expected


class Worker:
    started: list[list[str]] = []  # noqa: RUF012

    def __init__(self, command: list[str], **_: Any) -> None:
        self.started.append(command)

    def wait(self) -> int:
        return len(self.started) - 1


def test_one_worker_per_gpu_and_the_worst_code(monkeypatch: pytest.MonkeyPatch) -> None:
    Worker.started.clear()
    monkeypatch.setattr(all_devices, "gpus", lambda: ["cuda:0", "cuda:1"])
    monkeypatch.setattr(subprocess, "Popen", Worker)
    assert run_workers(TYPED, 9) == 1
    assert [c[c.index("--device") + 1] for c in Worker.started] == ["cuda:0", "cuda:1"]
    assert all(c[-1] == "5" for c in Worker.started)


def test_a_killed_worker_is_named_and_ends_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Worker.started.clear()
    monkeypatch.setattr(all_devices, "gpus", lambda: ["cuda:0", "cuda:1"])
    monkeypatch.setattr(subprocess, "Popen", Worker)
    monkeypatch.setattr(Worker, "wait", lambda worker: -9)
    assert run_workers(TYPED, None) == 2
    assert "the worker on cuda:1 was ended by signal 9" in capsys.readouterr().err


def test_no_gpu_is_wrong_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hwprofiles.detect_devices", lambda: ())
    with pytest.raises(WrongInput, match="no GPU"):
        run_workers(TYPED, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--storage", "mysql://user:hidden@host/x"], "mysql is not supported"),
        (["--storage", "sqlite:////missing/study.db"], "does not exist"),
        (["--backend", "nope"], "unknown backend"),
        (["--study", "x" * 65], "study="),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "all"])
def test_wrong_input_is_met_once_and_before_any_device(
    device: str, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def opened(*_: object, **__: object) -> None:
        pytest.fail("a device was opened")

    monkeypatch.setattr("executors.isolated.IsolatedMeasurer", opened)
    monkeypatch.setattr(subprocess, "Popen", opened)
    model = str(Path(__file__).parents[2] / "examples" / "models" / "Qwen3-0.6B")
    monkeypatch.setattr("sys.argv", ["attnroof", "tune", "--model", model, "--device", device, *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.count("attnroof: ") == 1
    assert message in error
    assert "hidden" not in error
