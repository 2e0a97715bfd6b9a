"""Rate of the matrix units by dtype: in a short burst from idle, and sustained, with the clock that was seen."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from executors.calibrate.stopwatch import Samples, Stopwatch

if TYPE_CHECKING:
    import torch

SIZE = {"cpu": 1024, "cuda": 8192}
"""Rows, columns and depth of the square product."""
PROBE_SIZE, PROBE_SECONDS = 256, 0.01
"""A core that needs longer than this for the small product emulates the dtype: no larger product is tried."""


@dataclass(frozen=True, slots=True)
class MatrixRate:
    """FLOP/s of one dtype."""

    burst: float
    sustained: float | None
    spread: float
    clock_hz: float | None = None
    """SM clock while the sustained load ran."""


def matrix_rate(
    watch: Stopwatch, dtype: str, sustain_seconds: float, clock: Callable[[], float | None], size: int | None = None
) -> MatrixRate | None:
    """Multiply square matrices of random values.

    Args:
        watch: Times the calls.
        dtype: bf16, fp16, fp32, tf32 or fp8.
        sustain_seconds: How long to load the device after the burst; 0 leaves the sustained rate out.
        clock: Reads the SM clock in Hz.
        size: Rows, columns and depth; chosen by device and speed where it is None.

    Returns:
        The rate, or None where the library has no such product on this device.
    """
    try:
        size = size or _size(watch, dtype)
        call = _product(watch.device, dtype, size)
        flops = 2 * size**3
        watch.time(call, samples=3)
    except (RuntimeError, TypeError, AttributeError):
        return None
    if watch.device != "cpu":
        time.sleep(0.3)
    burst = watch.time(call, samples=11)
    if sustain_seconds <= 0:
        return MatrixRate(flops / burst.typical, None, burst.spread)
    seconds, clock_hz = _sustained(watch, call, sustain_seconds, clock)
    return MatrixRate(flops / burst.typical, flops / seconds.typical, seconds.spread, clock_hz)


def _size(watch: Stopwatch, dtype: str) -> int:
    kind = watch.device.partition(":")[0]
    if kind != "cpu":
        return SIZE[kind]
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        probe = watch.time(_product(watch.device, dtype, PROBE_SIZE), samples=5)
    finally:
        torch.set_num_threads(threads)
    return SIZE[kind] if min(probe.seconds) < PROBE_SECONDS else PROBE_SIZE


def _sustained(
    watch: Stopwatch, call: Callable[[], object], sustain_seconds: float, clock: Callable[[], float | None]
) -> tuple[Samples, float | None]:
    """Samples from the second half of the load; the clock is read while work is queued."""
    calls = watch.calls_for(call, 0.02)
    samples: list[float] = []
    clocks: list[float] = []
    start = time.perf_counter()
    while time.perf_counter() - start < sustain_seconds:
        samples += watch.time(call, calls=calls, samples=4).seconds
        for _ in range(4 * calls if watch.device != "cpu" else 0):
            call()
        seen = clock()
        if seen:
            clocks.append(seen)
        watch.synchronize()
    late = samples[len(samples) // 2 :]
    return Samples(tuple(late)), sorted(clocks)[len(clocks) // 2] if clocks else None


def _product(device: str, dtype: str, size: int) -> Callable[[], object]:
    import torch

    generator = torch.Generator(device=device).manual_seed(0)

    def random(kind: "torch.dtype") -> "torch.Tensor":
        return torch.randn(size, size, device=device, generator=generator).to(kind)

    if dtype == "fp8":
        a, b = random(torch.float8_e4m3fn), random(torch.float8_e4m3fn).t()
        one = torch.ones((), device=device)
        return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "tf32": torch.float32}
    a, b = random(kinds[dtype]), random(kinds[dtype])
    out = torch.empty_like(a)
    if dtype != "tf32":
        return lambda: torch.mm(a, b, out=out)

    def in_tf32() -> None:
        before = torch.backends.cuda.matmul.fp32_precision
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        try:
            torch.mm(a, b, out=out)
        finally:
            torch.backends.cuda.matmul.fp32_precision = before

    return in_tf32
