"""The device's state is read from NVML, and what NVML withholds is None, not an error."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
import torch

from executors.conditions import Probe, is_held_down, rest
from executors.outcome import Conditions


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    answers: dict[str, Any] = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceGetClockInfo": lambda gpu, kind: 1980,
        "nvmlDeviceGetMaxClockInfo": lambda gpu, kind: 1980,
        "nvmlDeviceGetPowerUsage": lambda gpu: 350_000,
        "nvmlDeviceGetTemperature": lambda gpu, kind: 41,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda gpu: 0x1 | 0x4 | 0x40,
        "nvmlDeviceGetComputeRunningProcesses": lambda gpu: [1, 2],
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="abc"))
    return monkeypatch


def test_the_state_is_read_in_base_units_and_idleness_is_no_throttling(gpu: pytest.MonkeyPatch) -> None:
    throttle = ("power cap", "thermal limit (hardware)")
    assert Probe("cuda:0").read() == Conditions(1.98e9, 350.0, 41.0, throttle)
    assert Probe("cuda:0").boost_clock_hz() == 1.98e9


def test_what_the_driver_withholds_is_none(gpu: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    gpu.setattr(pynvml, "nvmlDeviceGetPowerUsage", refuse)
    gpu.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", refuse)
    probe = Probe("cuda:0")
    assert probe.read().power_w is None
    assert probe.read().sm_clock_hz == 1.98e9
    assert probe.others() is None


def test_others_on_the_gpu_are_reported(gpu: pytest.MonkeyPatch) -> None:
    assert Probe("cuda:0").others() == "2 processes compute on this GPU"


def test_a_cpu_has_nothing_to_read() -> None:
    assert Probe("cpu").read() == Conditions()
    assert Probe("cpu").others() is None
    assert Probe("cpu").boost_clock_hz() is None


def test_without_nvml_nothing_is_read(gpu: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    gpu.setattr(pynvml, "nvmlInit", absent)
    assert Probe("cuda:0").read() == Conditions()


CAPPED = Conditions(sm_clock_hz=1.5e9, throttle=("power cap",))


@pytest.mark.parametrize(
    ("state", "boost", "held"),
    [
        (CAPPED, 1.98e9, True),
        (CAPPED, None, False),
        (replace(CAPPED, sm_clock_hz=1.9e9), 1.98e9, False),
        (replace(CAPPED, sm_clock_hz=None), 1.98e9, False),
        (replace(CAPPED, throttle=()), 1.98e9, False),
    ],
)
def test_only_a_capped_and_low_clock_is_held_down(state: Conditions, boost: float | None, held: bool) -> None:
    assert is_held_down(state, boost) == held


@pytest.mark.parametrize(("looks", "waited"), [(1, 0.05), (3, 0.15), (99, 0.5)])
def test_a_device_rests_until_its_clock_is_back(looks: int, waited: float) -> None:
    states = iter([CAPPED] * (looks - 1) + [replace(CAPPED, throttle=())])
    slept: list[float] = []
    assert rest(lambda: next(states), 1.98e9, slept.append) == pytest.approx(waited)
    assert sum(slept) == pytest.approx(waited)
