"""Which calibration a CPU run rests on: one made on this machine, never a shipped example of the same processor."""

import pytest

import executors.calibrate
from hwprofiles import Measured, Profile, detect_profile
from hwprofiles.library import calibrated_folder
from tuner import setup

EXAMPLE = Measured(date="2026-11-30T00:00:00Z", read_bytes_per_s=1e9)
HERE = Measured(date="2026-12-01T00:00:00Z", read_bytes_per_s=2e9)


def a_cpu(monkeypatch: pytest.MonkeyPatch, folder: str) -> list[str]:
    found: Profile = detect_profile("cpu").model_copy(update={"measured": EXAMPLE, "files": (f"{folder}/x.toml",)})
    monkeypatch.setattr(setup, "detect_profile", lambda device: found)
    monkeypatch.setattr(executors.calibrate, "quick_cpu", lambda: HERE)
    return []


def test_a_shipped_example_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    said = a_cpu(monkeypatch, "/somewhere/else")
    assert setup.device_profile("cpu", said.append).measured == HERE
    assert len(said) == 1


def test_a_calibration_of_this_machine_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    said = a_cpu(monkeypatch, str(calibrated_folder()))
    assert setup.device_profile("cpu", said.append).measured == EXAMPLE
    assert said == []
