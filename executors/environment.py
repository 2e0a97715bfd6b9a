"""The device and library versions that stand beside every number, and the cache that timing has to defeat."""

import os
import platform
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from costmodel.record import RecordedDevice

Source = Literal["live", "replay", "simulated"]
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Environment:
    """Where times come from: one device with its driver and library versions."""

    device: str
    """`cpu` or `cuda:0`, as PyTorch spells it."""
    name: str
    """Device name as its driver or the kernel reports it."""
    cc: str | None = None
    sms: int | None = None
    """Streaming multiprocessors, or CPU cores that this process may use."""
    memory_bytes: int | None = None
    driver: str | None = None
    torch: str | None = None
    cuda: str | None = None
    source: Source = "live"
    """Whether times are measured now, replayed from records, or drawn from the cost model."""

    @property
    def kind(self) -> str:
        """`cpu` or `cuda`."""
        return self.device.partition(":")[0]

    def recorded(self) -> RecordedDevice:
        """The device as a record stores it."""
        memory = None if self.memory_bytes is None else self.memory_bytes // _MIB
        return RecordedDevice(name=self.name, cc=self.cc, sms=self.sms, memory_mib=memory, driver=self.driver)


def detect(device: str = "cpu") -> Environment:
    """Describe a device of this machine.

    Args:
        device: `cpu`, `cuda` or `cuda:<index>`.

    Raises:
        ValueError: There is no such device here; the message says what there is.
    """
    kind, _, index = device.partition(":")
    if kind == "cpu" and not index:
        return _detect_cpu()
    if kind != "cuda" or (index and not index.isdecimal()):
        raise ValueError(f"device={device!r} is not 'cpu', 'cuda' or 'cuda:<index>'")
    return _detect_cuda(int(index or 0))


def installed_version(package: str) -> str | None:
    """Version of an installed distribution, or None; nothing is imported."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def cpu_cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def last_level_cache_bytes(device: str) -> int:
    """Size of the cache that holds KV between calls: L2 on a GPU, the largest level on a CPU; 0 where unknown."""
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    sizes = [0]
    for entry in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = entry.read_text().strip()
        sizes.append(int(text[:-1]) * {"K": 1 << 10, "M": 1 << 20}.get(text[-1], 1 << 30))
    return max(sizes)


def free_bytes(device: str) -> int:
    """Memory that can still be allocated on the device."""
    if device.startswith("cuda"):
        import torch

        free, _ = torch.cuda.mem_get_info(device)
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + cached)
    import psutil

    return int(psutil.virtual_memory().available)


def _detect_cpu() -> Environment:
    import psutil

    return Environment(
        device="cpu",
        name=_cpu_name(),
        sms=cpu_cores(),
        memory_bytes=int(psutil.virtual_memory().total),
        torch=installed_version("torch"),
    )


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _detect_cuda(index: int) -> Environment:
    if installed_version("torch") is None:
        raise ValueError("PyTorch is not installed: pip install torch")
    import torch

    if not torch.cuda.is_available():
        raise ValueError("no CUDA device here: PyTorch sees no GPU; use --device cpu, or predict for a GPU with --gpu")
    if index >= torch.cuda.device_count():
        raise ValueError(f"cuda:{index} does not exist: this machine has {torch.cuda.device_count()} CUDA device(s)")
    properties = torch.cuda.get_device_properties(index)
    return Environment(
        device=f"cuda:{index}",
        name=properties.name,
        cc=f"{properties.major}.{properties.minor}",
        sms=int(properties.multi_processor_count),
        memory_bytes=int(properties.total_memory),
        driver=_driver_version(),
        torch=torch.__version__,
        cuda=torch.version.cuda,
    )


def _driver_version() -> str | None:
    import pynvml

    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return None
