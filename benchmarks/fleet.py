"""How a fleet scales: 1, 2, 4 and 8 workers on one storage, replaying recorded measurements at a realistic pace.

    python benchmarks/fleet.py                                               # SQLite in a temporary folder
    python benchmarks/fleet.py --storage postgresql://postgres@127.0.0.1/postgres

Each candidate sleeps for as long as a GPU needs to prepare, check and time it; the search itself is the real one.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from costmodel import Attention, Batch
from executors.outcome import Candidate, Outcome
from executors.recordings import read_records
from executors.replay import ReplayMeasurer
from hwprofiles import load_profile
from tuner.budget import Budget
from tuner.configuration import Provenance
from tuner.request import Request
from tuner.setup import Options, make_tools
from tuner.spec import spec_of
from tuner.tune import tune
from tuner.workload import Workload


class Paced(ReplayMeasurer):
    """Replays at the pace of a device."""

    trial_seconds = 0.3

    def measure(
        self,
        attention: Attention,
        batch: Batch,
        candidates: Sequence[Candidate],
        *,
        seed: int,
        repeats: int,
        deadline: float | None = None,
    ) -> Mapping[str, Outcome]:
        """Answer after as long as the device would take."""
        time.sleep(self.trial_seconds * len(candidates))
        return super().measure(attention, batch, candidates, seed=seed, repeats=repeats)


def main() -> int:
    options = _parser().parse_args()
    if options.worker is not None:
        work(options)
        return 0
    print("| workers | seconds | speed-up | efficiency | candidates measured |")
    print("|--:|--:|--:|--:|--:|")
    alone = None
    for count in options.workers:
        with tempfile.TemporaryDirectory(prefix="attnroof-fleet-") as place:
            seconds, trials = run(options, count, Path(place))
        alone = alone or seconds * count
        print(
            f"| {count} | {seconds:.1f} | {alone / seconds:.2f} | {100 * alone / seconds / count:.0f} % | {trials} |",
            flush=True,
        )
    return 0


def run(options: argparse.Namespace, count: int, place: Path) -> tuple[float, int]:
    """Wall time from the first worker that is ready to the last that ends, and candidates measured."""
    storage = options.storage or f"sqlite:///{place / 'study.db'}"
    study = f"fleet-{time.time_ns()}"
    common = ["--storage", storage, "--study", study, "--workloads", str(options.workloads)]
    pace = ["--trial-seconds", str(options.trial_seconds), "--out", str(place)]
    commands = [[sys.executable, __file__, *common, *pace, "--worker", str(i)] for i in range(count)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    outputs = [worker.communicate()[0] for worker in workers]
    if any(worker.returncode for worker in workers):
        sys.exit("a worker failed")
    spans = [tuple(float(x) for x in output.split()[-3:]) for output in outputs]
    return max(s[1] for s in spans) - min(s[0] for s in spans), int(sum(s[2] for s in spans))


def work(options: argparse.Namespace) -> None:
    """Be one worker: print when the search began, when it ended and how many candidates were measured."""
    profile = load_profile("h200")
    measurer = Paced(read_records(profile=profile).records)
    measurer.trial_seconds = options.trial_seconds
    recorded = [(a, b) for a, b in measurer.workloads() if len(measurer.candidates(a, b, profile)) >= 8]
    workloads = tuple(Workload(a, b, spec_of(b)) for a, b in recorded[: options.workloads])
    out = options.out / f"worker{options.worker}"
    run_options = Options("cuda:0", out, options.storage, options.study, worker=True)
    tools = make_tools(run_options, measurer, profile, lambda phase: ("fa3", "flashmla"))
    provenance = Provenance(tool="benchmarks/fleet.py", created="", command=" ".join(sys.argv))
    start = time.time()
    result = tune(Request(None, workloads), tools, Budget(), out, provenance)
    print(start, time.time(), result.trials)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--storage")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--workloads", type=int, default=32)
    parser.add_argument("--trial-seconds", type=float, default=0.3)
    parser.add_argument("--study", default="fleet")
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
