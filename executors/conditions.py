"""The state of the device while it is timed: clocks, power, temperature, throttling, and whether others use it."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from executors.outcome import Conditions

_THROTTLE_BITS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal limit (software)",
    0x40: "thermal limit (hardware)",
    0x80: "power brake",
}
"""NVML's clock-event reasons that mean a lower clock than asked for; idle and application clocks are left out."""


class Probe:
    """Reads the device's state; on a CPU there is nothing to read."""

    def __init__(self, device: str) -> None:
        self._handle: Any = _nvml_handle(device) if device.startswith("cuda") else None

    def read(self) -> Conditions:
        """Give the state now; takes well under a millisecond."""
        if self._handle is None:
            return Conditions()
        import pynvml

        clock_mhz = pynvml.nvmlDeviceGetClockInfo(self._handle, pynvml.NVML_CLOCK_SM)
        reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)
        return Conditions(
            sm_clock_hz=clock_mhz * 1e6,
            power_w=pynvml.nvmlDeviceGetPowerUsage(self._handle) / 1e3,
            temperature_c=float(pynvml.nvmlDeviceGetTemperature(self._handle, pynvml.NVML_TEMPERATURE_GPU)),
            throttle=tuple(text for bit, text in _THROTTLE_BITS.items() if reasons & bit),
        )

    def others(self) -> str | None:
        """Say in words who else computes on the GPU, or None."""
        if self._handle is None:
            return None
        import pynvml

        count = len(pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle))
        return f"{count} processes compute on this GPU" if count > 1 else None


@dataclass(frozen=True, slots=True)
class Disturbance:
    """How often the operating system took the CPU away during timing."""

    disturbed: int
    samples: int

    def words(self) -> str | None:
        """Say that the machine was busy, or None where it was quiet."""
        if self.disturbed == 0:
            return None
        return f"busy machine: {self.disturbed} of {self.samples} samples were interrupted by other processes"


def combine(readings: Sequence[Conditions], busy: str | None) -> Conditions:
    """Summarise the readings of one candidate: median clock, highest power and temperature, every throttle reason."""
    clocks = [r.sm_clock_hz for r in readings if r.sm_clock_hz is not None]
    powers = [r.power_w for r in readings if r.power_w is not None]
    temperatures = [r.temperature_c for r in readings if r.temperature_c is not None]
    return Conditions(
        sm_clock_hz=statistics.median(clocks) if clocks else None,
        power_w=max(powers, default=None),
        temperature_c=max(temperatures, default=None),
        throttle=tuple(dict.fromkeys(reason for r in readings for reason in r.throttle)),
        busy=busy,
    )


def _nvml_handle(device: str) -> Any:
    """NVML's handle, found by UUID so that CUDA_VISIBLE_DEVICES does not mislead; None where NVML is not available."""
    import pynvml
    import torch

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    uuid = str(torch.cuda.get_device_properties(device).uuid)
    return pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
