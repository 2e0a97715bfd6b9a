"""Times of a long call: replays of a CUDA graph at the clocks it holds by itself, and launched from Python."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from executors.conditions import Probe, combine
from executors.outcome import Conditions

Call = Callable[[], object]
SETTLE_SECONDS = 0.08
"""How long a graph is replayed before it is timed, so that clocks and power are those of the load."""
SAMPLES = 7
LEAST_SAMPLES = 3
SAMPLING_SECONDS = 0.6
LEAD_SECONDS = 5e-3
"""Shorter replays follow an untimed one, which hides their launch; longer ones hide it by their length."""
EAGER_CALLS = 3
WARM_UP_CALLS = 2


@dataclass(frozen=True, slots=True)
class Times:
    """Samples of one call."""

    seconds: tuple[float, ...]
    conditions: Conditions = field(default=Conditions())


class Timer:
    """Times calls on one device; a CPU has wall time only."""

    def __init__(self, device: str, *, settle_seconds: float = SETTLE_SECONDS, samples: int = SAMPLES) -> None:
        self._device, self._settle, self._samples = device, settle_seconds, samples
        self._probe = Probe(device)

    def eager(self, call: Call) -> float:
        """Seconds of one call launched from Python: the larger of host and device time."""
        call()
        self.synchronize()
        start = time.perf_counter()
        for _ in range(EAGER_CALLS):
            call()
        self.synchronize()
        return (time.perf_counter() - start) / EAGER_CALLS

    def graph(self, call: Call) -> Times:
        """Seconds of one call as a CUDA graph; on a CPU those of plain calls."""
        if self._device == "cpu":
            return Times(tuple(self._wall(call) for _ in range(self._samples)))
        replay = self._capture(call)
        seconds = self._settled(replay)
        count = max(LEAST_SAMPLES, min(self._samples, int(SAMPLING_SECONDS / seconds)))
        found, readings = [], []
        for _ in range(count):
            if seconds < LEAD_SECONDS:
                replay()
            start, end = _event(), _event()
            start.record()
            replay()
            end.record()
            readings.append(self._probe.read())
            end.synchronize()
            found.append(float(start.elapsed_time(end)) / 1e3)
        return Times(tuple(found), combine(readings, self._probe.others()))

    def _capture(self, call: Call) -> Call:
        import torch

        stream: Any = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_CALLS):
                call()
        torch.cuda.current_stream(self._device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        return graph.replay

    def _settled(self, replay: Call) -> float:
        """Replay until the device has settled; give the seconds of one replay."""
        replay()
        self.synchronize()
        begin, replays = time.perf_counter(), 0
        while time.perf_counter() - begin < self._settle or not replays:
            replay()
            self.synchronize()
            replays += 1
        return (time.perf_counter() - begin) / replays

    def _wall(self, call: Call) -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    def synchronize(self) -> None:
        """Wait for the device."""
        import torch

        if self._device != "cpu":
            torch.cuda.synchronize(self._device)


def _event() -> Any:
    import torch

    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
