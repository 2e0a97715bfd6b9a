"""Shared prefixes: the laws of a cascade, and what sharing changes for a call that reads the prefix every time."""

from dataclasses import replace

import pytest
from costmodel_devices import device, machine
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel import Attention, Batch, Incompatible, predict, rank
from costmodel.call import Call
from costmodel.cascade import BACKENDS, cascade_calls, limit_shared, saved_bytes
from costmodel.knobs import resolve_knobs
from costmodel.predict import kv_cache_bytes
from costmodel.workload import workload_key

GQA = Attention(32, 8, 128)
PAGE = 16


def shared(own, prefix, q=1):
    lens = [prefix + n + q for n in own]
    if q == 1:
        return Batch.decode(lens, PAGE, shared_prefix=prefix)
    return Batch.extend([q] * len(own), lens, PAGE, shared_prefix=prefix)


def estimate(batch, backend="fa3", attention=GQA, **knobs):
    return predict(attention, batch, backend=backend, profile=device(), knobs=knobs)


batches = st.builds(
    lambda own, pages, q: shared(own, pages * PAGE, q),
    st.lists(st.integers(0, 3000), min_size=1, max_size=60),
    st.integers(1, 1000),
    st.sampled_from([1, 1, 7, 200]),
)


@settings(max_examples=40, deadline=None)
@given(batch=batches, backend=st.sampled_from(BACKENDS))
def test_a_cascade_of_nothing_is_the_ordinary_call(batch, backend):
    alone = replace(batch, shared_prefix=0)
    ordinary = estimate(alone, backend)
    assert replace(estimate(alone, backend, cascade=True), knobs=ordinary.knobs) == ordinary


@settings(max_examples=60, deadline=None)
@given(batch=batches, backend=st.sampled_from(BACKENDS))
def test_a_cascade_does_the_same_products_and_never_reads_more_kv(batch, backend):
    call = Call(GQA, batch, machine(), resolve_knobs(backend, {"cascade": True}))
    over, own = cascade_calls(call)
    assert over.work.flops + own.work.flops == call.work.flops
    assert over.work.exps + own.work.exps == call.work.exps
    assert over.work.kv_bytes + own.work.kv_bytes == call.work.kv_bytes - saved_bytes(call) <= call.work.kv_bytes
    p = estimate(batch, backend, cascade=True)
    assert limit_shared(call) <= p.low <= p.seconds <= p.high
    assert sum(p.breakdown.values()) == pytest.approx(p.seconds)
    assert p.evidence == "structure"


@settings(max_examples=30, deadline=None)
@given(batch=batches)
def test_more_traffic_is_only_queries_and_partial_outputs(batch):
    cascade, ordinary = estimate(batch, cascade=True), estimate(batch)
    call = Call(GQA, batch, machine(), resolve_knobs("fa3", None))
    rows = batch.total_q * GQA.num_qo_heads
    merge = 3 * rows * (2 * GQA.value_dim + 4)
    if batch.total_q == batch.size:
        extra = call.work.q_bytes + call.work.o_bytes + merge
        assert cascade.dram_bytes <= ordinary.dram_bytes - saved_bytes(call) + extra + 1


@settings(max_examples=30, deadline=None)
@given(batch=batches, seed=st.randoms(use_true_random=False), backend=st.sampled_from(BACKENDS))
def test_permuting_requests_changes_nothing(batch, seed, backend):
    mixed = list(batch.kv_lens)
    seed.shuffle(mixed)
    one, other = (
        estimate(replace(batch, kv_lens=lens), backend, cascade=True) for lens in (batch.kv_lens, tuple(mixed))
    )
    assert one == other


@settings(max_examples=30, deadline=None)
@given(batch=batches, backend=st.sampled_from(["fa3", "triton", "flashinfer", "torch_native"]))
def test_without_a_cascade_sharing_moves_only_the_lower_end(batch, backend):
    alone, together = estimate(replace(batch, shared_prefix=0), backend), estimate(batch, backend)
    assert together.seconds == alone.seconds
    assert together.high == alone.high
    call = Call(GQA, batch, machine(), resolve_knobs(backend, None))
    assert min(alone.low, limit_shared(call)) <= together.low <= alone.low


def test_a_prefix_that_the_l2_cannot_hold_is_read_from_dram():
    small, large = shared([100] * 32, 4096), shared([100] * 32, 65536)
    assert estimate(small).notes
    assert not estimate(large).notes


def test_it_pays_for_many_requests_and_not_for_one():
    many, one = shared([200] * 64, 8192), shared([200], 8192)
    assert estimate(many, cascade=True).high < estimate(many).low
    assert estimate(one, cascade=True).seconds > estimate(one).seconds


@pytest.mark.parametrize(
    ("backend", "attention", "match"),
    [
        ("triton", GQA, "no knob"),
        ("fa3", Attention(32, 8, 128, sliding_window=512), "every query"),
        ("fa3", Attention(64, 8, 64, sinks=True), "sinks"),
        ("fa3", Attention.mla(16), "not for MLA"),
    ],
)
def test_where_there_is_no_cascade(backend, attention, match):
    with pytest.raises((Incompatible, ValueError), match=match):
        estimate(shared([100] * 4, 1024), backend, attention, cascade=True)


def test_rank_offers_the_cascade_where_requests_share():
    rows = rank(GQA, shared([200] * 64, 8192), profile=device())
    assert rows[0].knobs["cascade"] is True
    assert {row.backend for row in rows if "cascade" in row.knobs} == set(BACKENDS)
    assert not any("cascade" in row.knobs for row in rank(GQA, Batch.decode([8192] * 64, PAGE), profile=device()))


@pytest.mark.parametrize(("prefix", "match"), [(1000, "page_size"), (-16, "whole number"), (4096, "before its new")])
def test_prefixes_that_cannot_be_shared(prefix, match):
    with pytest.raises(ValueError, match=match):
        Batch.decode([4096] * 4, page_size=PAGE, shared_prefix=prefix)


def test_shared_pages_are_stored_once():
    batch = shared([100] * 8, 1024)
    pages = 64 + 8 * 7
    assert kv_cache_bytes(GQA, batch) == pages * PAGE * GQA.kv_bytes_per_token


def test_batches_without_a_prefix_keep_their_key():
    plain = Batch.decode([4096] * 64, page_size=64)
    assert workload_key(GQA, plain) == "b990eb1d"
    assert workload_key(GQA, replace(plain, shared_prefix=1024)) != workload_key(GQA, plain)
