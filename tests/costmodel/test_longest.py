"""A batch is never cheaper than its longest request alone, unless the library cuts that request otherwise."""

from dataclasses import replace

import pytest
from costmodel_devices import device
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from costmodel import Attention, Batch, predict
from costmodel.call import Call
from costmodel.emulators import EMULATORS, emulator_of
from costmodel.knobs import resolve_knobs
from costmodel.library import library_reasons
from costmodel.longest import cut_alike, longest_alone
from costmodel.machine import machine_of

ATTENTIONS = {
    "gqa": Attention(16, 4, 128),
    "mha": Attention(8, 8, 64),
    "window": Attention(16, 2, 64, sliding_window=512),
    "mla": Attention.mla(16),
    "sparse": Attention.sparse(Attention.mla(64), top_k=2048),
}
GPUS = ["h200", "a100", "b200"]


@st.composite
def batches(draw):
    kv = draw(st.lists(st.integers(1, draw(st.sampled_from([300, 5000, 40000]))), min_size=2, max_size=24))
    phase = draw(st.sampled_from(["decode", "verify", "extend", "mixed"]))
    if phase == "decode":
        return Batch.decode(kv, 64)
    if phase == "verify":
        return Batch.verify([n + 4 for n in kv], 4, 1, 64)
    shares = draw(st.lists(st.floats(0, 1), min_size=len(kv), max_size=len(kv)))
    q = [max(1, round(n * share)) for n, share in zip(kv, shares, strict=True)]
    if phase == "mixed":
        q = [1 if i % 2 else n for i, n in enumerate(q)]
    return Batch.extend(q, kv, 64)


def longest(batch):
    """Requests with most KV, most new tokens or most query-key pairs."""
    lens = list(zip(batch.q_lens, batch.kv_lens, strict=True))
    return {
        max(lens, key=lambda n: (n[1], n[0])),
        max(lens),
        max(lens, key=lambda n: (n[0] * (2 * n[1] - n[0]), n[1])),
    }


def call_of(attention, batch, backend, gpu):
    return Call(attention, batch, machine_of(device(gpu)), resolve_knobs(backend, None))


@pytest.mark.parametrize("backend", sorted(EMULATORS))
@settings(max_examples=40, deadline=None)
@given(batch=batches(), name=st.sampled_from(sorted(ATTENTIONS)), gpu=st.sampled_from(GPUS))
def test_a_batch_is_never_cheaper_than_its_longest_request_cut_alike(backend, batch, name, gpu):
    attention, profile = ATTENTIONS[name], device(gpu)
    if library_reasons(backend, attention, batch, profile):
        return
    whole = predict(attention, batch, backend=backend, profile=profile).seconds
    plan = emulator_of(backend).plan(call_of(attention, batch, backend, gpu))
    for q, kv in longest(batch):
        alone = replace(batch, q_lens=(q,), kv_lens=(kv,))
        if not library_reasons(backend, attention, alone, profile) and cut_alike(
            emulator_of(backend).plan(call_of(attention, alone, backend, gpu)), plan
        ):
            assert predict(attention, alone, backend=backend, profile=profile).seconds <= whole * (1 + 1e-9)


@pytest.mark.parametrize("backend", ["fa3", "flashinfer", "triton", "attnroof_triton"])
@settings(max_examples=20, deadline=None)
@given(kv=st.integers(200, 30000), q=st.integers(64, 200), small=st.integers(1, 30))
def test_a_short_request_beside_it_does_not_shorten_a_prompt(backend, kv, q, small):
    """Small tiles fill their rows badly, which made the mean job of such a batch cheaper than the prompt's."""
    attention = ATTENTIONS["mha"]
    both, one = Batch.extend([q, 2], [kv, 2 + small], 64), Batch.extend([q], [kv], 64)
    plans = [emulator_of(backend).plan(call_of(attention, batch, backend, "h200")) for batch in (one, both)]
    assume(cut_alike(*plans))
    whole, alone = (predict(attention, batch, backend=backend, profile=device()).seconds for batch in (both, one))
    assert alone <= whole * (1 + 1e-9)


def test_time_that_the_longest_request_adds_is_latency():
    batch = Batch.extend([3000, 2, 2], [30000, 20, 30], 64)
    for backend in EMULATORS:
        if library_reasons(backend, ATTENTIONS["mha"], batch, device()):
            continue
        p = predict(ATTENTIONS["mha"], batch, backend=backend, profile=device())
        assert sum(p.breakdown.values()) == pytest.approx(p.seconds, rel=1e-9)


def test_only_requests_that_may_bind_are_looked_at():
    emulator = emulator_of("fa3")
    for batch, count in (
        (Batch.decode([500] * 9, 64), 0),
        (Batch.extend([700 + i for i in range(400)], [900 + i for i in range(400)], 64), 0),
        (Batch.extend([3000, 20], [3000, 90], 64), 1),
        (Batch.extend([3000, 1], [3000, 50000], 64), 2),
    ):
        call = call_of(ATTENTIONS["mha"], batch, "fa3", "h200")
        assert len(list(longest_alone(call, emulator.plan(call)))) == count
