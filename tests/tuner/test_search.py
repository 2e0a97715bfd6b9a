"""The search: right answers, few runs, nothing measured twice, nothing lost."""

from pathlib import Path

import pytest
from tuner_fakes import (
    TIMES,
    FakeMeasurer,
    all_candidates,
    answer,
    candidate,
    predictor,
    sqlite,
    tools,
    unknown,
    whole,
    workload,
)  # fmt: skip

from executors.outcome import Accuracy, Candidate, Failed, Measured
from tuner.cost import TrialCost
from tuner.store import open_store
from tuner.strategy import MAX_FAILURES


def test_finds_the_fastest_and_states_the_gain() -> None:
    row = answer(workload(), tools(FakeMeasurer()), whole().share(1))
    assert (row.best.backend, row.best.knobs) == ("fa3", {"num_splits": 8})
    assert row.status == "measured"
    assert row.gain == pytest.approx(100 / 80, rel=0.01)
    assert row.sglang_default is not None
    assert row.sglang_default.knobs == {"num_splits": 0}


def test_best_of_sglang_excludes_what_only_the_library_can_do() -> None:
    row = answer(workload(), tools(FakeMeasurer(), effort="full"), whole().share(1))
    assert row.best_sglang is not None
    assert (row.best_sglang.backend, row.best_sglang.knobs) == ("fa3", {"num_splits": 0})


def test_gain_within_noise_keeps_the_default() -> None:
    device = FakeMeasurer(noise=0.4)
    row = answer(workload(), tools(device), whole().share(1))
    assert row.best.knobs == {"num_splits": 0}
    assert row.gain == 1.0


def test_default_is_measured_even_when_the_model_thinks_little_of_it() -> None:
    device = FakeMeasurer()
    slow_default = predictor(lambda c: 50.0 if c.key == candidate("fa3", 0).key else 1.0)
    answer(workload(), tools(device, predict=slow_default), whole(trials=2).share(1))
    assert candidate("fa3", 0).key in device.calls[0]


def test_candidates_whose_interval_cannot_win_are_skipped_and_counted() -> None:
    device = FakeMeasurer()
    sure = predictor(lambda c: 10.0 if c.backend == "triton" else 1.0, spread=1.05)
    row = answer(workload(), tools(device, predict=sure), whole().share(1))
    assert not [key for key in device.measured_keys() if key.startswith("triton")]
    assert row.counts.skipped >= 3
    assert row.counts.candidates == row.counts.measured + row.counts.skipped + row.counts.left


def test_full_effort_measures_a_backend_that_cannot_win_once() -> None:
    device = FakeMeasurer()
    sure = predictor(lambda c: 10.0 if c.backend == "triton" else 1.0, spread=1.05)
    answer(workload(), tools(device, predict=sure, effort="full"), whole().share(1))
    assert len([key for key in device.measured_keys() if key.startswith("triton")]) == 1


def test_a_wrong_model_is_corrected_by_what_is_measured() -> None:
    misled = predictor(lambda c: 0.5 if c.backend == "triton" else 1.0, spread=2.5)
    row = answer(workload(), tools(FakeMeasurer(), predict=misled, effort="full"), whole().share(1))
    assert row.best.backend == "fa3"


def test_without_a_model_optuna_searches_alone() -> None:
    row = answer(workload(), tools(FakeMeasurer(), predict=unknown), whole(trials=12).share(1))
    assert row.counts.measured >= 4


@pytest.mark.parametrize("kind", ["incorrect", "oom", "timeout", "crashed"])
def test_a_failing_candidate_is_kept_as_failed_and_never_wins(kind: str) -> None:
    def fail(c: Candidate) -> Failed | None:
        return Failed(kind, "injected") if c.key == candidate("fa3", 8).key else None  # type: ignore[arg-type]

    row = answer(workload(), tools(FakeMeasurer(answer=fail)), whole().share(1))
    assert row.best.knobs != {"num_splits": 8}
    assert row.failures[candidate("fa3", 8).key] == f"{kind}: injected"
    assert row.counts.failed == 1
    assert row.status == ("measured" if kind == "incorrect" else "partial")


def test_a_backend_that_failed_twice_is_not_tried_with_further_knobs() -> None:
    device = FakeMeasurer(answer=lambda c: Failed("crashed", "out of resource") if c.backend == "triton" else None)
    promising = predictor(lambda c: 0.5 if c.backend == "triton" else 1.0, spread=1.5)
    row = answer(workload(), tools(device, predict=promising), whole().share(1))
    tried = [key for key in device.measured_keys() if key.startswith("triton")]
    assert len(tried) == MAX_FAILURES < len(TIMES["triton"])
    assert row.counts.skipped == len(TIMES["triton"]) - MAX_FAILURES
    assert row.best.backend == "fa3"


def test_when_all_run_out_of_memory_the_default_is_not_presented_as_tuned() -> None:
    row = answer(workload(), tools(FakeMeasurer(answer=lambda c: Failed("oom", "x"))), whole().share(1))
    assert row.status == "untuned"
    assert row.best.measured_us is None
    assert row.best.knobs == {"num_splits": 0}
    assert row.counts.measured == 0


def test_trials_are_a_limit() -> None:
    device = FakeMeasurer()
    budget = whole(trials=3)
    answer(workload(), tools(device, effort="full"), budget.share(1))
    assert len(device.measured_keys()) == 3 == budget.used_trials


def test_resume_measures_only_what_is_missing(tmp_path: Path) -> None:
    first, second = FakeMeasurer(), FakeMeasurer()
    answer(workload(), tools(first, open_store(sqlite(tmp_path)), effort="full"), whole(trials=3).share(1))
    row = answer(workload(), tools(second, open_store(sqlite(tmp_path)), effort="full"), whole().share(1))
    assert not set(first.measured_keys()) & set(second.measured_keys()[: len(all_candidates()) - 3])
    assert row.best.knobs == {"num_splits": 8}


def test_same_seed_same_search() -> None:
    runs = []
    for _ in range(2):
        device = FakeMeasurer()
        answer(workload(), tools(device, seed=3, effort="full"), whole().share(1))
        runs.append(device.calls)
    assert runs[0] == runs[1]


def test_library_upgrade_measures_again_and_keeps_the_old_trials(tmp_path: Path) -> None:
    old, patch, new = FakeMeasurer(version="3.0.0"), FakeMeasurer(version="3.0.1"), FakeMeasurer(version="3.1.0")
    answer(workload(), tools(old, open_store(sqlite(tmp_path))), whole().share(1))
    answer(workload(), tools(patch, open_store(sqlite(tmp_path))), whole().share(1))
    assert patch.calls == []
    answer(workload(), tools(new, open_store(sqlite(tmp_path))), whole().share(1))
    assert candidate("fa3", 0).key in new.measured_keys()
    assert not [key for key in new.measured_keys() if key.startswith("triton") and key in old.measured_keys()]
    study = open_store(sqlite(tmp_path))
    versions = [
        t.user_attrs.get("result", {}).get("implementation")
        for n in study.names()
        for t in study.study(n, None).get_trials()
    ]  # type: ignore[arg-type]
    assert ["flash_attn_interface", "3.0.0"] in versions
    assert ["flash_attn_interface", "3.1.0"] in versions


def test_two_states_of_the_device_are_called_unstable() -> None:
    def flip(c: Candidate) -> Measured:
        fast, slow = 63e-6, 94e-6
        return Measured((fast, slow, fast, slow, fast, slow, fast), Accuracy(0.0, 1.0))

    row = answer(workload(), tools(FakeMeasurer(answer=flip)), whole().share(1))
    assert row.status == "unstable"
    assert any("two states" in note for note in row.notes)


def test_the_best_that_sglang_reaches_is_looked_for_too() -> None:
    """Knobs of the library win by far; among what flags reach, a slower backend is still found to be the best."""
    from tuner_fakes import TIMES

    times = {"fa3": {**TIMES["fa3"], 0: 140e-6}, "triton": TIMES["triton"]}
    sure = predictor(spread=1.03)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tuner_fakes.TIMES", times)
        row = answer(workload(), tools(FakeMeasurer(), predict=sure))
    assert (row.best.backend, row.best.knobs) == ("fa3", {"num_splits": 8})
    assert row.best_sglang is not None
    assert (row.best_sglang.backend, row.best_sglang.knobs) == ("triton", {"max_kv_splits": 32})


def test_the_projects_own_kernels_are_not_counted_as_a_gain_over_the_libraries() -> None:
    from tuner.assemble import Findings, assemble
    from tuner.space import Space

    own = Candidate("attnroof_triton", {"num_splits": 0})
    default, rival = candidate("fa3", 0), candidate("fa3", 8)
    steady = (1.0, 1.001, 0.999, 1.0, 1.0)
    times = {c.key: tuple(f * s for s in steady) for c, f in ((default, 1.0), (rival, 0.8), (own, 0.5))}
    space = Space((default, rival, own), default, frozenset({default.key}))
    row = assemble(workload(), Findings(space, {}, {}, times, 0, True, lambda c: ("x", "1")))
    assert row.best.backend == "attnroof_triton"
    assert row.own_gain == pytest.approx(2.0)
    assert row.gain == pytest.approx(1.25)
    assert row.best_sglang is not None
    assert row.best_sglang.backend == "fa3"


def test_candidates_that_the_budget_has_no_time_for_are_not_begun_and_are_named() -> None:
    device = FakeMeasurer()
    slow = tools(device, effort="full")
    slow.cost.seen(candidate("triton", 8), Measured((1e-4,), Accuracy(0, 1), compile_seconds=40.0))
    row = answer(workload(), slow, whole(seconds=30.0).share(1))
    assert device.measured_keys()
    assert not [key for key in device.measured_keys() if key.startswith("triton")]
    assert row.status == "partial"
    assert any("the budget ended before triton[" in note for note in row.notes)


def test_the_first_candidate_is_run_whatever_it_is_thought_to_cost() -> None:
    device = FakeMeasurer()
    slow = tools(device)
    slow.cost.seen(candidate("fa3", 8), Measured((1e-4,), Accuracy(0, 1), compile_seconds=1e6))
    row = answer(workload(), slow, whole(seconds=1e3).share(1))
    assert [key for key in device.measured_keys() if key.startswith("fa3")] == [candidate("fa3", 0).key]
    assert row.best.measured_us is not None


def test_kernels_compiled_beforehand_are_not_charged_for() -> None:
    cost = TrialCost("cuda", 7)
    candidate = Candidate("triton", {})
    before = cost.expect(candidate, 1e-4)
    cost.compiled()
    assert cost.expect(candidate, 1e-4) == pytest.approx(before - 1.0)
