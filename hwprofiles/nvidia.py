"""NVIDIA devices through NVML."""

import os
from collections.abc import Iterator
from typing import Any

from hwprofiles.seen import Seen

_CORES_PER_SM = {"6.0": 64, "7.0": 64, "7.2": 64, "7.5": 64, "8.0": 64}
"""By compute capability; 128 elsewhere."""


def nvidia_devices(nvml: Any = None) -> tuple[Seen, ...]:
    """Devices in the order that CUDA numbers them; empty without the driver.

    Args:
        nvml: The NVML module; `pynvml` where it is None.
    """
    if nvml is None:
        try:
            import pynvml
        except ImportError:
            return ()
        nvml = pynvml
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        return tuple(_devices(nvml))
    finally:
        nvml.nvmlShutdown()


def _devices(nvml: Any) -> Iterator[Seen]:
    driver = _ask(nvml, nvml.nvmlSystemGetDriverVersion)
    number = 0
    for handle in _visible(nvml):
        slices = list(_mig_slices(nvml, handle))
        for part in slices or [None]:
            yield _seen(nvml, handle, part, f"cuda:{number}", driver)
            number += 1


def _visible(nvml: Any) -> list[Any]:
    count = nvml.nvmlDeviceGetCount()
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(count)]
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return handles
    chosen = []
    for entry in (part.strip() for part in wanted.split(",")):
        if entry.isdigit() and int(entry) < count:
            chosen.append(handles[int(entry)])
        elif entry.startswith("GPU-"):
            chosen += [h for h in handles if str(_ask(nvml, nvml.nvmlDeviceGetUUID, h)).startswith(entry)]
        elif entry.startswith("MIG-"):
            return handles
        else:
            break
    return chosen


def _mig_slices(nvml: Any, handle: Any) -> Iterator[Any]:
    mode = _ask(nvml, nvml.nvmlDeviceGetMigMode, handle)
    if not mode or mode[0] != 1:
        return
    for i in range(_ask(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        part = _ask(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, i)
        if part is not None:
            yield part


def _seen(nvml: Any, handle: Any, part: Any, device: str, driver: Any) -> Seen:
    capability = _ask(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    major_minor = f"{capability[0]}.{capability[1]}" if capability else None
    cores = _ask(nvml, nvml.nvmlDeviceGetNumGpuCores, handle)
    num_sms = cores // _CORES_PER_SM.get(major_minor or "", 128) if cores else None
    memory = _ask(nvml, nvml.nvmlDeviceGetMemoryInfo, part or handle)
    partition = None
    if part is not None:
        attributes = _ask(nvml, nvml.nvmlDeviceGetAttributes_v2, part)
        num_sms = attributes.multiprocessorCount if attributes else None
        partition = "MIG" if not attributes else f"MIG {attributes.gpuInstanceSliceCount}g"
    clock = _ask(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM)
    limit = _ask(nvml, nvml.nvmlDeviceGetPowerManagementLimit, handle)
    return Seen(
        device=device,
        name=_text(_ask(nvml, nvml.nvmlDeviceGetName, handle)),
        vendor="NVIDIA",
        num_sms=num_sms,
        memory_bytes=memory.total if memory else None,
        arch_target=f"sm_{major_minor.replace('.', '')}" if major_minor else None,
        compute_capability=major_minor,
        boost_clock_hz=clock * 1e6 if clock else None,
        memory_bytes_per_s=None if part is not None else _bandwidth(nvml, handle),
        power_limit_w=limit / 1e3 if limit else None,
        driver=_text(driver) or None,
        partition=partition,
    )


def _bandwidth(nvml: Any, handle: Any) -> float | None:
    """Bus width times memory clock, two transfers a clock as NVML counts clocks."""
    width = _ask(nvml, nvml.nvmlDeviceGetMemoryBusWidth, handle)
    clock = _ask(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_MEM)
    return width / 8 * clock * 1e6 * 2 if width and clock else None


def _ask(nvml: Any, question: Any, *arguments: Any) -> Any:
    try:
        return question(*arguments)
    except nvml.NVMLError:
        return None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")
