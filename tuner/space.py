"""The finite set of candidates for one workload, and how each looks to Optuna."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from executors.outcome import Candidate

if TYPE_CHECKING:
    from optuna.distributions import CategoricalDistribution

BACKEND = "backend"


class NoCandidate(Exception):
    """No backend can run a workload on a device."""


@dataclass(frozen=True, slots=True)
class Space:
    """All candidates of one workload on one device, each backend's defaults first.

    Raises:
        ValueError: There is no candidate, the default is none, or candidates of one backend differ in knob names.
    """

    candidates: tuple[Candidate, ...]
    default: Candidate
    """What runs when nothing is tuned: the engine's own choice."""
    reachable: frozenset[str] = frozenset()
    """Keys of what SGLang's flags reach: the best of these is looked for beside the best of all."""

    def __post_init__(self) -> None:
        """Check that there is something to choose from."""
        if not self.candidates:
            raise ValueError("no candidate: no backend can run this workload on this device")
        if self.default.key not in {c.key for c in self.candidates}:
            raise ValueError(f"the default {self.default.key} is not among the candidates")
        for candidate in self.candidates:
            if candidate.knobs.keys() != self.backend_default(candidate.backend).knobs.keys():
                raise ValueError(f"{candidate.key} has other knobs than {self.backend_default(candidate.backend).key}")

    def __len__(self) -> int:
        """Count the candidates."""
        return len(self.candidates)

    def backend_default(self, backend: str) -> Candidate:
        """The backend with its default knobs."""
        return next(c for c in self.candidates if c.backend == backend)

    @property
    def digest(self) -> str:
        """A short hash of the parameters and their choices: Optuna refuses one name with two sets of choices."""
        names = sorted((name, [repr(c) for c in d.choices]) for name, d in self.distributions().items())
        return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:6]

    def by_key(self) -> dict[str, Candidate]:
        """Candidate by its key."""
        return {c.key: c for c in self.candidates}

    def distributions(self) -> "dict[str, CategoricalDistribution]":
        """One categorical for the backend and one for each `<backend>.<knob>`."""
        from optuna.distributions import CategoricalDistribution

        choices: dict[str, list[Any]] = {BACKEND: []}
        for candidate in self.candidates:
            for name, value in self.params(candidate).items():
                known = choices.setdefault(name, [])
                if not any(value is v or (value == v and type(value) is type(v)) for v in known):
                    known.append(value)
        return {name: CategoricalDistribution(values) for name, values in choices.items()}

    def params(self, candidate: Candidate) -> dict[str, Any]:
        """The candidate as Optuna parameters; knob names carry their backend, since one name has one set of choices."""
        knobs = {f"{candidate.backend}.{k}": v for k, v in candidate.knobs.items()}
        return {BACKEND: candidate.backend, **knobs}

    def candidate(self, params: Mapping[str, Any]) -> Candidate | None:
        """The candidate that Optuna parameters mean, or None where they are no candidate."""
        backend = params[BACKEND]
        prefix = f"{backend}."
        knobs = {k.removeprefix(prefix): v for k, v in params.items() if k.startswith(prefix)}
        return self.by_key().get(Candidate(backend, knobs).key)


def pick_default(candidates: Sequence[Candidate], preferred: Sequence[str]) -> Candidate:
    """The default knobs of the first preferred backend that is there, else of the first backend.

    Raises:
        NoCandidate: The list is empty.
    """
    if not candidates:
        raise NoCandidate("no backend can run this workload on this device")
    for backend in preferred:
        for candidate in candidates:
            if candidate.backend == backend:
                return candidate
    return candidates[0]
