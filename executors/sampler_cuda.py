"""Timing on an NVIDIA GPU: a CUDA graph of one call per KV copy, replayed, so that no host gap is in it."""

import time
from typing import TYPE_CHECKING, Any

from executors.base import Prepared
from executors.conditions import Probe
from executors.sampler import Sample, Sampler

if TYPE_CHECKING:
    from torch import Tensor

    from executors.inputs import Inputs

GRAPH_SECONDS = 200e-6
"""A replay lasts at least this long, so that its own start does not count."""
MAX_CALLS = 512
LEAD_SECONDS = 5e-3
"""Shorter replays follow an untimed one, which hides their launch; longer ones hide it by their length."""
WARM_UP_CALLS = 3
EAGER_SECONDS = 2e-3


class CudaSampler(Sampler):
    """Times replays of a captured graph; calls that cannot be captured are timed as launched."""

    def __init__(self, prepared: Prepared, inputs: "Inputs") -> None:
        super().__init__(prepared, inputs)
        self._probe = Probe(inputs.device)
        self._graph: Any = None
        self._calls = inputs.slots
        self._estimate = 0.0

    def warm_up(self) -> "Tensor":
        """Run a few calls, choose how many one graph holds, capture it and replay it once."""
        import torch

        stream: Any = torch.cuda.Stream(self.inputs.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self.inputs.device))
        with torch.cuda.stream(stream):
            for call in range(WARM_UP_CALLS):
                output = self.prepared.run(call % self.inputs.slots)
            self._estimate = self._between(lambda: self._calls_in_turn(WARM_UP_CALLS)) / WARM_UP_CALLS
        torch.cuda.current_stream(self.inputs.device).wait_stream(stream)
        slots = self.inputs.slots
        turns = max(1, round(GRAPH_SECONDS / max(self._estimate * slots, 1e-9) + 0.5))
        self._calls = max(slots, min(slots * turns, MAX_CALLS // slots * slots))
        if not self.prepared.capturable:
            return self.prepared.run(slots - 1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = self._calls_in_turn(self._calls)
        graph.replay()
        self.synchronize()
        self._graph = graph
        return output

    def sample(self) -> Sample:
        """Time one replay, and read the device's state while it runs."""
        if self._estimate * self._calls < LEAD_SECONDS:
            self._launch()
        start, end = self._events()
        start.record()
        self._launch()
        end.record()
        conditions = self._probe.read()
        end.synchronize()
        return Sample(start.elapsed_time(end) / 1e3 / self._calls, False, conditions)

    def eager_seconds(self) -> float:
        """Launch some calls from Python and wait for them."""
        calls = max(5, min(100, round(EAGER_SECONDS / max(self._estimate, 1e-9))))
        self.synchronize()
        start = time.perf_counter()
        self._calls_in_turn(calls)
        self.synchronize()
        return (time.perf_counter() - start) / calls

    def first_call_seconds(self) -> float:
        """Call twice from Python; the difference is what the first one had to do besides."""
        first, second = (self._launched_seconds() for _ in range(2))
        return max(0.0, first - second)

    def sustained_seconds(self, duration: float) -> float:
        """Replay for `duration` seconds, then time as many replays as fill a tenth of it."""
        replay = max(self._estimate * self._calls, 1e-6)
        end = time.perf_counter() + duration
        while time.perf_counter() < end:
            for _ in range(max(1, round(0.01 / replay))):
                self._launch()
            self.synchronize()
        replays = max(1, round(duration / 10 / replay))

        def launch_all() -> None:
            for _ in range(replays):
                self._launch()

        return self._between(launch_all) / replays / self._calls

    def synchronize(self) -> None:
        """Wait for the device; raises what went wrong on it."""
        import torch

        torch.cuda.synchronize(self.inputs.device)

    def _launched_seconds(self) -> float:
        self.synchronize()
        start = time.perf_counter()
        self.prepared.run(0)
        self.synchronize()
        return time.perf_counter() - start

    def _launch(self) -> None:
        if self._graph is None:
            self._calls_in_turn(self._calls)
        else:
            self._graph.replay()

    def _calls_in_turn(self, calls: int) -> "Tensor":
        for call in range(calls):
            output = self.prepared.run(call % self.inputs.slots)
        return output

    def _between(self, work: Any) -> float:
        """Device seconds from before to after some work."""
        start, end = self._events()
        start.record()
        work()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    def _events(self) -> tuple[Any, Any]:
        import torch

        event: Any = torch.cuda.Event
        return event(enable_timing=True), event(enable_timing=True)
