"""Measuring in a worker process that owns the device: a crash, hang or exhausted memory ends only the worker."""

import math
import multiprocessing
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from types import TracebackType
from typing import TYPE_CHECKING, Self

from costmodel import Attention, Batch
from executors.environment import Environment
from executors.live import Catalogue
from executors.outcome import Candidate, Failed, FailureKind, Outcome
from executors.settings import INPUTS_STAGE, Settings, Silent, Watcher
from executors.worker import Began, Ended, Finished, Hello, Job, Lost, Message, serve

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

START_LIMIT = 180.0
"""Seconds that a worker may take to start: importing PyTorch and opening the device."""
INPUTS_LIMIT = 300.0
"""Seconds for inputs and reference."""
CANDIDATE_LIMIT = 120.0
"""Seconds between two signs of life of a candidate, its compilation included."""
OVERRUN = 15.0
"""Seconds that what was begun in time may still take when the whole run has to end; then it is stopped."""


class WorkerFailed(RuntimeError):
    """The worker process cannot start or cannot make its inputs."""


@dataclass(slots=True)
class _Worker:
    process: "SpawnProcess"
    connection: Connection


class IsolatedMeasurer(Catalogue):
    """Measures in a worker process, restarted after each loss; use it as a context manager or call `close`."""

    def __init__(
        self,
        device: str = "cpu",
        backends: Sequence[str] | None = None,
        *,
        limit_seconds: float = CANDIDATE_LIMIT,
        until: float | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        """Make the measurer; the worker starts with the first question about its device.

        Args:
            device: `cpu` or `cuda:<index>`.
            backends: Only these; None for all.
            limit_seconds: Longest silence of a candidate.
            until: `time.monotonic()` at which the whole run ends. A candidate that still runs `OVERRUN` seconds later
                is stopped, and has no outcome.
            watcher: Is told what begins and ends.
        """
        super().__init__(backends)
        self._device = device
        self._limit = limit_seconds
        self._last = None if until is None else until + OVERRUN
        self._watcher = watcher or Silent()
        self._worker: _Worker | None = None
        self._environment: Environment | None = None
        self.restarts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def environment(self) -> Environment:
        """The device as the worker sees it; starts the worker where none has.

        Raises:
            ValueError: There is no such device.
            WorkerFailed: The worker does not start.
        """
        if self._environment is None:
            self._ensure()
        assert self._environment is not None
        return self._environment

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
        """Measure one workload's candidates together; those that a lost worker had not finished are begun again."""
        return self.measure_with(attention, batch, candidates, Settings(seed, repeats, deadline))

    def measure_with(
        self, attention: Attention, batch: Batch, candidates: Sequence[Candidate], settings: Settings
    ) -> dict[str, Outcome]:
        """Measure with all settings spelled out."""
        outcomes: dict[str, Outcome] = {}
        while True:
            left = tuple(c for c in candidates if c.key not in outcomes)
            if not left or settings.passed:
                return outcomes
            worker = self._ensure()
            remaining = None if settings.deadline is None else settings.deadline - time.monotonic()
            worker.connection.send(Job(attention, batch, left, replace(settings, deadline=None), remaining))
            blamed = self._follow(worker, outcomes)
            if blamed is None:
                return outcomes
            self._stop()
            self.restarts += 1
            key, failure = blamed
            if key == INPUTS_STAGE:
                failure = replace(failure, message=f"while making inputs: {failure.message}")
            for culprit in [c.key for c in left] if key == INPUTS_STAGE else [key]:
                outcomes[culprit] = failure
                self._watcher.ended(culprit, failure)

    def close(self) -> None:
        """End the worker."""
        self._stop()

    def _follow(self, worker: _Worker, outcomes: dict[str, Outcome]) -> tuple[str, Failed] | None:
        """Collect outcomes; None when the group or the run is over, else whom to blame for the loss of the worker."""
        current = INPUTS_STAGE
        while True:
            limit = INPUTS_LIMIT if current == INPUTS_STAGE else self._limit
            wait = min(limit, self._seconds_left)
            message = _receive(worker, wait)
            match message:
                case Began(key):
                    current = key
                    self._watcher.began(key)
                case Ended(key, outcome):
                    outcomes[key] = outcome
                    self._watcher.ended(key, outcome)
                case Finished():
                    return None
                case Lost(key, text):
                    return key, Failed("crashed", f"the device was lost: {text}")
                case None if wait < limit:
                    self._stop()
                    return None
                case None:
                    return current, Failed("timeout", f"no sign of life for {limit:.0f} s")
                case _:
                    return current, _death(worker)

    @property
    def _seconds_left(self) -> float:
        return math.inf if self._last is None else max(0.0, self._last - time.monotonic())

    def _ensure(self) -> _Worker:
        if self._worker is None:
            self._worker, self._environment = _start(self._device)
        return self._worker

    def _stop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        worker.connection.close()
        worker.process.join(0.5)
        if worker.process.is_alive():
            worker.process.kill()
        worker.process.join()
        worker.process.close()


@dataclass(frozen=True, slots=True)
class _Dead:
    """The worker has ended."""


def _start(device: str) -> tuple[_Worker, Environment]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, device), daemon=True, name=f"attnroof-{device}")
    with _interrupts_held():
        process.start()
    theirs.close()
    worker = _Worker(process, ours)
    try:
        message = _receive(worker, START_LIMIT)
    except KeyboardInterrupt:
        process.kill()
        raise
    if isinstance(message, Hello) and isinstance(message.environment, Environment):
        return worker, message.environment
    process.kill()
    process.join()
    if isinstance(message, Hello):
        raise ValueError(str(message.environment))
    raise WorkerFailed(f"the worker process for {device} did not start")


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C from a worker that is being started; this process meets it afterwards."""
    resource_tracker.ensure_running()  # when it starts by itself later on, it lets interrupts through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _receive(worker: _Worker, limit: float) -> "Message | _Dead | None":
    """The next message, `_Dead` where the worker has ended, None after `limit` seconds of silence."""
    try:
        return worker.connection.recv() if worker.connection.poll(limit) else None
    except (EOFError, OSError):
        return _Dead()


def _death(worker: _Worker) -> Failed:
    worker.process.join(5)
    code = worker.process.exitcode
    kind: FailureKind = "oom" if code == -9 else "crashed"
    why = "was killed, most likely for lack of memory" if code == -9 else f"ended with exit code {code}"
    return Failed(kind, f"the worker process {why}")
