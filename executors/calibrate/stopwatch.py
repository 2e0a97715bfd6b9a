"""Times repeated calls on a CPU or a CUDA device, with what disturbed them."""

import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Call = Callable[[], object]
MIN_UNDISTURBED = 3
LIMIT_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class Samples:
    """Seconds of one call, several times over."""

    seconds: tuple[float, ...]
    disturbed: int = 0
    """Samples in which the system took the processor away."""

    @property
    def typical(self) -> float:
        """Lower quartile of the seconds of one call: others on the machine only ever add time."""
        return self._at(0.25)

    @property
    def spread(self) -> float:
        """Distance of the 10th and 90th percentile over the median."""
        return (self._at(0.9) - self._at(0.1)) / statistics.median(self.seconds)

    def _at(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[round(share * (len(ordered) - 1))]


class Stopwatch(ABC):
    """Times calls on one device."""

    device: str

    @abstractmethod
    def time(self, call: Call, calls: int = 1, samples: int = 9) -> Samples:
        """Seconds of one call, from `samples` groups of `calls` calls, after one group to warm up.

        On a processor fewer samples are taken where they would go on for more than `LIMIT_SECONDS`.
        """

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the device is idle."""

    def calls_for(self, call: Call, seconds: float) -> int:
        """How many calls fill a time, at least one."""
        return max(1, int(seconds / self.time(call, samples=1).typical))


class CpuStopwatch(Stopwatch):
    """Wall time; samples with an involuntary context switch are dropped while enough others remain."""

    device = "cpu"

    def time(self, call: Call, calls: int = 1, samples: int = 9) -> Samples:
        """Time groups of calls on the processor."""
        _repeat(call, calls)
        clean: list[float] = []
        switched: list[float] = []
        begin = time.perf_counter()
        for taken in range(samples):
            if taken >= MIN_UNDISTURBED and time.perf_counter() - begin > LIMIT_SECONDS:
                break
            switches = _involuntary_switches()
            start = time.perf_counter()
            _repeat(call, calls)
            seconds = (time.perf_counter() - start) / calls
            (clean if _involuntary_switches() == switches else switched).append(seconds)
        kept = clean if len(clean) >= min(MIN_UNDISTURBED, samples) else clean + switched
        return Samples(tuple(kept), len(switched))

    def synchronize(self) -> None:
        """Do nothing: calls on the processor return when they are done."""


class CudaStopwatch(Stopwatch):
    """Device time between two events around a group of calls."""

    def __init__(self, device: str) -> None:
        import torch

        torch.cuda.set_device(device)
        self.device = device

    def time(self, call: Call, calls: int = 1, samples: int = 9) -> Samples:
        """Time groups of calls on the device."""
        _repeat(call, calls)
        pairs = []
        for _ in range(samples):
            start, end = _event(), _event()
            start.record()
            _repeat(call, calls)
            end.record()
            pairs.append((start, end))
        self.synchronize()
        return Samples(tuple(start.elapsed_time(end) / 1e3 / calls for start, end in pairs))

    def time_in_graph(self, call: Call, nodes: int = 100, samples: int = 9) -> Samples:
        """Seconds of one call, replayed `nodes` times in a CUDA graph."""
        import torch

        stream: Any = torch.cuda.Stream(device=self.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            _repeat(call, 3)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            _repeat(call, nodes)
        replayed = self.time(graph.replay, samples=samples)
        return Samples(tuple(seconds / nodes for seconds in replayed.seconds))

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        import torch

        torch.cuda.synchronize(self.device)


def stopwatch(device: str) -> Stopwatch:
    """The stopwatch for a device."""
    return CpuStopwatch() if device == "cpu" else CudaStopwatch(device)


def _repeat(call: Call, calls: int) -> None:
    for _ in range(calls):
        call()


def _event() -> Any:
    import torch

    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _involuntary_switches() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
