"""The figures of the search benchmark: expectations, repeats, scores."""

import itertools
import random
import statistics
import sys
from pathlib import Path

import pytest
from tuner_fakes import TIMES, all_candidates, candidate, true_seconds, workload

from hwprofiles import load_profile
from tuner.space import Space

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from replay_cases import Case
from replay_kept import Kept, load, save
from replay_methods import TPE, TPE_ONCE, Log, run


@pytest.fixture
def case() -> Case:
    candidates = all_candidates()
    space = Space(candidates, candidates[0])
    return Case(workload(), space, {c.key: true_seconds(c) for c in candidates}, load_profile("h200"))


def test_the_expectation_of_random_search_is_that_of_all_orders(case: Case) -> None:
    times = list(case.seconds.values())
    for k, expected in enumerate(case.random_search, 1):
        assert expected == pytest.approx(statistics.fmean(min(c) for c in itertools.combinations(times, k)))
    assert 1 <= len(case.random_search) < len(times)


def test_a_choice_is_what_looked_best_and_counts_with_its_true_time(case: Case) -> None:
    log = Log(case, random.Random(0))
    for splits in (0, 8, 16):
        log.measure(candidate("fa3", splits))
    assert log.near == 2
    assert [log.after(k) for k in (1, 2, 3)] == [TIMES["fa3"][n] for n in (0, 8, 8)]


def test_repeats_do_not_count_where_they_are_answered_from_memory(case: Case) -> None:
    log = Log(case, random.Random(0))
    for splits in (0, 0, 4, 0, 8):
        log.measure(candidate("fa3", splits))
    assert (log.near, log.without_repeats().near) == (5, 3)


def test_random_search_scores_nothing_and_repeats_cost_tpe(case: Case) -> None:
    done = run(case, "random", range(400))["random"]
    assert done.score == pytest.approx(0.0, abs=0.1)
    both = run(case, TPE, range(20))
    assert both[TPE_ONCE].evaluations <= both[TPE].evaluations


def test_what_was_kept_is_read_back(case: Case, tmp_path: Path) -> None:
    kept = Kept(case.fingerprint, "random", 3, run(case, "random", range(3))["random"])
    save([kept], tmp_path / "kept.xz")
    found = load(tmp_path / "kept.xz")[kept.case, "random", 3]
    assert found.done.evaluations == pytest.approx(kept.done.evaluations, rel=1e-4)
    assert found.done.losses.keys() == kept.done.losses.keys()
