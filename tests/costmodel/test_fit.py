"""Fitting on records that the model itself made, with noise: it finds the times again and knows how sure it is."""

import json
import random
from dataclasses import replace
from math import exp

import numpy as np
import pytest
from costmodel_devices import device, machine

from costmodel import Attention, Batch, predict
from costmodel.calibration import Resolved
from costmodel.fit.calibrate import calibrate, fit_variant, kernel_factors
from costmodel.fit.choose import choose_points, sensitivities
from costmodel.fit.conformal import COVERAGE, Miss, half_width, intervals
from costmodel.fit.points import make_point
from costmodel.fit.solve import fit_parameters, with_fitted
from costmodel.fit.variants import FITTED, fitted_names
from costmodel.parameters import NUMBERS, Parameters
from costmodel.priors import prior
from costmodel.regime import OTHER_KERNELS

NOISE = 0.02
TRUTH = {
    "floor_seconds": 8e-6,
    "cta_bytes_per_s": 45e9,
    "dram_fraction": 0.82,
    "job_tiles": 2.5,
    "merge_seconds": 3e-6,
    "join": 3.0,
}


def made_points(count, seed=0, kernels=(128,)):
    """Points of fa3 decode whose times come from known parameters, with log-normal noise."""
    rng = random.Random(seed)
    truth = prior("fa3", "decode", machine()).with_values({**TRUTH, "factors": {"d64": 1.4}})
    points = []
    for _ in range(count):
        heads = rng.choice([1, 2, 4, 8, 16])
        attention = Attention(heads * rng.choice([1, 4, 8]), heads, rng.choice(kernels))
        batch = Batch.decode([int(2 ** rng.uniform(6, 16))] * int(2 ** rng.uniform(0, 6)), page_size=64)
        knobs = {"num_splits": rng.choice([0, 1, 4, 16])}
        point = make_point(attention, batch, machine(), "fa3", knobs, 1.0)
        point.seconds = point.timing(truth).seconds * exp(rng.gauss(0, NOISE))
        points.append(point)
    return points


@pytest.fixture(scope="module")
def calibrated():
    points = made_points(400, kernels=(64, 128))
    return calibrate(points, machine()), points


def test_held_out_error_is_the_noise(calibrated):
    data, _ = calibrated
    held = data["fa3"]["variants"]["decode"]["held_out"]
    assert held["rows"] >= 300
    assert held["mean_error"] < 2 * NOISE  # |normal| has mean 0.8 of its deviation; the rest is left for the fit


def test_intervals_cover_new_rows(calibrated):
    entry = calibrated[0]["fa3"]["variants"]["decode"]
    fresh = made_points(300, seed=1, kernels=(64, 128))
    parameters = Parameters(**entry["parameters"], factors=entry["factors"])
    resolved = Resolved(parameters, "calibrated", {k: tuple(v) for k, v in entry["intervals"].items()})
    low, high = resolved.interval("no such regime")
    covered = [low <= p.seconds / p.timing(parameters).seconds <= high for p in fresh]
    assert np.mean(covered) > COVERAGE - 0.06  # three standard errors of a share of 0.9 in 300 rows


def test_a_slow_kernel_gets_its_factor(calibrated):
    entry = calibrated[0]["fa3"]["variants"]["decode"]
    assert set(entry["factors"]) in ({"d64"}, {"d128"})
    ratio = entry["factors"].get("d64") or 1 / entry["factors"]["d128"]
    assert ratio == pytest.approx(1.4, rel=0.25)


def test_the_data_is_json_and_loads(calibrated):
    data, _ = calibrated
    again = json.loads(json.dumps(data))["fa3"]
    assert again["device"] == device().id
    assert set(again["variants"]["decode"]["parameters"]) == set(NUMBERS)
    assert len(again["variants"]["decode"]["workloads"]) <= 64


def test_no_fitted_workload_is_held_out(calibrated):
    data, points = calibrated
    entry = data["fa3"]["variants"]["decode"]
    fitted = set(entry["workloads"])
    assert entry["held_out"]["rows"] == sum(p.workload not in fitted for p in points)


def test_few_rows_keep_the_prior():
    assert calibrate(made_points(10), machine()) == {}


def test_chosen_points_move_with_every_parameter():
    points = made_points(200)
    start = prior("fa3", "decode", machine())
    names = fitted_names("fa3", "decode")
    chosen = choose_points(points, start, names)
    assert len(chosen) == len(set(chosen)) == 64
    slopes = sensitivities([points[i] for i in chosen], start, names)
    everywhere = sensitivities(points, start, names)
    for column, name in enumerate(names):
        assert np.abs(slopes[:, column]).max() >= 0.8 * np.abs(everywhere[:, column]).max(), name


def test_a_fit_is_the_same_each_time():
    points = made_points(80)
    first, second = (fit_variant(points, prior("fa3", "decode", machine())) for _ in range(2))
    assert first == second


def test_unidentified_parameters_stay_at_their_prior():
    points = [p for p in made_points(100) if p.plan.num_splits == 1 and not p.plan.merge_launched]
    start = prior("fa3", "decode", machine())
    fit = fit_parameters(points, start, ["floor_seconds", "merge_seconds"])
    assert fit.parameters.merge_seconds == pytest.approx(start.merge_seconds, rel=1e-3)
    assert fit.uncertainty["merge_seconds"] > 5 * fit.uncertainty["floor_seconds"]


@pytest.mark.parametrize(("backend", "variant"), sorted(FITTED))
def test_fitted_names_are_parameters(backend, variant):
    names = fitted_names(backend, variant)
    assert len(set(names)) == len(names)
    assert set(names) <= set(NUMBERS)


def test_factors_are_named_by_kernel():
    points = made_points(60, kernels=(64, 128, 128))
    assert kernel_factors(points) == ["factor:d64"]
    assert with_fitted(Parameters(), ["factor:d64"], [1.5]).factor("d64") == 1.5


def misses(errors, *groups, workload=None):
    return [Miss(workload or f"w{i}", error, groups) for i, error in enumerate(errors)]


def test_conformal_half_width_is_the_rank_statistic():
    errors = [i / 100 for i in range(1, 100)]
    assert half_width(misses(errors)) == 0.9  # rank ceil(100 x 0.9) of 99
    assert half_width(misses([0.3])) == 0.3


def test_rows_of_one_workload_count_once():
    many = misses([0.5] * 400, workload="often") + misses([0.1] * 99)
    assert half_width(many) == 0.1  # the workload of 400 rows is one of a hundred


def test_a_group_alone_gets_its_quantile():
    errors = [i / 100 for i in range(1, 100)]
    low, high = intervals(misses(errors, "memory"))["memory"]
    assert (low, high) == pytest.approx((exp(-0.9), exp(0.9)))


def test_a_small_regime_is_not_narrower_than_all():
    found = intervals(misses([0.1] * 50, "memory") + misses([0.01] * 3, "short"))
    assert found["short"] == found["all"]


def test_many_rows_of_few_workloads_are_a_small_group():
    """Forty rows of two workloads say no more than two: the group is not narrower than all."""
    common = [replace(m, workload=f"c{i}") for i, m in enumerate(misses([0.1] * 50, "memory"))]
    found = intervals(common + [replace(m, workload=f"w{i % 2}") for i, m in enumerate(misses([0.01] * 40, "short"))])
    assert found["short"] == found["all"]


def test_kernels_of_few_workloads_share_an_interval():
    rows = misses([0.05] * 60, "kernel:d128") + misses([0.3] * 12, "kernel:d64") + misses([0.3] * 12, "kernel:d96")
    found = intervals([replace(m, workload=f"w{i}") for i, m in enumerate(rows)])
    assert "kernel:d64" not in found
    assert found[OTHER_KERNELS][1] > 1.2 > found["kernel:d128"][1]


def test_the_widest_interval_of_a_call_holds():
    ends = {"all": (0.9, 1.1), "short": (0.8, 1.25), OTHER_KERNELS: (0.7, 1.4), "phase:mixed": (0.95, 1.05)}
    resolved = Resolved(Parameters(), "calibrated", ends)
    assert resolved.interval("short", "kernel:never seen", "phase:mixed") == (0.7, 1.4)
    assert resolved.interval("phase:mixed") == (0.95, 1.05)
    assert resolved.interval("memory") == (0.9, 1.1)


def test_groups_together_hold_nine_of_ten():
    random = np.random.default_rng(0)
    names = [(f"r{i % 3}", f"kernel:k{i % 2}") for i in range(1200)]
    rows = [Miss(f"w{i}", float(random.normal(0, 0.05 * (1 + i % 2))), groups) for i, groups in enumerate(names)]
    resolved = Resolved(Parameters(), "calibrated", intervals(rows[:600]))
    held = [resolved.interval(*m.groups)[0] <= exp(m.error) <= resolved.interval(*m.groups)[1] for m in rows[600:]]
    assert abs(np.mean(held) - COVERAGE) < 3 * (0.9 * 0.1 / 600 + 0.9 * 0.1 / 600) ** 0.5


def test_wrong_parameters_are_named():
    with pytest.raises(ValueError, match="join must be above 0"):
        Parameters(join=0)
    with pytest.raises(ValueError, match="floor_seconds=-1"):
        Parameters(floor_seconds=-1)


def test_estimates_without_calibration_say_so():
    p = predict(Attention(32, 8, 128), Batch.decode([4096]), backend="wave", profile=device("mi300x"))
    assert p.evidence in ("structure", "others")
