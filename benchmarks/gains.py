"""What tuned configurations gain over SGLang's default, per shape: by the best library call, by what SGLang's flags
reach, and, apart from both, by the project's own kernels.

python benchmarks/gains.py                           # the packaged configurations
python benchmarks/gains.py results
"""

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from tuner.configuration import Configuration, read
from tuner.lookup import PACKAGED
from tuner.row import Choice, Row


def main() -> int:
    options = _parser().parse_args()
    paths = sorted(p for place in options.places for p in ([place] if place.is_file() else place.rglob("attn,*.json")))
    if not paths:
        sys.exit("no configuration there")
    print("Geometric mean and time-weighted gain over the rows:\n")
    print("| attention | phase | rows | best library call | SGLang's flags | with the project's own kernels |")
    print("|--|--|--:|--:|--:|--:|")
    for path in paths:
        for line in lines(read(path)):
            print(line)
    return 0


def lines(configuration: Configuration) -> list[str]:
    """One line per phase; rows whose default was measured."""
    shape = ",".join(configuration.file_name.removesuffix(".json").split(",")[2:])
    out = []
    for phase in ("extend", "decode", "verify", "mixed"):
        rows = [r for r in configuration.table(phase).values() if r.sglang_default and r.sglang_default.measured_us]
        if rows:
            library = _gains(rows, [_default(r) / (r.gain or 1.0) for r in rows])
            flags = _gains(rows, [_time(r.best_sglang) or _default(r) for r in rows])
            own = _gains(rows, [_time(r.best) or _default(r) for r in rows])
            out.append(f"| {shape} | {phase} | {len(rows)} | {library} | {flags} | {own} |")
    return out


def _default(row: Row) -> float:
    return _time(row.sglang_default) or 0.0


def _time(choice: Choice | None) -> float | None:
    return None if choice is None else choice.measured_us


def _gains(rows: Sequence[Row], tuned: Sequence[float]) -> str:
    """Geometric mean of the gains, and the gain in total time with each row called once."""
    default = [_default(row) for row in rows]
    mean = math.exp(statistics.fmean(math.log(d / t) for d, t in zip(default, tuned, strict=True)))
    return f"{100 * (mean - 1):+.1f} %, {100 * (sum(default) / sum(tuned) - 1):+.1f} %"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", type=Path, nargs="*", default=[PACKAGED])
    return parser


if __name__ == "__main__":
    sys.exit(main())
