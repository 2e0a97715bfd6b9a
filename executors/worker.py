"""The worker process: owns the device, measures one group after the other, and reports every step."""

import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

from costmodel import Attention, Batch
from executors.environment import Environment, detect, free_bytes
from executors.failures import DeviceLost
from executors.outcome import Candidate, Outcome
from executors.settings import Settings


@dataclass(frozen=True, slots=True)
class Job:
    """One group to measure."""

    attention: Attention
    batch: Batch
    candidates: tuple[Candidate, ...]
    settings: Settings
    remaining_seconds: float | None
    """Time to the deadline, since clocks are not shared between processes."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The worker is ready, or there is no such device."""

    environment: Environment | str


@dataclass(frozen=True, slots=True)
class Began:
    """A candidate is about to touch the device."""

    key: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A candidate has its outcome."""

    key: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Lost:
    """A candidate destroyed the CUDA context."""

    key: str
    message: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The group is done."""


Message = Hello | Began | Ended | Lost | Finished


class _Reporter:
    """A watcher that tells the parent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def began(self, key: str) -> None:
        self._connection.send(Began(key))

    def ended(self, key: str, outcome: Outcome) -> None:
        self._connection.send(Ended(key, outcome))


def serve(connection: Connection, device: str) -> None:
    """Measure jobs from the connection until it closes."""
    _settle()
    try:
        environment = detect(device)
    except ValueError as error:
        connection.send(Hello(str(error)))
        return
    import torch

    from executors.group import Bench

    if torch.device(device).type == "cpu" and sys.platform == "linux":
        _cap_memory()
    connection.send(Hello(environment))
    bench = Bench(device)
    while True:
        try:
            job: Job = connection.recv()
        except EOFError:
            return
        settings = job.settings
        if job.remaining_seconds is not None:
            settings = replace(settings, deadline=time.monotonic() + job.remaining_seconds)
        try:
            bench.measure(job.attention, job.batch, job.candidates, settings, _Reporter(connection))
        except DeviceLost as loss:
            connection.send(Lost(loss.key, loss.message))
            return
        connection.send(Finished())


def _settle() -> None:
    """Leave interrupts to the parent, die with it, and pin OpenMP's threads (read when PyTorch is imported)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("OMP_PROC_BIND", "true")
    if sys.platform == "linux":
        import ctypes

        die_with_parent = 1
        ctypes.CDLL(None).prctl(die_with_parent, signal.SIGKILL)


def _cap_memory() -> None:
    """Make an allocation beyond the machine's memory fail in the worker instead of waking the kernel's killer."""
    import resource

    import psutil

    in_use = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (in_use + free_bytes("cpu"), resource.RLIM_INFINITY))
