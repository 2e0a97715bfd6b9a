"""What an answer of the policy costs serving code.

python benchmarks/policy.py                          # a packaged configuration
python benchmarks/policy.py --config FILE
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from costmodel import Batch
from tuner.configuration import read
from tuner.lookup import PACKAGED
from tuner.policy import Policy


def main() -> int:
    options = _parser().parse_args()
    path = options.config or next(iter(sorted(PACKAGED.rglob("attn,*.json"))), None)
    if path is None:
        sys.exit("no packaged configuration; give one with --config")
    attention = read(path).to_attention()
    policy = Policy.load(path)
    even = Batch.decode([4096] * 64)
    ragged = [Batch.decode([1000 + i + 7 * j for j in range(64)]) for i in range(2000)]
    lengths = iter(range(1, 10_000_000))
    print(f"{path.name}, {sys.version.split()[0]}")
    show("backend(), cached", lambda: policy.backend("decode", 64, 4096))
    show("backend(), uncached", lambda: policy.backend("decode", 64, 1000 + next(lengths)))
    show("choice() of 64 requests, cached", lambda: policy.choice(attention, even))
    rest = iter(ragged)
    show("choice() of 64 requests, uncached", lambda: policy.choice(attention, next(rest)), 2000)
    return 0


def show(name: str, call: Callable[[], object], count: int = 20_000) -> None:
    """Print median and 99th percentile."""
    taken = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    taken.sort()
    print(f"{name:36s} median {1e6 * statistics.median(taken):6.2f} us   p99 {1e6 * taken[int(0.99 * count)]:6.2f} us")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
