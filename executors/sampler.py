"""Timing of one prepared call on one device: what a CPU and a CUDA sampler have in common."""

import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from executors.base import Prepared
from executors.outcome import Conditions

if TYPE_CHECKING:
    from torch import Tensor

    from executors.inputs import Inputs

PLAN_REPEATS = 5


@dataclass(frozen=True, slots=True)
class Sample:
    """One latency sample."""

    seconds: float
    """Time of one call."""
    disturbed: bool
    """Whether other processes took the CPU away meanwhile."""
    conditions: Conditions


class Sampler(ABC):
    """Times one prepared call, KV copies in rotation."""

    def __init__(self, prepared: Prepared, inputs: "Inputs") -> None:
        self.prepared = prepared
        self.inputs = inputs

    @abstractmethod
    def warm_up(self) -> "Tensor":
        """Run until nothing is done for the first time any more; give the output on the last KV copy."""

    @abstractmethod
    def sample(self) -> Sample:
        """Take one latency sample."""

    @abstractmethod
    def eager_seconds(self) -> float | None:
        """Time of one call launched from Python, the larger of host and device time; None where samples are that."""

    def first_call_seconds(self) -> float:
        """Time that the first call takes beyond the next one: kernels that a library compiles or loads when called."""
        return 0.0

    @abstractmethod
    def sustained_seconds(self, duration: float) -> float:
        """Time of one call after `duration` seconds of nothing else, when clocks have settled under load."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for the device."""

    def plan_seconds(self) -> float | None:
        """Host time of one plan, median of some; None where the backend has none."""
        if self.prepared.plan is None:
            return None
        times = []
        for _ in range(PLAN_REPEATS):
            self.synchronize()
            start = time.perf_counter()
            self.prepared.plan()
            self.synchronize()
            times.append(time.perf_counter() - start)
        return statistics.median(times)


def make_sampler(prepared: Prepared, inputs: "Inputs") -> Sampler:
    """Choose the sampler of the inputs' device."""
    if inputs.device == "cpu":
        from executors.sampler_cpu import CpuSampler

        return CpuSampler(prepared, inputs)
    from executors.sampler_cuda import CudaSampler

    return CudaSampler(prepared, inputs)


@contextmanager
def cpu_threads(count: int | None) -> Iterator[None]:
    """Give PyTorch this many CPU threads for a while; None changes nothing."""
    import torch

    before = torch.get_num_threads()
    if count is not None and count != before:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)
