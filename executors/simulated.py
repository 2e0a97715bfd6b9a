"""A measurer that answers from the cost model with a seed: for tests and rehearsals without a device."""

import hashlib
import random
from collections.abc import Mapping, Sequence

from costmodel import Attention, Batch, Incompatible, implementation_of, predict
from executors.environment import Environment
from executors.live import Catalogue
from executors.outcome import Accuracy, Candidate, Measured, Outcome, Rejected
from executors.registry import get_backend
from hwprofiles import Profile

MODEL_ERROR = 0.15
"""Standard deviation of the logarithm between a prediction and the simulated truth."""
NOISE = 0.01
"""Standard deviation of the logarithm between the truth and one sample."""


class SimulatedMeasurer(Catalogue):
    """Simulates a device: the truth is the prediction, off by an error that depends on workload and candidate only."""

    def __init__(
        self,
        profile: Profile,
        *,
        backends: Sequence[str] | None = None,
        faults: Mapping[str, Outcome] | None = None,
        model_error: float = MODEL_ERROR,
        noise: float = NOISE,
    ) -> None:
        super().__init__(backends)
        self._profile = profile
        self._faults = dict(faults or {})
        self._model_error = model_error
        self._noise = noise

    def environment(self) -> Environment:
        """The simulated device, its name marked as such."""
        profile = self._profile
        return Environment(
            device="cpu" if profile.kind == "cpu" else "cuda:0",
            name=f"{profile.name} (simulated)",
            cc=profile.compute_capability,
            sms=profile.num_sms,
            memory_bytes=profile.memory_bytes,
            source="simulated",
        )

    def implementation(self, backend: str) -> tuple[str, str] | None:
        """The implementation that the cost model describes."""
        return implementation_of(backend)

    def implementation_of(self, candidate: Candidate, attention: Attention, batch: Batch) -> tuple[str, str] | None:
        """Library and version behind the candidate's backend."""
        return self.implementation(candidate.backend)

    def candidates(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Candidate, ...]:
        """All points that the backends allow and the cost model knows, installed or not."""
        found: list[Candidate] = []
        for name in self._names:
            backend = get_backend(name)
            if not backend.reject(attention, batch, profile):
                found += [c for c in backend.points(attention, batch, profile) if self._seconds(attention, batch, c)]
        return tuple(found)

    def rejections(self, attention: Attention, batch: Batch, profile: Profile) -> Mapping[str, Rejected]:
        """Backend to all reasons, leaving out that it is not installed."""
        reasons = {name: get_backend(name).reject(attention, batch, profile) for name in self._names}
        return {name: Rejected(tuple(texts)) for name, texts in reasons.items() if texts}

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
        """Answer at once; the deadline does not matter."""
        return {c.key: self._outcome(attention, batch, c, seed, repeats) for c in candidates}

    def truth(self, attention: Attention, batch: Batch, candidate: Candidate) -> float | None:
        """Simulated latency without noise, seconds; None where the cost model says that it cannot run."""
        seconds = self._seconds(attention, batch, candidate)
        if seconds is None:
            return None
        draw = _random(attention, batch, candidate.key)
        return seconds * draw.lognormvariate(0.0, self._model_error)

    def _outcome(self, attention: Attention, batch: Batch, candidate: Candidate, seed: int, repeats: int) -> Outcome:
        if candidate.key in self._faults:
            return self._faults[candidate.key]
        truth = self.truth(attention, batch, candidate)
        if truth is None:
            return Rejected(("the cost model says that this call cannot be made",))
        draw = _random(attention, batch, candidate.key, seed)
        samples = tuple(truth * draw.lognormvariate(0.0, self._noise) for _ in range(repeats))
        return Measured(samples, Accuracy(0.0, 1.0), path="simulated")

    def _seconds(self, attention: Attention, batch: Batch, candidate: Candidate) -> float | None:
        try:
            prediction = predict(
                attention, batch, backend=candidate.backend, profile=self._profile, knobs=candidate.knobs
            )
        except (Incompatible, ValueError):
            return None
        return prediction.seconds


def _random(*parts: object) -> random.Random:
    """A generator that depends on the values only, in every process."""
    return random.Random(hashlib.sha256(repr(parts).encode()).digest())
