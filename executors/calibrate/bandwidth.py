"""Read, write and copy bandwidth: by size, so that caches and memory separate, and by busy cores or SMs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from executors.calibrate.stopwatch import CudaStopwatch, Samples, Stopwatch

BLOCK = 16384
"""Elements in flight from one SM: 64 KiB, twice what Little's law asks of an H200 with all SMs busy."""
PROGRAMS_PER_SM = 4
"""Where all SMs are busy, each holds this many programs with a part of the block."""
SECONDS_PER_POINT = 0.15
SHORT_BYTES, GRAPH_NODES = 256 << 20, 50
"""Streams over less than this are timed inside a CUDA graph: one kernel takes less time than its launch from Python."""
MIN_READ_BYTES = 2 << 30
"""One kernel reads at least this, in several passes over a small buffer, so that its launch does not count."""
ROW_BYTES = 4096
"""One token's K in 8 heads of 128 fp32 values."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Bytes per second, with the relative spread behind it."""

    bytes_per_s: float
    spread: float

    @classmethod
    def of(cls, moved_bytes: int, samples: Samples) -> "Rate":
        """Rate at which each sample moved some bytes."""
        return cls(moved_bytes / samples.typical, samples.spread)


class Streams:
    """Streams over one buffer of `num_bytes`, rounded down to whole blocks; the values are zeros."""

    def __init__(self, watch: Stopwatch, num_bytes: int, num_sms: int) -> None:
        import torch

        elements = max(1, num_bytes // (4 * BLOCK)) * BLOCK
        self.watch = watch
        self.num_sms = num_sms
        self.buffer = torch.zeros(elements, dtype=torch.float32, device=watch.device)

    @property
    def num_bytes(self) -> int:
        """Size of the buffer."""
        return self.buffer.numel() * 4

    def read(self, busy: int | None = None, seconds: float = SECONDS_PER_POINT) -> Rate:
        """Read the buffer with all SMs or cores, or with `busy` of them."""
        if not isinstance(self.watch, CudaStopwatch):
            return self._read_on_cpu(busy, seconds)
        passes = max(1, MIN_READ_BYTES // self.num_bytes)
        call = self._read_on_gpu(busy, passes)
        return Rate.of(self.num_bytes * passes, self._timed(call, seconds))

    def write(self, seconds: float = SECONDS_PER_POINT) -> Rate:
        """Fill the buffer."""
        return Rate.of(self.num_bytes, self._timed(lambda: self.buffer.fill_(1.0), seconds))

    def copy(self, seconds: float = SECONDS_PER_POINT) -> Rate:
        """Copy one half of the buffer to the other; bytes read and written both count."""
        half = self.buffer.numel() // 2
        source, target = self.buffer[:half], self.buffer[half : 2 * half]
        return Rate.of(half * 8, self._timed(lambda: target.copy_(source), seconds))

    def gather(self, seconds: float = SECONDS_PER_POINT) -> Rate:
        """Gather a quarter of the buffer's rows of 4 KiB, in random order, into a fresh tensor each time."""
        import torch

        rows = self.buffer.view(-1, ROW_BYTES // 4)
        index = torch.randperm(len(rows), device=rows.device)[: len(rows) // 4]
        return Rate.of(2 * len(index) * ROW_BYTES, self._timed(lambda: rows[index], seconds))

    def _timed(self, call: Callable[[], object], seconds: float) -> Samples:
        if isinstance(self.watch, CudaStopwatch) and self.num_bytes < SHORT_BYTES:
            return self.watch.time_in_graph(call, nodes=GRAPH_NODES)
        calls = self.watch.calls_for(call, seconds / 9)
        return self.watch.time(call, calls=calls)

    def _read_on_cpu(self, busy: int | None, seconds: float) -> Rate:
        import torch

        integers = self.buffer.view(torch.int64)
        before = torch.get_num_threads()
        torch.set_num_threads(busy or self.num_sms)
        try:
            return Rate.of(self.num_bytes, self._timed(integers.sum, seconds))
        finally:
            torch.set_num_threads(before)

    def _read_on_gpu(self, busy: int | None, passes: int) -> Callable[[], object]:
        import torch

        from executors.calibrate.kernels import read_kernel

        share = 1 if busy else PROGRAMS_PER_SM
        programs = (busy or self.num_sms) * share
        block, num_warps = BLOCK // share, 32 // share
        blocks = self.buffer.numel() // block
        out = torch.empty(programs, dtype=torch.float32, device=self.buffer.device)
        return lambda: read_kernel[(programs,)](self.buffer, out, blocks, passes, BLOCK=block, num_warps=num_warps)


def by_size(watch: Stopwatch, sizes: Sequence[int], num_sms: int) -> dict[str, list[list[float]]]:
    """Points (bytes, bytes/s) of reads, writes and copies."""
    curves: dict[str, list[list[float]]] = {"read": [], "write": [], "copy": []}
    for size in sizes:
        streams = Streams(watch, size, num_sms)
        for name, rate in (("read", streams.read()), ("write", streams.write()), ("copy", streams.copy())):
            curves[name].append([float(streams.num_bytes), rate.bytes_per_s])
    return curves


def by_busy(streams: Streams) -> list[list[float]]:
    """Points (busy SMs or cores, read bytes/s)."""
    total = streams.num_sms
    counts = sorted({1, 2, 4, 8, 16, total // 4, total // 2, 3 * total // 4, total} & set(range(1, total + 1)))
    return [[float(busy), streams.read(busy).bytes_per_s] for busy in counts]
