"""What tuned configurations gain over SGLang's default, per shape: by the best choice and by what its flags reach.

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
    print("| attention | phase | rows | best: mean, time-weighted | SGLang's flags: mean, time-weighted |")
    print("|--|--|--:|--:|--:|")
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
            best = _gains(rows, [r.best for r in rows])
            flags = _gains(rows, [r.best_sglang or r.sglang_default for r in rows])
            out.append(f"| {shape} | {phase} | {len(rows)} | {best} | {flags} |")
    return out


def _gains(rows: Sequence[Row], choices: Sequence[Choice | None]) -> str:
    """Geometric mean of the gains, and the gain in total time with each row called once."""
    default = [r.sglang_default.measured_us or 0.0 for r in rows if r.sglang_default]
    tuned = [c.measured_us or d for c, d in zip(choices, default, strict=True) if c]
    mean = math.exp(statistics.fmean(math.log(d / t) for d, t in zip(default, tuned, strict=True)))
    return f"{100 * (mean - 1):+.1f} %, {100 * (sum(default) / sum(tuned) - 1):+.1f} %"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", type=Path, nargs="*", default=[PACKAGED])
    return parser


if __name__ == "__main__":
    sys.exit(main())
