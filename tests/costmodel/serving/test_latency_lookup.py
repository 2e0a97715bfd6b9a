"""Step times by table against the cost model itself."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_cases import asked, memory, steps

from costmodel.serving import StepModel
from costmodel.serving.lookup import StepLookup, _around, _node, _position

PAIRS = [("fa3", "fa3"), ("flashinfer", "triton"), ("triton", "flashinfer")]
WITHIN = 0.9
"""The cost model's intervals hold nine of ten measurements: a table may leave them no more often."""
WITHIN_PREFILL = 0.85
"""Prefill steps with each wave of tiles, and its intervals are the narrowest."""


@given(st.integers(0, 600), st.sampled_from([16, 32]))
def test_nodes_are_where_they_say(index, per_octave):
    assert _position(_node(index, per_octave), per_octave) == pytest.approx(index)


@given(st.floats(1, 1e6), st.sampled_from([16, 32]))
def test_values_lie_between_their_nodes(value, per_octave):
    low, high, share = _around(value, per_octave)
    assert low <= value <= high
    assert low + share * (high - low) == pytest.approx(value)


@pytest.mark.parametrize(("prefill", "decode"), PAIRS)
def test_decode_attention_stays_in_the_models_intervals(prefill, decode):
    model, random = steps(prefill, decode), Random(0)
    table, inside, errors = StepLookup(model, memory(model)), 0, []
    for _ in range(100):
        batch, length = random.choice([1, 2, 7, 33, 65, 200]), int(10 ** random.uniform(1, 4.5))
        exact, found = model.decode(batch, length).attention, table.decode_attention(batch, length)
        inside += exact.low <= found <= exact.high
        errors.append(abs(found / exact.seconds - 1))
    assert inside >= 100 * WITHIN
    assert sorted(errors)[50] < 0.01


@pytest.mark.parametrize(("prefill", "decode"), PAIRS)
def test_prefill_attention_stays_in_the_models_intervals(prefill, decode):
    model, random = steps(prefill, decode), Random(1)
    table, inside, errors = StepLookup(model, memory(model)), 0, []
    for _ in range(60):
        requests, q_len = random.choice([1, 2, 4]), int(10 ** random.uniform(1, 3.9))
        prefix = random.choice([0, int(10 ** random.uniform(1, 4))])
        exact = model.extend(requests, q_len, q_len + prefix).attention
        found = table.extend_attention(requests, q_len, q_len + prefix)
        inside += exact.low <= found <= exact.high
        errors.append(abs(found / exact.seconds - 1))
    assert inside >= 60 * WITHIN_PREFILL
    assert sorted(errors)[30] < 0.01


def test_nodes_are_exact():
    model = steps()
    table = StepLookup(model, memory(model))
    assert table.decode(64, 1024) == pytest.approx(model.decode(64, 1024).seconds)
    assert table.extend(2048, 2048**2, 2048**2, 1) == pytest.approx(model.extend(1, 2048, 2048).seconds)
    assert table.extend(2048, 4 * 512**2, 4 * 512**2, 4) == pytest.approx(model.extend(4, 512, 512).seconds)


def test_the_page_size_of_the_server_counts():
    model = StepModel(asked(gpu="b200").deployment("trtllm_mha", "trtllm_mha", 64))
    table = StepLookup(model, memory(model))
    assert table.decode(64, 1024) == pytest.approx(model.decode(64, 1024).seconds)
    assert table.extend(512, 512**2, 512**2, 1) == pytest.approx(model.extend(1, 512, 512).seconds)


def test_lengths_beyond_the_context_go_on_growing():
    table = StepLookup(steps(), memory(steps()))
    assert table.decode_attention(1, 300_000) > table.decode_attention(1, 200_000)


def test_verification_of_more_tokens_takes_longer():
    table = StepLookup(steps(), memory(steps()))
    assert table.verify(8, 1024, 4) > table.decode(8, 1024)
    assert table.verify(8, 1024, 8) > table.verify(8, 1024, 4)
