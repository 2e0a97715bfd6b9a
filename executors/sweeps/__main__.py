"""Record sweeps: `python -m executors.sweeps run --set decode,mla --budget-seconds 200 --out DIR`."""

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from executors.registry import get_backend
from executors.sweeps.candidates import SWEPT, TORCH, candidates
from executors.sweeps.runner import Task, sweep
from executors.sweeps.sets import SETS, workloads
from executors.sweeps.warm import warm
from hwprofiles import Profile, detect_profile, load_profile

say = partial(print, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 done, 2 wrong usage."""
    options = _parser().parse_args(arguments)
    profile = load_profile(options.profile) if options.profile else detect_profile(options.device)
    tasks = {name: _tasks(options, name, profile) for name in options.set.split(",")}
    if options.command == "list":
        for name, found in tasks.items():
            say(f"{name}: {len(found)} workloads, {sum(len(c) for _, c in found)} candidates")
    elif options.command == "warm":
        together = [task for found in tasks.values() for task in found]
        say(warm(together, options.device, workers=options.workers, seconds=options.budget_seconds))
    else:
        for name, found in tasks.items():
            _run(options, name, found)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m executors.sweeps", description=__doc__)
    parser.add_argument("command", choices=("list", "warm", "run"))
    parser.add_argument("--set", default="decode", help=f"comma-separated: {', '.join(SETS)}")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--profile", help="a profile by name instead of the device's own")
    parser.add_argument("--backends", help="comma-separated; default: all that a sweep covers")
    parser.add_argument("--budget-seconds", type=float, default=300.0, help="for each set")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of <set>.jsonl")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--start", type=int, default=0, help="leave out the first so many workloads of a set")
    parser.add_argument("--limit", type=int, help="only the first so many workloads of a set")
    parser.add_argument("--workers", type=int, default=12, help="processes that compile")
    return parser


def _tasks(options: argparse.Namespace, name: str, profile: Profile) -> list[Task]:
    names = options.backends.split(",") if options.backends else TORCH if name in ("torch", "cpu") else SWEPT
    work = workloads(name, seed=options.seed, limit=options.limit)[options.start :]
    return [(item, candidates(item, profile, seed=options.seed, names=names)) for item in work]


def _run(options: argparse.Namespace, name: str, tasks: Sequence[Task]) -> None:
    """Measure one set and append its records."""
    from executors.sweeps.store import CANDIDATE_SECONDS, SweepMeasurer, writer

    started = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    with SweepMeasurer(options.device, limit_seconds=CANDIDATE_SECONDS) as measurer:
        for backend in sorted({candidate.backend for _, found in tasks for candidate in found}):
            say(f"[{name}] {backend}: {get_backend(backend).implementation()}")
        tally = sweep(
            measurer,
            tasks,
            writer(options.out / f"{name}.jsonl", measurer),
            seed=options.seed,
            repeats=options.repeats,
            deadline=started + options.budget_seconds,
            log=lambda line: say(f"[{name}] {line}"),
        )
    say(f"[{name}] next: --start {options.start + tally.workloads}")


if __name__ == "__main__":
    sys.exit(main())
