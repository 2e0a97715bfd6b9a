"""`--device all`: the command line of each worker, and its end."""

import subprocess
from typing import Any

import pytest

from cli import all_devices
from cli.all_devices import run_workers, worker_arguments
from cli.errors import WrongInput

TYPED = ["tune", "--model", "M", "--device", "all", "--trials=9", "--storage", "postgresql://h/d", "--json"]


def test_a_worker_gets_its_device_and_its_part() -> None:
    expected = [
        "tune",
        "--model",
        "M",
        "--storage",
        "postgresql://h/d",
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


def test_no_gpu_is_wrong_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hwprofiles.detect_devices", lambda: ())
    with pytest.raises(WrongInput, match="no GPU"):
        run_workers(TYPED, None)
