"""What to run where nothing was measured: the default, unless the predicted gain exceeds its uncertainty."""

from collections.abc import Mapping, Sequence

from costmodel import Prediction
from executors.outcome import Candidate
from tuner.beliefs import Beliefs

SURE = 1.0
"""Standard errors of a predicted gain that it has to exceed: five of six such choices should be faster."""


def choose_unmeasured(
    candidates: Sequence[Candidate], default: Candidate, predictions: Mapping[str, Prediction | None]
) -> Candidate:
    """Choose by prediction alone.

    The errors of a backend's predictions go together, so a better knob of the default's own backend is taken on a
    smaller gain than another backend.

    Args:
        candidates: Those that may be chosen, the default among them.
        default: What runs when nothing is tuned.
        predictions: The model's estimates by key.

    Returns:
        The candidate with the least predicted time among those that are surely enough faster than the default, else
        the default.
    """
    if predictions.get(default.key) is None:
        return default
    beliefs = Beliefs(candidates, predictions)
    surely = [c for c in candidates if predictions.get(c.key) and beliefs.advantage(c.key, default.key) > SURE]
    return min((default, *surely), key=lambda c: _seconds(predictions, c))


def _seconds(predictions: Mapping[str, Prediction | None], candidate: Candidate) -> float:
    prediction = predictions[candidate.key]
    assert prediction is not None
    return prediction.seconds
