"""Calibrate one device: everything that the cost model takes from measurements, in one bounded run."""

import datetime
import statistics
from collections.abc import Callable
from typing import Any

from executors.calibrate import bandwidth, overheads
from executors.calibrate.bandwidth import Streams
from executors.calibrate.conditions import Watcher
from executors.calibrate.matrix import MatrixRate, matrix_rate
from executors.calibrate.stopwatch import CudaStopwatch, Samples, Stopwatch, stopwatch
from hwprofiles import Measured, Profile, load_profile

Progress = Callable[[str], None]
NOISY = 0.15
"""Relative spread from which a value is reported as noisy."""
SUSTAIN_SECONDS = 2.0
"""Load on the matrix units before the sustained rate counts; the second half is kept."""
_MIB, _GIB = 1 << 20, 1 << 30


def calibrate(profile: Profile, device: str, command: str, progress: Progress = lambda step: None) -> Measured:
    """Measure a device: at most 30 s on a CPU and 90 s on a GPU.

    Args:
        profile: What the datasheet says; gives cache sizes and the number of SMs.
        device: `cpu` or `cuda:0`, ...
        command: The command line, kept beside the numbers.
        progress: Told what is measured next.
    """
    on_cpu = device == "cpu"
    with Watcher(device) as watcher:
        bench = _Bench(profile, stopwatch(device), watcher, progress)
        bench.memory(_sizes(profile, on_cpu))
        bench.matrix(("fp32", "bf16", "fp16") if on_cpu else ("bf16", "fp16", "fp8", "tf32"), SUSTAIN_SECONDS)
        bench.rest()
        return bench.measured(command)


def quick_cpu() -> Measured:
    """Measure what a tuning run on the CPU needs, in at most 10 s."""
    with Watcher("cpu") as watcher:
        bench = _Bench(load_profile("cpu"), stopwatch("cpu"), watcher, lambda step: None)
        bench.streams(_far_beyond_cache(bench.profile), curve=False)
        bench.matrix(("fp32", "bf16"), 0)
        bench.rest()
        return bench.measured("executors.calibrate.quick_cpu()")


class _Bench:
    """Collects the values of one run."""

    def __init__(self, profile: Profile, watch: Stopwatch, watcher: Watcher, progress: Progress) -> None:
        self.profile = profile
        self.watch = watch
        self.watcher = watcher
        self.progress = progress
        self.num_sms: int = profile.require("num_sms")
        self.values: dict[str, Any] = {"curves": {}, "sm_clock_hz_sustained": {}}
        self.values |= {"matrix_flops_per_s": {}, "matrix_flops_per_s_sustained": {}}
        self.spread: dict[str, float] = {}
        busy = watcher.busy()
        self.warnings = [f"busy machine: {busy}"] if busy else []
        self.load: dict[str, list[float]] = {"clock": [], "power": [], "temperature": []}

    def memory(self, sizes: list[int]) -> None:
        """Bandwidths by size; the best read among sizes that are safely inside the cache gives its rate."""
        self.progress("bandwidth by size")
        curves = bandwidth.by_size(self.watch, sizes, self.num_sms)
        self.values["curves"] |= {f"{name}_bytes_per_s_by_bytes": points for name, points in curves.items()}
        cache = self.profile.llc_bytes if self.profile.kind == "cpu" else self.profile.l2_bytes
        inside = [rate for size, rate in curves["read"] if cache and size <= cache / 2]
        if inside:
            self.values["l2_read_bytes_per_s"] = max(inside)
        self.streams(_far_beyond_cache(self.profile), curve=True)

    def streams(self, num_bytes: int, curve: bool) -> None:
        """Read, write and copy in memory, and reads by busy SMs."""
        self.progress("read, write and copy bandwidth")
        streams = Streams(self.watch, num_bytes, self.num_sms)
        for name, rate in (("read", streams.read(seconds=0.6)), ("write", streams.write()), ("copy", streams.copy())):
            self.values[f"{name}_bytes_per_s"] = rate.bytes_per_s
            self.spread[f"{name}_bytes_per_s"] = rate.spread
        if self.profile.kind == "cpu":
            gathered = streams.gather()
            self.values["gather_bytes_per_s"] = gathered.bytes_per_s
            self.spread["gather_bytes_per_s"] = gathered.spread
        points = bandwidth.by_busy(streams) if curve else [[1.0, streams.read(1).bytes_per_s]]
        self.values["read_bytes_per_s_per_sm"] = points[0][1]
        if curve:
            self.values["curves"]["read_bytes_per_s_by_busy_sms"] = points

    def matrix(self, dtypes: tuple[str, ...], sustain_seconds: float) -> None:
        """Matrix rates of all dtypes that the device knows."""
        for dtype in dtypes:
            self.progress(f"{dtype} matrix rate")
            rate = matrix_rate(self.watch, dtype, sustain_seconds, self._observe)
            if rate is None:
                self.warnings.append(f"no {dtype} matrix product in this library on this device")
                continue
            self._keep_matrix(dtype, rate)

    def rest(self) -> None:
        """Exponentials, launches and the merge."""
        self.progress("exponentials, launches and merge")
        rate, samples = overheads.exponentials(self.watch, self.num_sms)
        self.values["exp_per_s"] = rate
        self.spread["exp_per_s"] = samples.spread
        self._keep("launch_seconds", overheads.launch(self.watch))
        self._keep("merge_seconds", overheads.merge(self.watch))
        if isinstance(self.watch, CudaStopwatch):
            self._keep("graph_launch_seconds", overheads.graph_launch(self.watch))

    def measured(self, command: str) -> Measured:
        """Give the result, with a warning for everything that speaks against it."""
        import torch

        noisy = sorted(name for name, spread in self.spread.items() if spread > NOISY)
        warnings = self.warnings + [f"held down by {reason}" for reason in sorted(self.watcher.throttled)]
        warnings += [f"noisy, spread {self.spread[name]:.0%}: {name}" for name in noisy]
        median = {name: statistics.median(seen) for name, seen in self.load.items() if seen}
        return Measured(
            date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            driver=self.watcher.driver(),
            torch=torch.__version__,
            command=command,
            sm_clock_hz=median.get("clock"),
            power_w=median.get("power"),
            temperature_c=median.get("temperature"),
            spread={name: round(spread, 4) for name, spread in self.spread.items()},
            warnings=warnings,
            **_rounded(self.values),
        )

    def _observe(self) -> float | None:
        clock = self.watcher.clock_hz()
        for name, seen in (
            ("clock", clock),
            ("power", self.watcher.power_w()),
            ("temperature", self.watcher.temperature_c()),
        ):
            if seen is not None:
                self.load[name].append(seen)
        return clock

    def _keep_matrix(self, dtype: str, rate: MatrixRate) -> None:
        self.values["matrix_flops_per_s"][dtype] = rate.burst
        if rate.sustained:
            self.values["matrix_flops_per_s_sustained"][dtype] = rate.sustained
        if rate.clock_hz:
            self.values["sm_clock_hz_sustained"][dtype] = rate.clock_hz
        self.spread[f"matrix_flops_per_s.{dtype}"] = rate.spread

    def _keep(self, name: str, samples: Samples) -> None:
        self.values[name] = samples.typical
        self.spread[name] = samples.spread


def _rounded(value: Any) -> Any:
    """Round to six digits, more than any measurement here repeats; sizes and counts stay whole."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return value if value == int(value) < 1e10 else float(f"{value:.6g}")


def _sizes(profile: Profile, on_cpu: bool) -> list[int]:
    far = _far_beyond_cache(profile)
    if on_cpu:
        l2, llc = profile.l2_bytes or _MIB, profile.llc_bytes or 8 * _MIB
        return sorted({l2 // 4, l2 // 2, llc // 4, llc // 2, 2 * llc, far})
    l2 = profile.l2_bytes or 32 * _MIB
    near = {4 * _MIB, l2 // 4, l2 // 2, 3 * l2 // 4, l2, 3 * l2 // 2, 2 * l2, 4 * l2, _GIB}
    return sorted({size for size in near if size < far} | {far})


def _far_beyond_cache(profile: Profile) -> int:
    """A size of which caches hold little, and memory enough."""
    memory = profile.memory_bytes or _GIB
    cache = max(profile.llc_bytes or 0, profile.l2_bytes or 0)
    wanted = max(256 * _MIB, 8 * cache) if profile.kind == "cpu" else max(_GIB, 32 * cache)
    return min(wanted, memory // 8)
