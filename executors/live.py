"""Measuring on a device of this machine, in this process."""

from collections.abc import Mapping, Sequence

from costmodel import Attention, Batch
from executors.base import Backend
from executors.environment import Environment, detect
from executors.group import Bench
from executors.outcome import Candidate, Outcome, Rejected
from executors.registry import backend_names, get_backend
from executors.settings import Settings
from hwprofiles import Profile


class Catalogue:
    """What the registered backends can run: the part of a measurer that touches no device."""

    def __init__(self, backends: Sequence[str] | None = None) -> None:
        self._names = tuple(backends) if backends is not None else backend_names()

    def implementation(self, backend: str) -> tuple[str, str] | None:
        """Library and version behind a backend, or None where it is not installed."""
        return get_backend(backend).implementation()

    def implementation_of(self, candidate: Candidate, attention: Attention, batch: Batch) -> tuple[str, str] | None:
        """Library and version that run one candidate of a workload."""
        return get_backend(candidate.backend).implementation_for(attention, batch, candidate.knobs)

    def candidates(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Candidate, ...]:
        """All candidates that can run; the first of each backend has that backend's default knobs."""
        return tuple(c for name in self._names for c in get_backend(name).candidates(attention, batch, profile))

    def rejections(self, attention: Attention, batch: Batch, profile: Profile) -> Mapping[str, Rejected]:
        """Backend to all reasons why it cannot run this workload here."""
        found = {name: _reasons(get_backend(name), attention, batch, profile) for name in self._names}
        return {name: Rejected(tuple(reasons)) for name, reasons in found.items() if reasons}


class LiveMeasurer(Catalogue):
    """Measures in this process: fast, and lost with it when a candidate destroys the device's context."""

    def __init__(self, device: str = "cpu", backends: Sequence[str] | None = None) -> None:
        super().__init__(backends)
        self._environment = detect(device)
        self._bench = Bench(self._environment.device)

    def environment(self) -> Environment:
        """The device with its versions."""
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
        """Measure one workload's candidates together.

        Raises:
            DeviceLost: A candidate destroyed the CUDA context; `IsolatedMeasurer` survives that.
        """
        settings = Settings(seed=seed, repeats=repeats, deadline=deadline)
        return self._bench.measure(attention, batch, candidates, settings)


def _reasons(backend: Backend, attention: Attention, batch: Batch, profile: Profile) -> list[str]:
    reasons = backend.reject(attention, batch, profile)
    if backend.implementation() is None:
        hint = f": {backend.install_hint}" if backend.install_hint else ""
        reasons.append(f"{backend.name} is not installed{hint}")
    return reasons
