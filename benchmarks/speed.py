"""Start-up and prediction times on this machine: `python benchmarks/speed.py` (quiet machine, about a minute)."""

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from costmodel import Attention, Batch, predict, rank
from costmodel.sweep import sweep
from hwprofiles import Profile, load_profile

ROOT = Path(__file__).parents[1]
MODEL = str(ROOT / "examples" / "models" / "Qwen3-0.6B")
ATTNROOF = str(Path(sys.executable).with_name("attnroof"))

PREDICTS, RANKS = 20, 10
SWEEP_RATE = 200_000


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


def ragged(count: int, step: int = 0) -> list[int]:
    """Give `count` lengths from 200 to about 6,000, nearly all different."""
    return [200 + (i * 2654435761) % 5800 + step for i in range(count)]


def prompts(count: int, longest: int, most_cached: int, step: int) -> Batch:
    """Give `count` prompts of up to `longest` new tokens over up to `most_cached` cached ones, all different."""
    new = [longest // 8 + (i * 2654435761) % (longest * 7 // 8) for i in range(count)]
    cached = [(i * 40503 * 977) % most_cached + step for i in range(count)]
    return Batch.extend(new, [q + n for q, n in zip(new, cached, strict=True)], 64)


def cases() -> dict[str, tuple[Attention, Callable[[int], Batch]]]:
    """Batches by name: uniform decode first, then the ones that cost most to plan."""
    gqa = Attention(num_qo_heads=32, num_kv_heads=8, head_dim=128)
    narrow = Attention(num_qo_heads=8, num_kv_heads=1, head_dim=128)
    windowed = Attention(num_qo_heads=64, num_kv_heads=8, head_dim=64, sliding_window=1024)
    queries, prefixes = [60 + 37 * i for i in range(32)], ragged(32)
    return {
        "uniform decode": (gqa, lambda i: Batch.decode([4096 + i] * 64, 64)),
        "64 ragged decodes": (gqa, lambda i: Batch.decode(ragged(64, i), 64)),
        "256 ragged decodes": (gqa, lambda i: Batch.decode(ragged(256, i), 64)),
        "1024 ragged decodes": (gqa, lambda i: Batch.decode(ragged(1024, i), 64)),
        "256 windowed decodes": (windowed, lambda i: Batch.decode(ragged(256, i), 64)),
        "256 MLA decodes": (Attention.mla(128), lambda i: Batch.decode(ragged(256, i), 64)),
        "256 verifications": (gqa, lambda i: Batch.verify(ragged(256, i), 4, 1, 64)),
        "one chunk": (gqa, lambda i: Batch.extend([2048], [18432 + i], 64)),
        "one long chunk": (gqa, lambda i: Batch.extend([16384], [131072 + i], 64)),
        "32 ragged extends": (
            gqa,
            lambda i: Batch.extend(queries, [q + n + i for q, n in zip(queries, prefixes, strict=True)], 64),
        ),
        "256 long extends": (narrow, lambda i: prompts(256, 8192, 24_000, i)),
        "16 extends over 1M": (narrow, lambda i: prompts(16, 8192, 1 << 20, i)),
        "256 windowed extends": (windowed, lambda i: prompts(256, 8192, 2_000, i)),
        "256 long MLA extends": (Attention.mla(16), lambda i: prompts(256, 8192, 50_000, i)),
        "one chunk of 128k": (gqa, lambda i: Batch.extend([131_072], [1_000_000 + i], 64)),
        "mixed, 256 decodes": (gqa, lambda i: Batch.extend([2048] + [1] * 256, [8192, *ragged(256, i)], 64)),
    }


def slowest_predict(attention: Attention, make: Callable[[int], Batch], profile: Profile) -> tuple[float, str]:
    """Median wall seconds of the backend whose estimate takes longest, and its name."""
    runs = [row.backend for row in rank(attention, make(0), profile=profile) if row.prediction]
    batches = [make(i) for i in range(PREDICTS)]
    timed = {
        name: in_process(lambda i, name=name: predict(attention, batches[i], backend=name, profile=profile), PREDICTS)
        for name in dict.fromkeys(runs)
    }
    name = max(timed, key=lambda name: timed[name])
    return timed[name], name


def sweeps(profile: Profile) -> Iterator[tuple[str, float, float]]:
    """Estimates per second of a sweep, and how much memory the larger of two sweeps needed more, in MiB."""
    gqa = Attention(num_qo_heads=32, num_kv_heads=8, head_dim=128)
    draw = np.random.default_rng(0)
    for backend in ("fa3", "flashinfer", "triton"):
        rates, peaks = [], []
        for count in (250_000, 1_000_000):
            pairs = np.stack([draw.integers(1, 257, count), draw.integers(1, 32768, count)], axis=1)
            start = time.perf_counter()
            sweep(gqa, pairs, backend=backend, profile=profile, page_size=64)
            rates.append(count / (time.perf_counter() - start))
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        yield backend, rates[-1], peaks[1] - peaks[0]


def main() -> None:
    """Print one line per promise."""
    profile = load_profile("h200")
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.2f}")
    show("attnroof --help", whole_process("--help"), 0.3)
    show("attnroof predict", whole_process("predict", "--model", MODEL, "--gpu", "h200", "--batch-spec", "8q1s4k"), 0.6)
    for name, (attention, make) in cases().items():
        show_case(name, attention, make, profile)
    for backend, rate, more in sweeps(profile):
        verdict = "ok" if rate >= SWEEP_RATE else "MISSED"
        print(
            f"{'sweep, uniform decode':29} {rate:9.0f} /s   promised {SWEEP_RATE} /s   {verdict}   {backend}, "
            f"{more:.0f} MiB more for 1,000,000 batches than for 250,000, of which 19 are inputs and results"
        )


def show_case(name: str, attention: Attention, make: Callable[[int], Batch], profile: Profile) -> None:
    """Print `predict` by the backend that takes longest (for uniform decode: `fa3`), then `rank`."""
    if name == "uniform decode":
        seconds = in_process(lambda i: predict(attention, make(i), backend="fa3", profile=profile))
        show(f"predict, {name}", seconds, 100e-6, "fa3")
    else:
        seconds, backend = slowest_predict(attention, make, profile)
        show(f"predict, {name}", seconds, 2e-3, backend)
    batches = [make(i) for i in range(RANKS)]
    seconds = in_process(lambda i: rank(attention, batches[i], profile=profile), RANKS)
    show(f"rank, {name}", seconds, 5e-3 if name == "uniform decode" else 50e-3)


def show(name: str, seconds: float, promise: float, backend: str = "") -> None:
    """Print one line."""
    verdict = "ok" if seconds <= promise else "MISSED"
    print(f"{name:29} {seconds * 1e3:9.3f} ms   promised {promise * 1e3:g} ms   {verdict}   {backend}")


if __name__ == "__main__":
    main()
