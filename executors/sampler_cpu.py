"""Timing on a CPU: wall time of blocks of calls, with the operating system's interruptions counted."""

import resource
import statistics
import time
from typing import TYPE_CHECKING

from executors.outcome import Conditions
from executors.sampler import Sample, Sampler, cpu_threads

if TYPE_CHECKING:
    from torch import Tensor

BLOCK_SECONDS = 5e-3
"""A sample lasts about this long at least, so that the clock's resolution does not matter."""
MAX_CALLS = 512
WARM_UP_CALLS = 2


class CpuSampler(Sampler):
    """Times blocks of calls on the CPU."""

    _calls = 1
    _next_slot = 0

    def warm_up(self) -> "Tensor":
        """Run a few calls and choose the block size."""
        for _ in range(WARM_UP_CALLS):
            seconds, _ = self._block(1)
        self._calls = max(1, min(MAX_CALLS, round(BLOCK_SECONDS / max(seconds, 1e-9))))
        with cpu_threads(self.prepared.threads):
            return self.prepared.run(self.inputs.slots - 1)

    def sample(self) -> Sample:
        """Time one block."""
        seconds, switches = self._block(self._calls)
        return Sample(seconds / self._calls, switches > 0, Conditions())

    def eager_seconds(self) -> float:
        """Time one block; a CPU has no other way to launch."""
        return self.sample().seconds

    def sustained_seconds(self, duration: float) -> float:
        """Run blocks for `duration` seconds and give the median of the second half."""
        end = time.perf_counter() + duration
        times = [self.sample().seconds]
        while time.perf_counter() < end:
            times.append(self.sample().seconds)
        return statistics.median(times[len(times) // 2 :])

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def _block(self, calls: int) -> tuple[float, int]:
        """Wall seconds of some calls, and how often the process was interrupted."""
        run, slots, slot = self.prepared.run, self.inputs.slots, self._next_slot
        with cpu_threads(self.prepared.threads):
            switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
            start = time.perf_counter()
            for _ in range(calls):
                run(slot)
                slot = (slot + 1) % slots
            seconds = time.perf_counter() - start
            switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - switches
        self._next_slot = slot
        return seconds, switches
