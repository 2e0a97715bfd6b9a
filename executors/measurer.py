"""What the tuner asks of whatever gives it times: a live device, a worker process, recordings or the cost model."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from costmodel import Attention, Batch
from executors.environment import Environment
from executors.outcome import Candidate, Outcome, Rejected
from hwprofiles import Profile


class Measurer(Protocol):
    """Answers how long candidates take on one device."""

    def environment(self) -> Environment:
        """The device and versions behind the answers, and whether they are live, replayed or simulated."""
        ...

    def implementation(self, backend: str) -> tuple[str, str] | None:
        """Library and version behind a backend, or None where it is not available."""
        ...

    def implementation_of(self, candidate: Candidate, attention: Attention, batch: Batch) -> tuple[str, str] | None:
        """Library and version that run one candidate of a workload; a backend may have several."""
        ...

    def candidates(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Candidate, ...]:
        """All candidates that can run; the first of each backend has that backend's default knobs."""
        ...

    def rejections(self, attention: Attention, batch: Batch, profile: Profile) -> Mapping[str, Rejected]:
        """Backend to all reasons why it cannot run this workload here."""
        ...

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
        """Measure one workload's candidates together, interleaved in random order.

        Args:
            attention: The layer.
            batch: The requests.
            candidates: What to run.
            seed: Draws the inputs and the order.
            repeats: Latency samples of each candidate.
            deadline: `time.monotonic()` after which no further candidate is begun; those left out are missing
                from the answer.

        Returns:
            `Candidate.key` to outcome.
        """
        ...
