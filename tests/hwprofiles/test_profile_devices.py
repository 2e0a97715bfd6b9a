from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hwprofiles.amd import amd_devices
from hwprofiles.match import match
from hwprofiles.nvidia import nvidia_devices

MIB = 1 << 20


class NvmlError(Exception):
    pass


class Nvml:
    """NVML of a machine with two H200."""

    NVMLError = NvmlError
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def __init__(self, mig: bool = False, driver: bool = True) -> None:
        self.mig, self.has_driver, self.open = mig, driver, False

    def nvmlInit(self) -> None:
        if not self.has_driver:
            raise NvmlError
        self.open = True

    def nvmlShutdown(self) -> None:
        self.open = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        values: dict[str, Any] = {
            "nvmlSystemGetDriverVersion": "580.159",
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetName": b"NVIDIA H200",
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetNumGpuCores": 132 * 128,
            "nvmlDeviceGetMigMode": (int(self.mig), int(self.mig)),
            "nvmlDeviceGetMaxMigDeviceCount": 7,
            "nvmlDeviceGetAttributes_v2": SimpleNamespace(multiprocessorCount=60, gpuInstanceSliceCount=3),
            "nvmlDeviceGetPowerManagementLimit": 700_000,
            "nvmlDeviceGetMemoryBusWidth": 6144,
        }

        def answer(*arguments: Any) -> Any:
            if name == "nvmlDeviceGetHandleByIndex":
                return f"gpu{arguments[0]}"
            if name == "nvmlDeviceGetUUID":
                return f"GPU-{arguments[0]}"
            if name == "nvmlDeviceGetMaxClockInfo":
                return 1980 if arguments[1] == self.NVML_CLOCK_SM else 3201
            if name == "nvmlDeviceGetMemoryInfo":
                return SimpleNamespace(total=(143771 if arguments[0].startswith("gpu") else 71000) * MIB)
            if name == "nvmlDeviceGetMigDeviceHandleByIndex" and arguments[1] < 2:
                return f"slice{arguments[1]}"
            if name in values:
                return values[name]
            raise NvmlError

        return answer


def test_two_whole_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml = Nvml()
    first, second = nvidia_devices(nvml)
    assert not nvml.open
    assert (first.device, second.device, first.name) == ("cuda:0", "cuda:1", "NVIDIA H200")
    assert (first.num_sms, first.memory_bytes, first.arch_target) == (132, 143771 * MIB, "sm_90")
    assert (first.boost_clock_hz, first.power_limit_w, first.driver) == (1.98e9, 700.0, "580.159")
    assert first.memory_bytes_per_s == 6144 / 8 * 3201e6 * 2
    assert match(first).profile.id == "nvidia-h200-sxm-141gb"


@pytest.mark.parametrize(("visible", "count"), [("1", 1), ("1,0", 2), ("GPU-gpu1", 1), ("", 0), ("-1", 0), ("7", 0)])
def test_visible_devices_are_respected(monkeypatch: pytest.MonkeyPatch, visible: str, count: int) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert len(nvidia_devices(Nvml())) == count


def test_mig_slices_take_the_place_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    slices = nvidia_devices(Nvml(mig=True))
    assert [s.device for s in slices] == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    assert (slices[0].partition, slices[0].num_sms, slices[0].memory_bytes) == ("MIG 3g", 60, 71000 * MIB)


def test_no_driver_is_no_device() -> None:
    assert nvidia_devices(Nvml(driver=False)) == ()


def kfd(root: Path, compute: str = "SPX") -> None:
    """An MI300X behind a processor node."""
    nodes = root / "sys/class/kfd/kfd/topology/nodes"
    for number, text in ((0, "cpu_cores_count 96\nsimd_count 0\n"), (1, "")):
        (nodes / str(number) / "mem_banks/0").mkdir(parents=True)
        (nodes / str(number) / "properties").write_text(text)
    (nodes / "1/properties").write_text(
        "simd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\ndrm_render_minor 128\nmax_engine_clk_fcompute 2100\n"
    )
    (nodes / "1/mem_banks/0/properties").write_text(f"heap_type 1\nsize_in_bytes {196592 * MIB}\n")
    card = root / "sys/class/drm/renderD128/device"
    card.mkdir(parents=True)
    (card / "product_name").write_text("AMD Instinct MI300X OAM\n")
    (card / "current_compute_partition").write_text(compute + "\n")
    (card / "current_memory_partition").write_text("NPS1\n")


def test_an_instinct_is_read_from_kfd(tmp_path: Path) -> None:
    kfd(tmp_path)
    (seen,) = amd_devices(tmp_path)
    assert (seen.name, seen.num_sms, seen.arch_target) == ("AMD Instinct MI300X OAM", 304, "gfx942")
    assert (seen.memory_bytes, seen.boost_clock_hz, seen.partition) == (196592 * MIB, 2.1e9, None)
    assert match(seen).profile.id == "amd-mi300x"


def test_a_partition_mode_is_read_from_sysfs(tmp_path: Path) -> None:
    kfd(tmp_path, compute="CPX")
    assert amd_devices(tmp_path)[0].partition == "CPX"


@pytest.mark.parametrize(("version", "target"), [(90010, "gfx90a"), (90500, "gfx950"), (110000, "gfx1100")])
def test_chip_names_are_hexadecimal(tmp_path: Path, version: int, target: str) -> None:
    kfd(tmp_path)
    properties = tmp_path / "sys/class/kfd/kfd/topology/nodes/1/properties"
    properties.write_text(f"simd_count 4\ngfx_target_version {version}\n")
    assert amd_devices(tmp_path)[0].arch_target == target


def test_no_kfd_is_no_device(tmp_path: Path) -> None:
    assert amd_devices(tmp_path) == ()
