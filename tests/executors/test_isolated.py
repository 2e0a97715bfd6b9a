"""A worker process: a crash, a hang or a killed process ends the worker only, and the run goes on."""

import multiprocessing
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from costmodel import Attention, Batch
from executors import isolated
from executors.isolated import IsolatedMeasurer
from executors.outcome import Candidate, Failed, Measured, Outcome
from executors.settings import Silent

GQA = Attention(4, 2, 32)
DECODE = Batch.decode([40, 9], page_size=8)
NAMES = ("BadPointer", "Right", "Endless", "Killed", "Wrong", "NotANumber", "BeyondMemory")


class Watching(Silent):
    def __init__(self) -> None:
        self.ends: list[str] = []

    def ended(self, key: str, outcome: Outcome) -> None:
        self.ends.append(key)


@pytest.fixture(scope="module")
def run() -> tuple[dict[str, Outcome], int, list[str]]:
    watching = Watching()
    with IsolatedMeasurer("cpu", limit_seconds=10.0, watcher=watching) as measurer:
        assert measurer.environment().device == "cpu"
        candidates = [Candidate(f"faulty_backends:{name}", {}) for name in NAMES]
        found = measurer.measure(GQA, DECODE, candidates, seed=0, repeats=2)
        by_name = {key.partition(":")[2].removesuffix("[]"): outcome for key, outcome in found.items()}
        return by_name, measurer.restarts, watching.ends


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("BadPointer", "crashed", "exit code -11"),
        ("Endless", "timeout", "no sign of life for 10 s"),
        ("Killed", "oom", "lack of memory"),
        ("Wrong", "incorrect", "largest error"),
        ("NotANumber", "incorrect", "NaN"),
        ("BeyondMemory", "oom", "allocate"),
    ],
)
def test_each_fault_has_its_name(
    run: tuple[dict[str, Outcome], int, list[str]], name: str, kind: str, words: str
) -> None:
    outcome = run[0][name]
    assert isinstance(outcome, Failed)
    assert outcome.kind == kind
    assert words in outcome.message


def test_the_right_candidate_is_measured_in_spite_of_its_neighbours(
    run: tuple[dict[str, Outcome], int, list[str]],
) -> None:
    assert isinstance(run[0]["Right"], Measured)


def test_the_worker_is_restarted_only_where_it_was_lost(run: tuple[dict[str, Outcome], int, list[str]]) -> None:
    assert run[1] == 3


def test_the_watcher_hears_the_end_of_every_candidate(run: tuple[dict[str, Outcome], int, list[str]]) -> None:
    assert set(run[2]) == {f"faulty_backends:{name}[]" for name in NAMES}


def test_what_still_runs_long_after_the_end_of_the_whole_run_is_stopped_without_an_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Late(Silent):
        """Lets the end of the run pass when the endless candidate begins."""

        def began(self, key: str) -> None:
            if "Endless" in key:
                monkeypatch.setattr(isolated, "time", SimpleNamespace(monotonic=lambda: end + isolated.OVERRUN))

    end = time.monotonic() + 600
    candidates = [Candidate(f"faulty_backends:{name}", {}) for name in ("Wrong", "Endless", "Right")]
    with IsolatedMeasurer("cpu", until=end, watcher=Late()) as measurer:
        found = measurer.measure(GQA, DECODE, candidates, seed=0, repeats=2)
        assert list(found) == [candidates[0].key]
        assert measurer.restarts == 0
        assert measurer.environment().device == "cpu"


def test_a_device_that_is_not_there_is_named() -> None:
    with IsolatedMeasurer("cuda:77") as measurer, pytest.raises(ValueError, match=r"no CUDA device here|cuda:77"):
        measurer.environment()


def test_an_interrupt_never_reaches_the_worker_not_even_while_it_starts() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with IsolatedMeasurer("cpu") as measurer:
        measurer.environment()
        assert measurer._worker is not None
        status = Path(f"/proc/{measurer._worker.process.pid}/status").read_text()
    blocked = int(next(line for line in status.splitlines() if line.startswith("SigBlk")).split()[1], 16)
    assert blocked & 1 << (signal.SIGINT - 1)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_a_worker_that_is_interrupted_at_its_start_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(worker: isolated._Worker, limit: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(isolated, "_receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        IsolatedMeasurer("cpu").environment()
    for child in multiprocessing.active_children():
        child.join(10)
        assert child.exitcode == -signal.SIGKILL
