"""The device's state is read from NVML, and what NVML withholds is None, not an error."""

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
import torch

from executors.conditions import Probe
from executors.outcome import Conditions


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    answers: dict[str, Any] = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceGetClockInfo": lambda gpu, kind: 1980,
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


def test_without_nvml_nothing_is_read(gpu: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    gpu.setattr(pynvml, "nvmlInit", absent)
    assert Probe("cuda:0").read() == Conditions()
