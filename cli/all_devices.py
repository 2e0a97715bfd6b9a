"""`--device all`: one worker process per GPU of this host, all on the same studies."""

import subprocess
import sys
from collections.abc import Sequence

from cli.errors import WRONG_INPUT, WrongInput, fail


def gpus() -> list[str]:
    """Names of this host's GPUs as PyTorch spells them.

    Raises:
        WrongInput: There is none.
    """
    from hwprofiles import detect_devices

    found = [d.seen.device for d in detect_devices() if d.seen.device != "cpu"]
    if not found:
        raise WrongInput("--device all: there is no GPU in this machine; use --device cpu")
    return found


def worker_arguments(arguments: Sequence[str], device: str, trials: int | None) -> list[str]:
    """The command line of one worker: as typed, with its own device and its part of the trials."""
    out: list[str] = []
    skip = False
    for argument in arguments:
        name = argument.partition("=")[0]
        if skip:
            skip = False
        elif name in ("--device", "--trials"):
            skip = "=" not in argument
        elif name != "--worker":
            out.append(argument)
    part = [] if trials is None else ["--trials", str(trials)]
    return [*out, "--device", device, "--worker", *part]


def run_workers(arguments: Sequence[str], trials: int | None) -> int:
    """Start the workers and wait for all; the first one's table is shown. Returns the worst exit code."""
    devices = gpus()
    share = None if trials is None else -(-trials // len(devices))
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "cli.main", *worker_arguments(arguments, device, share)],
            stdout=None if i == 0 else subprocess.DEVNULL,
        )
        for i, device in enumerate(devices)
    ]
    codes = {device: worker.wait() for device, worker in zip(devices, workers, strict=True)}
    for device, code in codes.items():
        if code < 0:
            fail(f"the worker on {device} was ended by signal {-code}; what it measured is kept, run it again")
    return max(WRONG_INPUT if code < 0 else code for code in codes.values())
