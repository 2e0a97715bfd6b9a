"""Where a sweep's times come from and where its records go."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from costmodel import Attention, Batch
from executors.isolated import IsolatedMeasurer
from executors.outcome import Candidate, Outcome
from executors.recorder import Workload as Measured
from executors.recorder import append_records, to_record
from executors.registry import get_backend
from executors.settings import Settings
from executors.sweeps.runner import Outcomes, Writer
from executors.sweeps.sets import Workload

REFERENCE_SECONDS = 0.1
"""A sweep checks all rows where that takes so long, else a sample; a longer check would double its cost a row."""

CANDIDATE_SECONDS = 45.0
"""Silence after which a candidate is taken to hang; compiling one kernel takes seconds."""


class SweepMeasurer(IsolatedMeasurer):
    """Measures in a worker that is restarted after a crash, with a short reference."""

    def __init__(self, device: str, *, sustained_seconds: float = 0.0) -> None:
        super().__init__(device, limit_seconds=CANDIDATE_SECONDS)
        self._sustained_seconds = sustained_seconds

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
        """Measure one workload's candidates together."""
        settings = Settings(seed, repeats, deadline, REFERENCE_SECONDS, self._sustained_seconds)
        return self.measure_with(attention, batch, candidates, settings)


def writer(path: Path, measurer: SweepMeasurer) -> Writer:
    """Give what appends a workload's outcomes as records."""
    environment = measurer.environment()

    def write(workload: Workload, outcomes: Outcomes) -> None:
        attention, batch = workload.attention, workload.batch
        measured = Measured(attention, batch, environment)
        append_records(path, [to_record(measured, c, outcome, _library(workload, c)) for c, outcome in outcomes])

    return write


def _library(workload: Workload, candidate: Candidate) -> tuple[str, str] | None:
    backend = get_backend(candidate.backend)
    return backend.implementation_for(workload.attention, workload.batch, candidate.knobs)
