"""Without a measurement the default stays, unless the predicted gain exceeds its uncertainty."""

from dataclasses import replace

import pytest
from tuner_fakes import GQA

from costmodel import Attention, Batch, Prediction, predict
from executors.outcome import Candidate
from hwprofiles import load_profile
from tuner.lookup import ModelFallback
from tuner.plain_model import plain_model
from tuner.unmeasured import choose_unmeasured

H200 = load_profile("h200")
DEFAULT, OWN, OTHER = Candidate("fa3", {"num_splits": 0}), Candidate("fa3", {"num_splits": 1}), Candidate("triton", {})
SOME = predict(GQA, Batch.decode([4096] * 8), backend="fa3", profile=H200)


def estimate(seconds: float, width: float) -> Prediction:
    """An estimate with a 90 % interval of that relative half-width."""
    return replace(SOME, seconds=seconds, low=seconds / (1 + width), high=seconds * (1 + width), breakdown={})


def choose(default: Prediction | None, own: Prediction | None, other: Prediction | None) -> Candidate:
    estimates = {DEFAULT.key: default, OWN.key: own, OTHER.key: other}
    return choose_unmeasured((DEFAULT, OWN, OTHER), DEFAULT, estimates)


def test_a_gain_within_the_uncertainty_keeps_the_default() -> None:
    assert choose(estimate(100e-6, 0.1), None, estimate(98e-6, 0.1)) == DEFAULT


def test_a_gain_beyond_the_uncertainty_is_taken() -> None:
    assert choose(estimate(100e-6, 0.1), None, estimate(70e-6, 0.1)) == OTHER


def test_the_same_gain_is_surer_within_a_backend() -> None:
    default, better = estimate(100e-6, 0.1), estimate(94e-6, 0.1)
    assert choose(default, None, better) == DEFAULT
    assert choose(default, better, None) == OWN


def test_a_default_that_the_model_does_not_know_stays() -> None:
    assert choose(None, None, estimate(1e-6, 0.01)) == DEFAULT


@pytest.mark.parametrize(
    ("attention", "expected"),
    [(GQA, "fa3"), (Attention.mla(num_qo_heads=128), "fa3"), (Attention(64, 8, 64, sinks=True), "fa3")],
)
def test_the_model_alone_answers_with_what_sglang_runs_where_little_is_to_gain(
    attention: Attention, expected: str
) -> None:
    found = ModelFallback(H200)(attention, Batch.extend([8192], [8192]))
    assert found is not None
    assert found.backend == expected
    assert "SGLang's default" in found.provenance


def test_the_plainest_model_has_the_attention_it_was_made_for() -> None:
    group = plain_model(Attention(64, 8, 64, sinks=True, sliding_window=128)).layer_groups[0].attention
    assert (group.num_qo_heads, group.num_kv_heads, group.head_dim, group.sinks) == (64, 8, 64, True)
    assert plain_model(Attention.mla(num_qo_heads=16)).layer_groups[0].attention.is_latent
