import os
import subprocess
import sys
from pathlib import Path

import pytest

from executors.calibrate import calibrate, quick_cpu
from executors.calibrate.bandwidth import Rate, Streams, by_busy, by_size
from executors.calibrate.conditions import Watcher
from executors.calibrate.matrix import matrix_rate
from executors.calibrate.overheads import exponentials, launch, merge
from executors.calibrate.stopwatch import Call, CpuStopwatch, CudaStopwatch, Samples, Stopwatch
from hwprofiles import Measured, Profile, load_profile

torch = pytest.importorskip("torch")
MIB = 1 << 20


class Fixed(Stopwatch):
    """Says that every call took the same time, and counts the calls."""

    device = "cpu"

    def __init__(self, seconds: float = 1e-3) -> None:
        self.seconds = seconds
        self.runs = 0

    def time(self, call: Call, calls: int = 1, samples: int = 9) -> Samples:
        call()
        self.runs += 1
        return Samples((self.seconds,) * samples)

    def synchronize(self) -> None: ...


@pytest.fixture(autouse=True)
def nothing_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("ATTNROOF_PROFILES", raising=False)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Profile:
    """This machine's processor with caches and memory so small that buffers are small too, and so is all other work."""
    monkeypatch.setattr("executors.calibrate.run.SUSTAIN_SECONDS", 0.01)
    monkeypatch.setattr("executors.calibrate.matrix.SIZE", {"cpu": 64})
    monkeypatch.setattr("executors.calibrate.matrix.PROBE_SIZE", 32)
    return load_profile("cpu").model_copy(
        update={"l2_bytes": MIB, "llc_bytes": 2 * MIB, "memory_bytes": 64 * MIB, "num_sms": 2}
    )


def test_samples_tell_the_quiet_time_and_the_spread() -> None:
    samples = Samples((1.0, 1.1, 1.2, 1.3, 9.0))
    assert samples.typical == 1.1
    assert samples.spread == pytest.approx(8.0 / 1.2)


def test_a_cpu_stopwatch_calls_what_it_times() -> None:
    calls = []
    samples = CpuStopwatch().time(lambda: calls.append(1), calls=5, samples=4)
    assert len(calls) == 5 * (1 + 4)
    assert 1 <= len(samples.seconds) <= 4
    assert all(seconds > 0 for seconds in samples.seconds)


def test_disturbed_samples_are_dropped_while_enough_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    switches = iter([0, 0, 0, 1, 1, 1, 1, 1])
    monkeypatch.setattr("executors.calibrate.stopwatch._involuntary_switches", lambda: next(switches))
    samples = CpuStopwatch().time(lambda: None, samples=4)
    assert (len(samples.seconds), samples.disturbed) == (3, 1)


def test_all_samples_stay_where_all_are_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    count = iter(range(100))
    monkeypatch.setattr("executors.calibrate.stopwatch._involuntary_switches", lambda: next(count))
    samples = CpuStopwatch().time(lambda: None, samples=4)
    assert (len(samples.seconds), samples.disturbed) == (4, 4)


def test_streams_count_each_byte_once() -> None:
    streams = Streams(Fixed(1e-3), MIB, 2)
    assert streams.num_bytes == MIB
    assert streams.read() == Rate(MIB / 1e-3, 0.0)
    assert streams.write() == Rate(MIB / 1e-3, 0.0)
    assert streams.copy() == Rate(MIB / 1e-3, 0.0), "half the buffer is read and half is written"
    assert torch.all(streams.buffer == 1.0)


def test_reading_leaves_the_number_of_threads_alone() -> None:
    before = torch.get_num_threads()
    Streams(Fixed(), MIB, 2).read(busy=1)
    assert torch.get_num_threads() == before


def test_curves_have_one_point_a_size_and_a_count() -> None:
    curves = by_size(Fixed(1e-3), [MIB, 4 * MIB], 2)
    assert set(curves) == {"read", "write", "copy"}
    assert curves["read"] == curves["write"] == curves["copy"] == [[MIB, MIB / 1e-3], [4 * MIB, 4 * MIB / 1e-3]]
    assert [busy for busy, _ in by_busy(Streams(Fixed(), MIB, 6))] == [1, 2, 3, 4, 6]


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_product_counts_multiply_and_add(dtype: str) -> None:
    rate = matrix_rate(Fixed(1e-3), dtype, 0, lambda: None, size=64)
    assert rate
    assert (rate.burst, rate.sustained) == (2 * 64**3 / 1e-3, None)


def test_the_sustained_rate_carries_the_clock_that_was_seen() -> None:
    rate = matrix_rate(Fixed(1e-3), "fp32", 0.01, lambda: 1.7e9, size=64)
    assert rate
    assert (rate.sustained, rate.clock_hz) == (2 * 64**3 / 1e-3, 1.7e9)


def test_a_product_that_the_library_lacks_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: object, **options: object) -> None:
        raise RuntimeError("not implemented")

    monkeypatch.setattr(torch, "_scaled_mm", missing)
    assert matrix_rate(Fixed(), "fp8", 0, lambda: None, size=64) is None


def test_overheads_are_those_of_one_call() -> None:
    watch = Fixed(2e-6)
    assert launch(watch).typical == 2e-6
    assert merge(watch).typical == 2e-6
    assert exponentials(watch, 4)[0] == 4 * (1 << 16) / 2e-6, "one core times four"


def test_a_processor_is_calibrated_whole(small: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("executors.calibrate.run.stopwatch", lambda device: Fixed(1e-3))
    steps: list[str] = []
    measured = calibrate(small, "cpu", "attnroof hw calibrate", steps.append)
    assert measured.read_bytes_per_s == 8 * MIB / 1e-3, "an eighth of the memory is read"
    assert {"fp32", "bf16"} <= set(measured.matrix_flops_per_s)
    assert measured.matrix_flops_per_s.keys() == measured.matrix_flops_per_s_sustained.keys()
    assert measured.l2_read_bytes_per_s == MIB / 1e-3, "the largest size within half of the last-level cache"
    by_bytes = {f"{stream}_bytes_per_s_by_bytes" for stream in ("read", "write", "copy")}
    assert set(measured.curves) == by_bytes | {"read_bytes_per_s_by_busy_sms"}
    assert measured.command == "attnroof hw calibrate"
    assert measured.launch_seconds == measured.merge_seconds == 1e-3
    assert len(steps) >= 5


def test_a_busy_machine_is_said(small: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("executors.calibrate.run.stopwatch", lambda device: Fixed(1e-3))
    monkeypatch.setattr(os, "getloadavg", lambda: (64.0, 0.0, 0.0))
    measured = calibrate(small, "cpu", "x")
    assert measured.warnings[0].startswith("busy machine: load average 64.0")


def test_noise_is_said(small: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    class Noisy(Fixed):
        def time(self, call: Call, calls: int = 1, samples: int = 9) -> Samples:
            call()
            return Samples((1e-3, 2e-3) * samples)

    monkeypatch.setattr("executors.calibrate.run.stopwatch", lambda device: Noisy())
    measured = calibrate(small, "cpu", "x")
    assert any("noisy, spread" in warning and "read_bytes_per_s" in warning for warning in measured.warnings)


def test_the_quick_calibration_has_what_a_tuning_run_needs(small: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("executors.calibrate.run.stopwatch", lambda device: Fixed(1e-3))
    monkeypatch.setattr("executors.calibrate.run.load_profile", lambda name: small)
    measured = quick_cpu()
    for field in ("read_bytes_per_s", "exp_per_s", "launch_seconds", "read_bytes_per_s_per_sm"):
        assert getattr(measured, field), field
    assert {"fp32", "bf16"} <= set(measured.matrix_flops_per_s)
    assert isinstance(measured, Measured)


def test_a_quiet_processor_has_no_complaint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    with Watcher("cpu") as watcher:
        assert (watcher.busy(), watcher.clock_hz(), watcher.power_w(), watcher.driver()) == (None, None, None, None)


def test_a_gpu_run_goes_through_in_the_interpreter() -> None:
    """Kernels agree with their references, and the whole run fills the fields that only a GPU has."""
    pytest.importorskip("triton")
    script = Path(__file__).parent / "interpret_calibration.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    numbers, run = done.stdout.splitlines()
    errors = [float(word) for word in numbers.split()]
    assert len(errors) == 6
    assert max(map(abs, errors)) <= 16 * torch.finfo(torch.float32).eps
    measured = Measured.model_validate_json(run)
    assert {"bf16", "fp16"} <= set(measured.matrix_flops_per_s)
    assert measured.graph_launch_seconds == measured.merge_seconds == 1e-3
    assert measured.exp_per_s == pytest.approx(2 * 8 * 2048 * 4096 / 1e-3, rel=5e-6), "six digits are kept"
    assert measured.read_bytes_per_s == 4 * MIB / 1e-3
    assert measured.l2_read_bytes_per_s
    assert [point[0] for point in measured.curves["read_bytes_per_s_by_busy_sms"]] == [1, 2]


@pytest.mark.parametrize(
    ("kernel", "arguments", "constants", "num_warps", "holds"),
    [
        ("read_kernel", ("*fp32", "*fp32", "i32", "i32"), {"BLOCK": 16384}, 32, "ld.global.cg.v4"),
        ("exp_kernel", ("*fp32", "i32"), {"BLOCK": 2048}, 8, "ex2.approx"),
        ("merge_kernel", ("*fp32", "*fp32", "*fp32"), {"SPLITS": 8, "DIM": 128}, 4, "ex2.approx"),
    ],
)
def test_kernels_compile_for_hopper_without_a_gpu(
    kernel: str,
    arguments: tuple[str, ...],
    constants: dict[str, int],
    num_warps: int,
    holds: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from executors.calibrate import kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    function = getattr(kernels, kernel)
    names = function.arg_names
    signature = dict(zip(names, arguments, strict=False)) | dict.fromkeys(constants, "constexpr")
    aligned = {(i,): [["tt.divisibility", 16]] for i, kind in enumerate(arguments) if kind.startswith("*")}
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=aligned)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": num_warps})
    assert holds in compiled.asm["ptx"]


def test_events_are_read_per_call(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    class Event:
        def __init__(self, **options: object) -> None: ...

        def record(self) -> None:
            self.at = clock[0]

        def elapsed_time(self, end: "Event") -> float:
            return (end.at - self.at) * 1e3

    def call() -> None:
        clock[0] += 2e-6

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    watch = CudaStopwatch("cuda:0")
    samples = watch.time(call, calls=10, samples=5)
    assert samples.seconds == pytest.approx((2e-6,) * 5)
    assert watch.calls_for(call, 1e-3) == 500


@pytest.mark.gpu
def test_a_gpu_is_calibrated_within_its_limit() -> None:
    from hwprofiles import detect_profile

    profile = detect_profile("cuda:0")
    measured = calibrate(profile, "cuda:0", "pytest -m gpu")
    assert measured.read_bytes_per_s
    assert measured.graph_launch_seconds
    assert measured.sm_clock_hz
    assert {"bf16", "fp16"} <= set(measured.matrix_flops_per_s)
    if profile.memory_bytes_per_s:
        assert 0.5 < measured.read_bytes_per_s / profile.memory_bytes_per_s < 1.05
