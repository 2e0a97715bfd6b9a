"""What the cost model says about every candidate of a workload."""

from collections.abc import Callable, Mapping, Sequence

from costmodel import Incompatible, Prediction, UnknownBackend, predict
from executors.outcome import Candidate
from hwprofiles import MissingValue, Profile
from tuner.workload import Workload

Predictor = Callable[[Workload, Sequence[Candidate], Profile], Mapping[str, Prediction | None]]


def predict_all(
    workload: Workload, candidates: Sequence[Candidate], profile: Profile
) -> Mapping[str, Prediction | None]:
    """Predict each candidate by key; None where the model does not know the backend, the device or the call.

    Raises:
        ValueError: The batch cannot be run on the device at all, for example because it does not fit the memory.
    """
    return {c.key: _predict(workload, c, profile) for c in candidates}


def _predict(workload: Workload, candidate: Candidate, profile: Profile) -> Prediction | None:
    try:
        return predict(
            workload.attention, workload.batch, backend=candidate.backend, profile=profile, knobs=candidate.knobs
        )
    except (Incompatible, UnknownBackend, MissingValue):
        return None
