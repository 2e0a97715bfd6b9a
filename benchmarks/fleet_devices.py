"""Several devices of one host against one: the real `attnroof tune`, a worker killed midway, what was measured twice.

    python benchmarks/fleet_devices.py --devices cuda:0 cuda:1 --storage postgresql://postgres@127.0.0.1/postgres
    python benchmarks/fleet_devices.py --devices cpu cpu --extra="--dtype fp32"          # a rehearsal on SQLite

Three studies of the same workloads. The first starts a worker on each device, kills the last one midway with SIGKILL
and resumes; it also compiles, so that the others find their kernels in the cache. Then all devices, then one device.
The search chooses by what it measures, so that the runs do not measure exactly the same candidates: speed is
candidates a second, from the first candidate that is begun to the last that ends.
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial

from tuner.claims import Claim
from tuner.session import RESULT
from tuner.store import Store, open_store

SPECS = ("1q1s4k", "4q1s4k", "16q1s4k", "64q1s4k", "256q1s1k", "1q1s32k", "8q1s32k", "32q1s8k", "q2k", "q4k", "q2ks8k")


@dataclass(frozen=True)
class Ran:
    """One study when its run has ended."""

    name: str
    devices: int
    wall_seconds: float
    """Of the whole commands, start-up included."""
    search_seconds: float
    """From the first candidate begun to the last that ended."""
    candidates: frozenset[str]
    twice: int
    """Results beyond the first of a candidate."""
    unfinished: int
    """Claims that nobody finished."""

    @property
    def pace(self) -> float:
        """Candidates a second."""
        return len(self.candidates) / self.search_seconds


def main() -> int:
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="attnroof-devices-") as place:
        options.storage = options.storage or f"sqlite:///{place}/study.db"
        fleet = Fleet(options, open_store(options.storage, wait=True))
        runs = [fleet.killed_and_resumed(), fleet.run("all", options.devices), fleet.run("one", options.devices[:1])]
    print("\n| run | devices | command s | search s | candidates | a second | measured twice | claims left open |")
    print("|--|--:|--:|--:|--:|--:|--:|--:|")
    for r in runs:
        cells = (r.devices, f"{r.wall_seconds:.1f}", f"{r.search_seconds:.1f}", len(r.candidates), f"{r.pace:.2f}")
        print(f"| {r.name} | " + " | ".join(map(str, (*cells, r.twice, r.unfinished))) + " |")
    _, several, one = runs
    common = len(several.candidates & one.candidates) / len(one.candidates)
    print(f"{several.devices} devices measure {several.pace / one.pace:.2f} x the candidates a second of one;", end=" ")
    print(f"the command takes {one.wall_seconds / several.wall_seconds:.2f} x less; {100 * common:.0f} % are the same")
    return int(any(r.twice or r.unfinished for r in runs))


class Fleet:
    """Runs `attnroof tune` on devices and reads what it left in the storage."""

    def __init__(self, options: argparse.Namespace, store: Store) -> None:
        self._options, self._store = options, store
        self._prefix = f"devices-{time.time_ns()}"

    def run(self, name: str, devices: Sequence[str]) -> Ran:
        """Tune with one worker a device until all have ended."""
        start = time.monotonic()
        self._wait(self._workers(name, devices))
        return self._ran(name, len(devices), time.monotonic() - start)

    def killed_and_resumed(self) -> Ran:
        """Kill the last worker midway, let the others end, resume."""
        name, devices, start = "killed", self._options.devices, time.monotonic()
        workers = [self._start(name, device) for device in devices]
        victim, held = workers.pop(), 0
        while victim.poll() is None and (self._finished(name) < self._options.kill_after or not held):
            time.sleep(0.1)
            held = sum(c.owner.pid == victim.pid for c in self._open_claims(name))
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        print(f"killed the worker on {devices[-1]} after {self._finished(name)} results; it held {held}")
        self._wait(workers)
        print(f"the others ended with {self._finished(name)} results, {len(self._open_claims(name))} claims open")
        wall = time.monotonic() - start
        self._wait(self._workers(name, devices, "--resume"))
        print(f"resumed: {self._finished(name)} results")
        return self._ran(name, len(devices), wall)

    def _workers(self, name: str, devices: Sequence[str], *more: str) -> list["subprocess.Popen[bytes]"]:
        """One command for all GPUs, or a worker for each CPU."""
        if devices[0] == "cpu":
            return [self._start(name, device, *more) for device in devices]
        visible = ",".join(device.removeprefix("cuda:") for device in devices)
        return [self._start(name, "all", *more, visible=visible)]

    def _start(self, name: str, device: str, *more: str, visible: str | None = None) -> "subprocess.Popen[bytes]":
        out = self._options.out / name
        out.mkdir(parents=True, exist_ok=True)
        specs = [text for spec in self._options.batch_spec or SPECS for text in ("--batch-spec", spec)]
        where = ["--storage", self._options.storage, "--study", self._study(name), "--out", str(out)]
        what = ["tune", "--model", self._options.model, *specs, "--device", device, *where, *more]
        if device != "all":
            what.append("--worker")
        command = [sys.executable, "-m", "cli.main", *what, *shlex.split(self._options.extra)]
        environment = os.environ | ({"CUDA_VISIBLE_DEVICES": visible} if visible else {})
        log = out / f"{len(list(out.glob('*.log')))}-{device.replace(':', '')}.log"
        with log.open("w") as file:
            return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)

    def _wait(self, workers: "Sequence[subprocess.Popen[bytes]]") -> None:
        codes = [worker.wait() for worker in workers]
        if any(codes):
            sys.exit(f"workers ended with {codes}; see the logs under {self._options.out}")

    def _study(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def _studies(self, name: str) -> list[str]:
        return [study for study in self._store.names() if study.startswith(f"{self._study(name)}/")]

    def _results(self, name: str) -> list[tuple[str, FrozenTrial]]:
        """Trials with a result, with the name of their study and candidate."""
        found = []
        for study in self._studies(name):
            for trial in optuna.load_study(study_name=study, storage=self._store.storage).trials:
                if RESULT in trial.user_attrs and trial.state.is_finished():
                    found.append((f"{study.partition('/')[2]} {trial.user_attrs[RESULT]['candidate']}", trial))
        return found

    def _finished(self, name: str) -> int:
        return len(self._results(name))

    def _open_claims(self, name: str) -> list[Claim]:
        claims = [claim for study in self._studies(name) for claim in self._store.claims.of(study)]
        return [c for c in claims if not c.done]

    def _ran(self, name: str, devices: int, wall_seconds: float) -> Ran:
        results = self._results(name)
        counts = Counter(key for key, _ in results)
        begun = min(t.datetime_start for _, t in results if t.datetime_start)
        ended = max(t.datetime_complete for _, t in results if t.datetime_complete)
        twice = sum(count - 1 for count in counts.values())
        search_seconds = (ended - begun).total_seconds()
        return Ran(name, devices, wall_seconds, search_seconds, frozenset(counts), twice, len(self._open_claims(name)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", nargs="+", required=True)
    parser.add_argument("--storage", help="SQLAlchemy URL; SQLite in a temporary folder if not given")
    parser.add_argument("--model", default="examples/models/Llama-3.1-8B")
    parser.add_argument("--batch-spec", action="append")
    parser.add_argument("--kill-after", type=int, default=20, help="results before the last worker is killed")
    parser.add_argument("--extra", default="", help="further arguments of attnroof tune")
    parser.add_argument("--out", type=Path, required=True)
    return parser


if __name__ == "__main__":
    sys.exit(main())
