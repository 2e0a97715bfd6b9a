"""Record sweeps: `python -m executors.sweeps run --set decode,mla --budget-seconds 200 --out DIR`."""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from costmodel import Record
from executors.recordings import PACKAGED, read_records
from executors.registry import get_backend
from executors.sweeps import quality
from executors.sweeps.again import agreement, recorded_tasks
from executors.sweeps.candidates import backends_of, candidates
from executors.sweeps.count import table
from executors.sweeps.pack import latest, pack
from executors.sweeps.runner import Task, sweep
from executors.sweeps.sets import SETS, workloads
from executors.sweeps.warm import warm
from hwprofiles import Profile, detect_profile, load_profile

if TYPE_CHECKING:
    from executors.sweeps.store import SweepMeasurer

say = partial(print, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 done, 2 wrong usage."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        COMMANDS[options.command](options)
    except OSError as error:
        say(f"{parser.prog}: {error.filename}: {error.strerror}" if error.filename else error, file=sys.stderr)
        return 2
    except ValueError as error:
        say(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


def list_sets(options: argparse.Namespace) -> None:
    """Say how many workloads and candidates the sets have."""
    for name, found in _sets(options).items():
        say(f"{name}: {len(found)} workloads, {sum(len(c) for _, c in found)} candidates")


def warm_up(options: argparse.Namespace) -> None:
    """Compile what the sets will launch."""
    together = [task for found in _sets(options).values() for task in found]
    say(warm(together, options.device, workers=options.workers, seconds=options.budget_seconds))


def run_sets(options: argparse.Namespace) -> None:
    """Measure the sets, one after the other, in one worker."""
    with _measurer(options) as measurer:
        for name, found in _sets(options).items():
            done = _run(options, name, found, measurer)
            say(f"[{name}] next: --start {options.start + done}")


def run_again(options: argparse.Namespace) -> None:
    """Measure recorded candidates again and say how far the times are apart."""
    before = read_records(options.records).records
    with _measurer(options) as measurer:
        _run(options, "again", recorded_tasks(before, rows=options.rows, seed=options.seed), measurer)
    say(agreement(before, read_records(options.out / "again.jsonl").records))


def compare(options: argparse.Namespace) -> None:
    """Say how far the first recording and the others are apart."""
    before, *after = options.records
    say(agreement(read_records(before).records, read_records(after).records))


def count_records(options: argparse.Namespace) -> None:
    """Print how many records there are, device by device."""
    loaded = read_records(options.records)
    say(by_device(loaded.records, table))
    if loaded.damaged:
        say(f"\n{loaded.damaged} damaged lines are left out")


def show_quality(options: argparse.Namespace) -> None:
    """Print how right and how steady the backends were, device by device."""
    say(by_device(read_records(options.records).records, quality.table))


def pack_records(options: argparse.Namespace) -> None:
    """Write the last record of each candidate to one compressed file."""
    loaded = read_records(options.records)
    kept = latest(loaded.records)
    if not kept:
        raise ValueError(f"no records in {', '.join(map(str, options.records))}: nothing to pack")
    pack(kept, options.out)
    say(f"{len(kept)} of {len(loaded.records)} records to {options.out}, {loaded.damaged} damaged lines left out")


def by_device(records: Iterable[Record], table: Callable[[Iterable[Record]], str]) -> str:
    """One table a device, under its name where there are several, most records first."""
    devices: dict[str, list[Record]] = {}
    for record in records:
        devices.setdefault(record.device.name, []).append(record)
    if len(devices) < 2:
        return table(records)
    ordered = sorted(devices.items(), key=lambda item: -len(item[1]))
    return "\n\n".join(f"{name}:\n\n{table(own)}" for name, own in ordered)


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "list": list_sets,
    "warm": warm_up,
    "run": run_sets,
    "again": run_again,
    "agree": compare,
    "count": count_records,
    "quality": show_quality,
    "pack": pack_records,
}


def _at_least_0(text: str) -> int:
    return _whole(text, 0)


def _at_least_1(text: str) -> int:
    return _whole(text, 1)


def _whole(text: str, least: int) -> int:
    """Read a count.

    Raises:
        argparse.ArgumentTypeError: It is no whole number or too small.
    """
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least {least}")
    return int(text)


def _seconds(text: str) -> float:
    """Read a duration.

    Raises:
        argparse.ArgumentTypeError: It is negative, infinite or no number.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a duration in seconds")
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m executors.sweeps", description=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--set", default="decode", help=f"comma-separated: {', '.join(SETS)}")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--profile", help="a profile by name instead of the device's own")
    parser.add_argument("--backends", help="comma-separated; default: all that a set covers")
    parser.add_argument("--budget-seconds", type=_seconds, default=300.0, help="for each set")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of <set>.jsonl; pack: the file")
    parser.add_argument("--seed", type=_at_least_0, default=0)
    parser.add_argument("--repeats", type=_at_least_1, default=7)
    parser.add_argument(
        "--sustained-seconds", type=_seconds, default=0.0, help="how long each candidate then runs alone"
    )
    parser.add_argument("--start", type=_at_least_0, default=0, help="leave out the first so many workloads of a set")
    parser.add_argument("--limit", type=_at_least_1, help="only the first so many workloads of a set")
    parser.add_argument("--workers", type=_at_least_1, default=12, help="processes that compile")
    parser.add_argument(
        "--records", type=Path, nargs="+", default=[PACKAGED], help="what again, agree, count, quality and pack read"
    )
    parser.add_argument("--rows", type=_at_least_1, default=400, help="again: candidates")
    return parser


def _sets(options: argparse.Namespace) -> dict[str, list[Task]]:
    profile = load_profile(options.profile) if options.profile else detect_profile(options.device)
    return {name: _tasks(options, name, profile) for name in options.set.split(",")}


def _tasks(options: argparse.Namespace, name: str, profile: Profile) -> list[Task]:
    names = options.backends.split(",") if options.backends else backends_of(name)
    work = workloads(name, seed=options.seed, limit=options.limit)[options.start :]
    return [(item, candidates(item, profile, seed=options.seed, names=names)) for item in work]


def _measurer(options: argparse.Namespace) -> "SweepMeasurer":
    from executors.sweeps.store import SweepMeasurer

    return SweepMeasurer(options.device, sustained_seconds=options.sustained_seconds)


def _run(options: argparse.Namespace, name: str, tasks: Sequence[Task], measurer: "SweepMeasurer") -> int:
    """Measure tasks and append their records; give how many were done."""
    from executors.sweeps.store import writer

    options.out.mkdir(parents=True, exist_ok=True)
    for backend in sorted({candidate.backend for _, found in tasks for candidate in found}):
        say(f"[{name}] {backend}: {get_backend(backend).implementation()}")
    write = writer(options.out / f"{name}.jsonl", measurer)
    tally = sweep(
        measurer,
        tasks,
        write,
        seed=options.seed,
        repeats=options.repeats,
        deadline=time.monotonic() + options.budget_seconds,
        log=lambda line: say(f"[{name}] {line}"),
    )
    return tally.workloads


if __name__ == "__main__":
    sys.exit(main())
