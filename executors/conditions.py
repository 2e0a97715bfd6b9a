"""The state of the device while it is timed: clocks, power, temperature, throttling, and whether others use it."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from costmodel.record import POWER_CAP, SUSTAINED_CLOCK_SHARE
from executors.outcome import Conditions

_THROTTLE_BITS = {
    0x4: POWER_CAP,
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal limit (software)",
    0x40: "thermal limit (hardware)",
    0x80: "power brake",
}
"""NVML's clock-event reasons that mean a lower clock than asked for; idle and application clocks are left out."""

REST_SECONDS, REST_STEP_SECONDS = 0.5, 0.05
"""Longest wait for a clock that the power cap holds down, and between two looks at it."""


class Probe:
    """Reads the device's state; on a CPU there is nothing to read."""

    def __init__(self, device: str) -> None:
        self._handle: Any = _nvml_handle(device) if device.startswith("cuda") else None

    def read(self) -> Conditions:
        """Give the state now, None for what this driver does not tell; takes well under a millisecond."""
        if self._handle is None:
            return Conditions()
        import pynvml

        clock_mhz = self._ask(lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM))
        power_mw = self._ask(pynvml.nvmlDeviceGetPowerUsage)
        celsius = self._ask(lambda gpu: pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU))
        reasons = self._ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons) or 0
        return Conditions(
            sm_clock_hz=None if clock_mhz is None else clock_mhz * 1e6,
            power_w=None if power_mw is None else power_mw / 1e3,
            temperature_c=None if celsius is None else float(celsius),
            throttle=tuple(text for bit, text in _THROTTLE_BITS.items() if reasons & bit),
        )

    def boost_clock_hz(self) -> float | None:
        """Give the highest SM clock, None where it is not told."""
        if self._handle is None:
            return None
        import pynvml

        clock_mhz = self._ask(lambda gpu: pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_SM))
        return None if clock_mhz is None else clock_mhz * 1e6

    def others(self) -> str | None:
        """Say in words who else computes on the GPU, or None."""
        if self._handle is None:
            return None
        import pynvml

        running = self._ask(pynvml.nvmlDeviceGetComputeRunningProcesses) or ()
        return f"{len(running)} processes compute on this GPU" if len(running) > 1 else None

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        """NVML's answer, or None where the driver or a container withholds it."""
        import pynvml

        try:
            return question(self._handle)
        except pynvml.NVMLError:
            return None


def is_held_down(state: Conditions, boost_clock_hz: float | None) -> bool:
    """Whether the power cap holds the clock well below boost."""
    if state.sm_clock_hz is None or boost_clock_hz is None or POWER_CAP not in state.throttle:
        return False
    return state.sm_clock_hz < SUSTAINED_CLOCK_SHARE * boost_clock_hz


def rest(read: Callable[[], Conditions], boost_clock_hz: float | None, sleep: Callable[[float], None]) -> float:
    """Let an idle device recover: wait until the power cap lets go of its clock, at most `REST_SECONDS`.

    Returns:
        Seconds waited.
    """
    looks = round(REST_SECONDS / REST_STEP_SECONDS)
    for look in range(looks):
        sleep(REST_STEP_SECONDS)
        if not is_held_down(read(), boost_clock_hz):
            return (look + 1) * REST_STEP_SECONDS
    return REST_SECONDS


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

    uuid = str(torch.cuda.get_device_properties(device).uuid).removeprefix("GPU-")
    try:
        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except pynvml.NVMLError:
        return None
