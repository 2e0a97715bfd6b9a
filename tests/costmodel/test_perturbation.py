"""The bound that doubled splits show, from hand-made rows."""

from dataclasses import replace

import pytest
from costmodel_devices import device

from costmodel import Attention, Batch, predict
from costmodel.accuracy import Row
from costmodel.machine import machine_of
from costmodel.perturbation import Agreement, bound_agreement

GQA = Attention(32, 8, 128)
BATCH = Batch.decode([4096] * 8, page_size=64)
MACHINE = machine_of(device())
BYTES, FLOPS = 400e6, 4e9


def row(splits, measured, bound, flops=FLOPS, **knobs):
    prediction = predict(GQA, BATCH, backend="fa3", profile=device(), knobs={"num_splits": splits})
    prediction = replace(prediction, bound=bound, num_splits=splits, dram_bytes=BYTES, flops=flops)
    return Row(GQA, BATCH, "fa3", {"num_splits": splits, **knobs}, measured, prediction, measured / 2, 0.0, False)


def at_rate(share):
    return BYTES / MACHINE.memory_bytes_per_s / share


@pytest.mark.parametrize(("named", "agreeing"), [("latency", 1), ("memory", 0)])
def test_what_splits_make_faster_is_bound_by_latency(named, agreeing):
    rows = [row(1, 300e-6, named), row(2, 200e-6, "memory")]
    assert bound_agreement(rows, MACHINE) == Agreement(1, agreeing)


@pytest.mark.parametrize(("named", "agreeing"), [("latency", 0), ("memory", 1)])
def test_what_splits_leave_at_a_high_rate_is_bound_by_memory(named, agreeing):
    rows = [row(1, at_rate(0.8), named), row(2, at_rate(0.8), named)]
    assert bound_agreement(rows, MACHINE) == Agreement(1, agreeing)


@pytest.mark.parametrize(("named", "agreeing"), [("compute", 1), ("softmax", 1), ("memory", 0)])
def test_what_splits_leave_at_many_flops_is_bound_by_products(named, agreeing):
    slow = at_rate(0.2)
    flops = slow * MACHINE.matrix_rate("bf16") * 0.6
    rows = [row(1, slow, named, flops), row(2, slow, named, flops)]
    assert bound_agreement(rows, MACHINE) == Agreement(1, agreeing)


def test_small_changes_low_rates_and_other_knobs_decide_nothing():
    between = [row(1, 100e-6, "latency"), row(2, 90e-6, "latency")]
    idle = [row(1, at_rate(0.2), "latency"), row(2, at_rate(0.2), "latency")]
    less_than_twice = [row(2, 300e-6, "latency"), row(3, 100e-6, "latency")]
    others = [row(1, 300e-6, "latency"), row(2, 100e-6, "latency", pack_gqa=False)]
    for rows in (between, idle, less_than_twice, others, []):
        assert bound_agreement(rows, MACHINE) is None


def test_default_splits_are_told_by_the_count_they_became():
    rows = [replace(row(1, 300e-6, "latency"), knobs={}), row(2, 200e-6, "latency")]
    assert bound_agreement(rows, MACHINE) == Agreement(1, 1)
