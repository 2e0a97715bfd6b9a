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


class CpuSampler(Sampler):
    """Times blocks of calls on the CPU."""

    _calls = 1
    _next_slot = 0

    def warm_up(self) -> "Tensor":
        """Time one call and choose the block size by it; the check before has warmed up the rest."""
        with cpu_threads(self.prepared.threads):
            start = time.perf_counter()
            output = self.prepared.run(self.inputs.slots - 1)
            seconds = time.perf_counter() - start
        self._calls = max(1, min(MAX_CALLS, round(BLOCK_SECONDS / max(seconds, 1e-9))))
        return output

    def sample(self) -> Sample:
        """Time one block."""
        seconds, switches = self._block(self._calls)
        return Sample(seconds / self._calls, switches > 0, Conditions())

    def eager_seconds(self) -> None:
        """A CPU has no other way to launch."""

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
