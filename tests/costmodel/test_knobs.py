import pytest

from costmodel.emulators import EMULATORS
from costmodel.knobs import KNOBS, resolve_knobs


def test_defaults_are_the_contract():
    assert resolve_knobs("fa3", None)["num_splits"] == 0
    assert resolve_knobs("fa3", None)["pack_gqa"] == "auto"
    assert resolve_knobs("fa3", None)["scheduler_metadata"] == "precomputed"
    assert resolve_knobs("triton", None) == {"max_kv_splits": 8, "split_mode": "auto"}
    assert resolve_knobs("flashmla", None) == {}


@pytest.mark.parametrize("backend", sorted(KNOBS))
def test_every_default_is_allowed(backend):
    assert backend in EMULATORS
    for spec in KNOBS[backend]:
        spec.check(backend, spec.default)


@pytest.mark.parametrize(
    ("backend", "knobs", "message"),
    [
        ("fa3", {"num_splits": 129}, "num_splits=129 must be a whole number from 0 to 128"),
        ("fa3", {"num_splits": True}, "whole number"),
        ("fa3", {"num_split": 4}, "did you mean num_splits"),
        ("triton", {"split_mode": "off"}, "not one of auto, fixed"),
        ("flashmla", {"num_splits": 4}, "known: none"),
    ],
)
def test_wrong_knobs_are_named(backend, knobs, message):
    with pytest.raises(ValueError, match=message):
        resolve_knobs(backend, knobs)
