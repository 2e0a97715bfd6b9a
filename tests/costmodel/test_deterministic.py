"""Deterministic inference: who takes part, what each has to do, and that nobody gains against a free choice."""

import pytest
from costmodel_devices import device, machine
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel import Attention, Batch, Incompatible, predict, rank
from costmodel.call import Call
from costmodel.deterministic import ACCEPTED, deterministic_knobs, deterministic_reasons
from costmodel.emulators import EMULATORS, emulator_of
from costmodel.knobs import resolve_knobs
from costmodel.sglang.tables import load_tables

GQA = Attention(32, 8, 128)
MLA = Attention.mla(16)


def plan(backend, batch, attention=GQA, **more):
    knobs = {**deterministic_knobs(backend, batch), **more}
    return emulator_of(backend).plan(Call(attention, batch, machine(), resolve_knobs(backend, knobs)))


def test_the_names_are_those_of_the_server_rules():
    assert set(ACCEPTED) == set(load_tables().deterministic)


@pytest.mark.parametrize(
    ("backend", "gpu", "attention", "accepted"),
    [
        ("fa3", "h200", GQA, True),
        ("flashinfer", "h200", GQA, True),
        ("trtllm_mha", "b200", GQA, False),
        ("attnroof_triton", "h200", GQA, False),
        ("fa3", "h200", MLA, True),
        ("flashinfer", "h200", MLA, False),
        ("fa4", "h200", MLA, False),
        ("fa4", "b200", MLA, True),
    ],
)
def test_who_takes_part(backend, gpu, attention, accepted):
    assert (not deterministic_reasons(backend, attention, machine(gpu))) == accepted


def test_fa3_does_not_split():
    assert plan("fa3", Batch.decode([32768], page_size=64)).num_splits == 1


def test_triton_decodes_in_parts_of_256_tokens():
    made = plan("triton", Batch.decode([1000, 300], page_size=1))
    assert made.num_splits == 4
    assert made.job_count == 8 * (4 + 2)
    assert max(tiles for _, tiles in made.jobs) == 256 // 32


def test_triton_launches_for_the_longest_context():
    batch = Batch.decode([1000], page_size=1)
    short, long = plan("triton", batch), plan("triton", batch, context_len=131072)
    assert short.empty_ctas == 0
    assert long.empty_ctas == 8 * (131072 // 256 - 4)
    assert long.jobs == short.jobs


def test_flashinfer_decodes_unsplit_and_prefills_in_4096_tokens():
    decode = plan("flashinfer", Batch.decode([32768], page_size=1))
    assert (decode.num_splits, decode.merge_launched, decode.variant) == (1, False, "decode_tensor_cores")
    prefill = plan("flashinfer", Batch.extend([2048], [10000], page_size=1))
    assert (prefill.num_splits, prefill.variant) == (3, "extend_fa2")


def test_parts_do_not_depend_on_the_rest_of_the_batch():
    for backend in ("fa3", "triton", "flashinfer"):
        alone = plan(backend, Batch.decode([5000], page_size=1))
        together = plan(backend, Batch.decode([5000] * 40, page_size=1))
        assert together.jobs == tuple((40 * count, tiles) for count, tiles in alone.jobs), backend


def test_a_contradicting_knob_is_refused():
    with pytest.raises(ValueError, match="num_splits"):
        predict(GQA, Batch.decode([4096]), backend="fa3", profile=device(), knobs={"num_splits": 4}, deterministic=True)


def test_a_backend_that_is_not_accepted_says_so():
    with pytest.raises(Incompatible, match="deterministic"):
        predict(GQA, Batch.decode([4096]), backend="torch_native", profile=device(), deterministic=True)
    rows = rank(GQA, Batch.decode([4096]), profile=device(), deterministic=True)
    assert {row.backend for row in rows if row.prediction} == {"fa3", "fa4", "flashinfer", "triton"}
    assert {row.backend for row in rows} == set(EMULATORS)


@settings(max_examples=40, deadline=None)
@given(
    backend=st.sampled_from(["fa3", "fa4", "triton"]),
    kv=st.integers(1, 30000),
    size=st.integers(1, 64),
    group=st.sampled_from([1, 4, 8]),
)
def test_uniform_decode_is_never_faster_than_the_best_free_choice(backend, kv, size, group):
    attention, batch = Attention(8 * group, 8, 128), Batch.decode([kv] * size, page_size=64)
    fixed = predict(attention, batch, backend=backend, profile=device(), deterministic=True).seconds
    counts = {-(-kv // 256), 1} if backend == "triton" else {1}
    mode = {"split_mode": "fixed"} if backend == "triton" else {}
    knob = "max_kv_splits" if backend == "triton" else "num_splits"
    free = [
        predict(attention, batch, backend=backend, profile=device(), knobs={knob: n, **mode}).seconds for n in counts
    ]
    ranked = [row.prediction.seconds for row in rank(attention, batch, profile=device(), backends=[backend])]
    assert fixed >= min(free + ranked) * (1 - 1e-9)


def test_what_was_never_measured_rests_on_structure():
    unified = predict(GQA, Batch.extend([512], [4096]), backend="triton", profile=device(), deterministic=True)
    assert unified.evidence == "structure"
    assert predict(GQA, Batch.decode([4096]), backend="fa3", profile=device(), deterministic=True).evidence == (
        "calibrated"
    )
