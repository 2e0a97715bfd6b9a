"""The verdict: ties go to the default, then to the first candidate."""

from tuner_fakes import all_candidates, candidate

from tuner.verdict import decide, undecided

A, B, C = candidate("fa3", 0), candidate("fa3", 4), candidate("fa3", 8)
STEADY = (1.0, 1.001, 0.999, 1.0, 1.0005, 0.9995, 1.0)


def times(**factors: float) -> dict[str, tuple[float, ...]]:
    named = {"a": A, "b": B, "c": C}
    return {
        named[name].key: tuple(f * s for s in STEADY[::step])
        for (name, f), step in zip(factors.items(), (1, -1, 1), strict=False)
    }


def test_a_faster_candidate_wins() -> None:
    verdict = decide(all_candidates(), A, times(a=1.0, b=0.9, c=0.95))
    assert verdict is not None
    assert verdict.best == B
    assert verdict.runner_up == C
    assert verdict.gain is not None
    assert 0.89 < verdict.gain.seconds < 0.91


def test_a_tie_with_the_default_keeps_the_default() -> None:
    verdict = decide(all_candidates(), A, times(a=1.0, b=0.9999))
    assert verdict is not None
    assert verdict.best == A
    assert verdict.gain is None


def test_a_tie_among_winners_goes_to_the_first() -> None:
    verdict = decide(all_candidates(), A, times(a=1.0, b=0.8, c=0.79999))
    assert verdict is not None
    assert verdict.best == B


def test_a_failed_default_leaves_the_fastest() -> None:
    verdict = decide(all_candidates(), A, times(b=0.9, c=0.8))
    assert verdict is not None
    assert verdict.best == C
    assert verdict.gain is None


def test_nothing_measured_is_no_verdict() -> None:
    assert decide(all_candidates(), A, {}) is None


ONE = dict.fromkeys((c.key for c in all_candidates()), "g1")


def test_only_what_is_close_is_measured_again() -> None:
    assert undecided(all_candidates(), A, times(a=1.0, b=0.7), ONE) == []
    assert undecided(all_candidates(), A, times(a=0.7, b=1.0), ONE) == []
    noisy = {A.key: (1.0, 1.1, 0.9, 1.0, 1.05), B.key: (0.97, 0.96, 1.08, 0.97, 0.9)}
    assert undecided(all_candidates(), A, noisy, ONE) == [A, B]


def test_a_winner_of_another_group_is_measured_beside_the_default() -> None:
    assert undecided(all_candidates(), A, times(a=1.0, b=0.7), {A.key: "g1", B.key: "g2"}) == [A, B]
