"""Errors, coverage and regret from hand-made rows."""

from dataclasses import replace
from math import log

import pytest
from costmodel_devices import device, machine

from costmodel import Attention, Batch, Record, predict, rank
from costmodel.accuracy import Row, grouped, rows_of, summarize
from costmodel.fit.points import make_point, points_of
from costmodel.fit.split_doubt import NOISE, split_doubt
from costmodel.record import RecordedBatch, RecordedDevice
from costmodel.regret import choice_regret, split_regret, worth_asking

GQA = Attention(32, 8, 128)
BATCH = Batch.decode([4096] * 8, page_size=64)


def row(measured, predicted, backend="fa3", knobs=None, batch=BATCH):
    prediction = predict(GQA, batch, backend=backend, profile=device(), knobs=knobs)
    prediction = replace(prediction, seconds=predicted, low=predicted * 0.9, high=predicted * 1.1)
    return Row(GQA, batch, backend, knobs or {}, measured, prediction, measured / 2, 0.0, False)


def record(**changes):
    fields = {
        "attention": {"num_qo_heads": 32, "num_kv_heads": 8, "head_dim": 128},
        "batch": RecordedBatch(phase="decode", q_lens=[1, "*", 8], kv_lens=[4096, "*", 8], page_size=64),
        "backend": "fa3",
        "implementation": "flash_attn_interface",
        "implementation_version": "3.0.0",
        "outcome": "measured",
        "latency_us": 50.0,
        "p10_us": 49.0,
        "p90_us": 51.0,
        "device": RecordedDevice(name="NVIDIA H200"),
        "time": "2026-11-30T14:05:09Z",
    }
    return Record(**{**fields, **changes})


def test_summary_by_hand():
    rows = [row(100e-6, 108e-6), row(100e-6, 80e-6), row(20e-6, 20e-6), row(50e-6, 75e-6)]
    s = summarize(rows)
    assert s.rows == 4
    assert s.mean == pytest.approx((0.08 + 0.2 + 0 + 0.5) / 4)
    assert s.median == pytest.approx(0.14)
    assert s.within == 0.5
    assert s.weighted == pytest.approx((8 + 20 + 0 + 25) / 270)
    assert s.mean_short == 0
    assert s.mean_long == pytest.approx(0.78 / 3)
    assert s.coverage == 0.5  # 108 x 0.9 < 100 and 20 are inside, 88 < 100 and 75 x 0.9 > 50 are not
    assert s.roofline == pytest.approx(0.5)
    assert s.two_constants == pytest.approx(0, abs=1e-9)  # the limit is half of every time: efficiency 1/2 explains it


def test_no_rows_is_an_error():
    with pytest.raises(ValueError, match="no rows"):
        summarize([])


def test_rows_come_from_cold_measurements_of_known_backends():
    records = [
        record(),
        record(outcome="oom", latency_us=None),
        record(l2="warm"),
        record(backend="private_kernel"),
        record(knobs={"num_splits": 4, "private_knob": 3}),
    ]
    rows = rows_of(records, device())
    assert [r.knobs for r in rows] == [{}, {"num_splits": 4}]
    assert rows[0].measured == pytest.approx(50e-6)
    assert rows[0].noise == pytest.approx(0.04)
    assert rows[0].prediction.seconds == predict(GQA, BATCH, backend="fa3", profile=device()).seconds


def test_rows_under_the_power_cap_are_told_apart():
    """Capped and slow is lasting load; capped in name only, slow for another reason or of unknown clock is not."""
    slow = record(throttle=("power cap",), sm_clock_mhz=1500.0)
    others = [
        record(throttle=("power cap",), sm_clock_mhz=1900.0),
        record(throttle=("power cap",)),
        record(sm_clock_mhz=1500.0),
    ]
    assert len(rows_of([slow, *others], device())) == len(points_of([slow, *others], machine())) == 3
    assert len(rows_of([slow, *others], device(), sustained=True)) == 1


def test_groups_are_sorted():
    rows = [row(1e-5, 1e-5, backend="triton"), row(1e-5, 1e-5)]
    assert list(grouped(rows, lambda r: (r.backend, r.phase))) == [("fa3", "decode"), ("triton", "decode")]


def test_choice_regret_by_hand():
    other = Batch.decode([100], page_size=64)
    rows = [
        row(100e-6, 90e-6),
        row(80e-6, 95e-6, backend="triton"),
        row(10e-6, 9e-6, batch=other),
        row(20e-6, 11e-6, backend="triton", batch=other),
    ]
    regret = choice_regret(rows)
    assert regret.workloads == 2
    assert regret.mean == pytest.approx((1.25 * 1.0) ** 0.5)
    assert regret.worst == pytest.approx(1.25)
    assert regret.top1 == 0.5


def test_choice_needs_more_than_one_backend():
    assert choice_regret([row(1e-4, 1e-4), row(2e-4, 1e-4, knobs={"num_splits": 2})]) is None


def test_split_regret_by_hand():
    rows = [
        row(60e-6, 50e-6, knobs={"num_splits": 0}),
        row(50e-6, 40e-6, knobs={"num_splits": 4}),
        row(40e-6, 45e-6, knobs={"num_splits": 8}),
    ]
    regret = split_regret(rows)
    assert regret.mean == pytest.approx(50 / 40)
    assert regret.default == pytest.approx(60 / 40)
    assert regret.worst_against_default == pytest.approx(50 / 60)


def test_a_split_count_within_doubt_is_not_asked_for():
    own = row(50e-6, 50e-6, knobs={"num_splits": 0})
    rows = [own, row(53e-6, 48.5e-6, knobs={"num_splits": 4}), row(60e-6, 55e-6, knobs={"num_splits": 8})]
    sure, unsure = ([replace(r, split_doubt=doubt) for r in rows] for doubt in (0.02, 0.04))
    assert split_regret(sure).slower == 1
    assert split_regret(unsure).slower == 0
    assert split_regret(unsure).mean == 1.0
    assert [r.knobs["num_splits"] for r in worth_asking(unsure)] == [0]


def test_rank_offers_a_split_count_only_beyond_doubt():
    saturated = Batch.decode([8192] * 256, page_size=64)
    few = Batch.decode([65536], page_size=64)
    attention = Attention(8, 1, 128)
    kept = [r.knobs for r in rank(GQA, saturated, profile=device()) if r.backend == "fa3"]
    asked = [r.knobs for r in rank(attention, few, profile=device()) if r.backend == "triton"]
    assert kept == [{}]
    assert any("max_kv_splits" in knobs for knobs in asked)


def test_split_doubt_is_what_the_model_errs_between_counts():
    def pairs(seed):
        batch = Batch.decode([4000 + seed] * 4, page_size=64)
        points = [make_point(GQA, batch, machine(), "fa3", {"num_splits": n}, 1e-4) for n in (0, 2, 8)]
        points[1].seconds = 1.0e-4 * (1 + seed / 1000)
        return list(zip(points, (1e-4, 0.95e-4, 1.2e-4), strict=True))

    every = [pair for seed in range(30) for pair in pairs(seed)]
    expected = log(1 + 27 / 1000) - log(0.95)  # rank ceil(31 x 0.9) of 30
    assert split_doubt(every) == pytest.approx(expected + NOISE)
    assert split_doubt(every[:30]) is None
