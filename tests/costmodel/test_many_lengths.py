"""Batches of many different lengths: planned for in groups, counted exactly, and without a jump where groups begin."""

import pytest
from costmodel_devices import device, machine
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel import Attention, Batch, predict
from costmodel.call import JOINED_LENGTHS, JOINED_STEPS, MOST_LENGTHS, Call
from costmodel.work import count_work, visible_pairs, visible_tokens

GQA = Attention(32, 8, 128)
FIXED = {"fa3": {"num_splits": 1}, "triton": {"max_kv_splits": 1, "split_mode": "fixed"}, "fa4": {"num_splits": 1}}


def ragged(count):
    return [200 + (i * 2654435761) % 5000 * 2 + i % 2 for i in range(count)]


def call(batch, attention=GQA):
    return Call(attention, batch, machine(), {})


@pytest.mark.parametrize("count", [40, MOST_LENGTHS, MOST_LENGTHS + 1, 1500])
@pytest.mark.parametrize("make", [Batch.decode, lambda lens: Batch.verify(lens, draft_tokens=4)])
def test_no_more_lengths_are_planned_for(count, make):
    batch = make(ragged(count))
    groups = call(batch).requests
    assert len(groups) <= MOST_LENGTHS
    assert sum(n for _, _, n in groups) == batch.size
    if len(set(batch.kv_lens)) <= MOST_LENGTHS:
        assert groups == call(batch).distinct


@pytest.mark.parametrize("lens", [ragged(40), ragged(1500), [500] * 900 + [7000] * 300, [64, 128]])
def test_arrivals_are_the_same_requests_in_few_pieces(lens):
    made = call(Batch.decode(lens))
    count = {}
    for q, kv, n in made.arrivals:
        count[q, kv] = count.get((q, kv), 0) + n
    assert count == {(q, kv): n for q, kv, n in made.requests}
    assert len(made.arrivals) <= max(MOST_LENGTHS, JOINED_LENGTHS + len(made.requests))


@pytest.mark.parametrize("count", [JOINED_STEPS**2, JOINED_STEPS**2 + 1, 256, 3000])
def test_few_shapes_are_planned_for_where_queries_differ(count):
    batch = Batch.extend([1 + i % 3 * (i % 500) for i in range(count)], [n + 1000 for n in ragged(count)])
    made = call(batch)
    assert len(made.requests) <= 2 * JOINED_STEPS**2
    assert sum(n for _, _, n in made.requests) == batch.size
    assert sum(n for q, _, n in made.requests if q == 1) == batch.q_lens.count(1)
    assert all(q <= kv for q, kv, _ in made.requests)
    if len(made.distinct) <= JOINED_STEPS**2:
        assert made.requests == made.distinct


@pytest.mark.parametrize(
    "attention", [GQA, Attention(16, 16, 64, sliding_window=700), Attention(8, 8, 128, causal=False)]
)
def test_work_is_exact_however_many_lengths(attention):
    batch = Batch.decode(ragged(1500), page_size=64)
    work = call(batch, attention).work
    assert work == count_work(attention, batch)
    assert work.pairs == sum(visible_pairs(attention, 1, kv) for kv in batch.kv_lens)
    assert work.kv_tokens == sum(visible_tokens(attention, 1, kv) for kv in batch.kv_lens)


@pytest.mark.parametrize("backend", sorted(FIXED))
@settings(max_examples=6, deadline=None)
@given(count=st.integers(MOST_LENGTHS + 1, 900))
def test_joined_lengths_lie_between_the_shortest_and_the_longest_of_each_group(backend, count):
    profile = device("b200" if backend == "fa4" else "h200")
    lens = sorted(ragged(count), reverse=True)

    def seconds(some):
        batch = Batch.decode(some, page_size=64)
        return predict(GQA, batch, backend=backend, profile=profile, knobs=FIXED[backend]).seconds

    size = -(-len(set(lens)) // JOINED_LENGTHS)
    distinct = sorted(set(lens), reverse=True)
    group = {kv: distinct[i // size * size : i // size * size + size] for i, kv in enumerate(distinct)}
    joined, one_job = seconds(lens), seconds([max(lens)])  # a list schedule ends within one job of the best
    assert seconds([min(group[kv]) for kv in lens]) <= joined + one_job
    assert joined <= seconds([max(group[kv]) for kv in lens]) + one_job
