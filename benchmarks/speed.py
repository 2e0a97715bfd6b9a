"""Start-up and prediction times on this machine: `python benchmarks/speed.py` (quiet machine, about 20 s)."""

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from costmodel import Attention, Batch, predict, rank
from hwprofiles import load_profile

ROOT = Path(__file__).parents[1]
MODEL = str(ROOT / "examples" / "models" / "Qwen3-0.6B")
ATTNROOF = str(Path(sys.executable).with_name("attnroof"))


def whole_process(*arguments: str, runs: int = 7) -> float:
    """Median wall seconds of the command, output discarded."""
    seconds = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        subprocess.run([ATTNROOF, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def in_process(call: Callable[[int], object], runs: int = 300) -> float:
    """Median wall seconds of one call; every call gets another number, so that nothing is answered from a cache."""
    seconds = []
    for i in range(runs):
        start = time.perf_counter()
        call(i)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[runs // 10 :])


def main() -> None:
    """Print one line per promise."""
    profile = load_profile("h200")
    gqa = Attention(num_qo_heads=32, num_kv_heads=8, head_dim=128)
    ragged = tuple(int(64 * 1.09**i) + 1 for i in range(64))
    rows = (
        ("attnroof --help", whole_process("--help"), 0.3),
        (
            "attnroof predict",
            whole_process("predict", "--model", MODEL, "--gpu", "h200", "--batch-spec", "8q1s4k"),
            0.6,
        ),
        (
            "predict, uniform decode",
            in_process(lambda i: predict(gqa, Batch.decode([4096 + i] * 64, 64), backend="fa3", profile=profile)),
            100e-6,
        ),
        (
            "predict, ragged decode",
            in_process(
                lambda i: predict(gqa, Batch.decode([n + i for n in ragged], 64), backend="fa3", profile=profile), 60
            ),
            2e-3,
        ),
        (
            "predict, extend",
            in_process(
                lambda i: predict(gqa, Batch.extend([2048], [18432 + i], 64), backend="fa3", profile=profile), 60
            ),
            2e-3,
        ),
        (
            "rank, uniform decode",
            in_process(lambda i: rank(gqa, Batch.decode([4096 + i] * 64, 64), profile=profile), 40),
            5e-3,
        ),
        (
            "rank, extend",
            in_process(lambda i: rank(gqa, Batch.extend([2048], [18432 + i], 64), profile=profile), 20),
            50e-3,
        ),
    )
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.2f}")
    for name, seconds, promise in rows:
        verdict = "ok" if seconds <= promise else "MISSED"
        print(f"{name:26} {seconds * 1e3:9.3f} ms   promised {promise * 1e3:g} ms   {verdict}")
    print(f"peak memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
