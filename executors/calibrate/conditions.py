"""State of the device while it is calibrated: clock, power, temperature, throttling, and who else uses it."""

import os
from types import TracebackType
from typing import Any

_HARMLESS = 0x1 | 0x2
"""NVML clock-event bits that mean idle, or clocks set by an application."""
_REASONS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal slowdown (software)",
    0x40: "thermal slowdown (hardware)",
    0x80: "power brake",
}


class Watcher:
    """Reads a device's state; on a CPU only the load of the machine."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._nvml: Any = None
        self._handle: Any = None
        self.throttled: set[str] = set()

    def __enter__(self) -> "Watcher":
        if self.device == "cpu":
            return self
        import torch

        try:
            import pynvml
        except ImportError:
            return self
        try:
            pynvml.nvmlInit()
            uuid = str(torch.cuda.get_device_properties(self.device).uuid)
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
            self._nvml = pynvml
        except (pynvml.NVMLError, AttributeError):
            self._nvml = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._nvml:
            self._nvml.nvmlShutdown()

    def clock_hz(self) -> float | None:
        """SM clock now, noting on the way why it is held down."""
        if not self._nvml:
            return None
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons") or 0
        self.throttled |= {text for bit, text in _REASONS.items() if bits & bit & ~_HARMLESS}
        clock = self._ask("nvmlDeviceGetClockInfo", 1)
        return clock * 1e6 if clock else None

    def power_w(self) -> float | None:
        """Board power now."""
        milliwatts = self._ask("nvmlDeviceGetPowerUsage")
        return milliwatts / 1e3 if milliwatts else None

    def temperature_c(self) -> float | None:
        """Temperature of the GPU now."""
        degrees = self._ask("nvmlDeviceGetTemperature", 0)
        return float(degrees) if degrees is not None else None

    def driver(self) -> str | None:
        """Driver version."""
        return str(self._nvml.nvmlSystemGetDriverVersion()) if self._nvml else None

    def busy(self) -> str | None:
        """Why the device is not quiet, in words; None where nothing else runs."""
        if self.device == "cpu":
            load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
            return f"load average {load:.1f} on {cores} cores before the start" if load > 0.3 * cores else None
        utilization = self._ask("nvmlDeviceGetUtilizationRates")
        if utilization and utilization.gpu > 5:
            return f"the GPU was {utilization.gpu} % busy before the start"
        return None

    def _ask(self, question: str, *arguments: Any) -> Any:
        if not self._nvml:
            return None
        try:
            return getattr(self._nvml, question)(self._handle, *arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None
