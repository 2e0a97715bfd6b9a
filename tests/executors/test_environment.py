"""Devices are described, and those that are not there are named with what is."""

import sys

import pytest

from executors.environment import Environment, cpu_cores, detect, free_bytes, installed_version, last_level_cache_bytes


def test_this_cpu_is_described() -> None:
    here = detect("cpu")
    assert here.kind == here.device == "cpu"
    assert here.name
    assert here.sms == cpu_cores() >= 1
    assert here.torch == installed_version("torch")
    assert here.source == "live"
    assert 0 < free_bytes("cpu") <= (here.memory_bytes or 0)


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "cpu:1", ""])
def test_a_device_that_is_misspelt_is_refused(device: str) -> None:
    with pytest.raises(ValueError, match="is not 'cpu', 'cuda' or"):
        detect(device)


def test_a_machine_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="no CUDA device here"):
        detect("cuda:0")


def test_a_record_stores_the_device_in_mebibytes() -> None:
    device = Environment("cuda:0", "NVIDIA H200", "9.0", 132, 143771 << 20, "580.159").recorded()
    assert (device.name, device.cc, device.sms, device.memory_mib) == ("NVIDIA H200", "9.0", 132, 143771)


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's cache description")
def test_the_last_level_cache_is_larger_than_a_first_level_one() -> None:
    assert last_level_cache_bytes("cpu") >= 1 << 18


def test_a_package_that_is_not_there_has_no_version() -> None:
    assert installed_version("no-such-package-here") is None
