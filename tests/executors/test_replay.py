"""Recorded and simulated answers are the same for the same seed, and are marked as what they are."""

import statistics

import pytest

from costmodel import Attention, Batch, Record
from executors.environment import Environment
from executors.outcome import Accuracy, Candidate, Failed, Measured, Outcome, Rejected
from executors.recorder import Workload, to_record
from executors.replay import ReplayMeasurer
from executors.simulated import SimulatedMeasurer
from hwprofiles import load_profile

H200 = load_profile("h200")
GQA = Attention(32, 8, 128)
DECODE = Batch.decode([4096] * 8, page_size=64)
FAST, SLOW = Candidate("fa3", {"num_splits": 0}), Candidate("fa3", {"num_splits": 4})


def recorded(candidate: Candidate, outcome: Outcome, device: str = "NVIDIA H200") -> Record:
    environment = Environment("cuda:0", device, "9.0", 132, 1 << 37)
    return to_record(Workload(GQA, DECODE, environment), candidate, outcome, ("flash_attn_interface", "3.0.0"))


def measured(*us: float) -> Measured:
    return Measured(tuple(x * 1e-6 for x in us), Accuracy(0.001, 0.01, True))


@pytest.fixture
def replay() -> ReplayMeasurer:
    return ReplayMeasurer(
        [
            recorded(SLOW, measured(50.0, 51.0, 52.0)),
            recorded(FAST, measured(99.0)),
            recorded(FAST, measured(40.0, 41.0, 45.0)),
            recorded(Candidate("flashmla", {}), Rejected(("MLA only",))),
            recorded(Candidate("triton", {}), Failed("incorrect", "off", Accuracy(1.0, 0.01))),
        ],
        spread=0.0,
    )


def test_a_replay_answers_with_the_last_record(replay: ReplayMeasurer) -> None:
    answer = replay.measure(GQA, DECODE, [FAST], seed=0, repeats=5)[FAST.key]
    assert isinstance(answer, Measured)
    assert len(answer.seconds) == 5
    assert statistics.median(answer.seconds) == pytest.approx(41e-6)
    assert answer.accuracy == Accuracy(0.001, 0.01, True)
    assert replay.environment().source == "replay"
    assert replay.implementation("fa3") == ("flash_attn_interface", "3.0.0")


def test_replayed_samples_have_the_recorded_spread(replay: ReplayMeasurer) -> None:
    answer = replay.measure(GQA, DECODE, [FAST], seed=0, repeats=101)[FAST.key]
    assert isinstance(answer, Measured)
    ordered = sorted(answer.seconds)
    assert ordered[10] == pytest.approx(40.2e-6, rel=2e-3)
    assert ordered[90] == pytest.approx(44.2e-6, rel=2e-3)
    again = replay.measure(GQA, DECODE, [FAST], seed=0, repeats=101)[FAST.key]
    assert isinstance(again, Measured)
    assert sorted(again.seconds) == ordered
    assert again.seconds != answer.seconds


def test_two_runs_differ_as_two_runs_of_the_device_did() -> None:
    replay = ReplayMeasurer([recorded(FAST, measured(41.0))])
    middles = []
    for _ in range(2000):
        answer = replay.measure(GQA, DECODE, [FAST], seed=0, repeats=3)[FAST.key]
        assert isinstance(answer, Measured)
        middles.append(statistics.median(answer.seconds))
    apart = sorted(abs(a / b - 1) for a, b in zip(middles[::2], middles[1::2], strict=True))
    assert apart[500] == pytest.approx(0.0057, rel=0.15)
    assert apart[900] == pytest.approx(0.0163, rel=0.15)


def test_a_replay_lists_each_default_first_and_keeps_rejections_apart(replay: ReplayMeasurer) -> None:
    keys = [c.key for c in replay.candidates(GQA, DECODE, H200)]
    assert keys == [FAST.key, SLOW.key, "triton[]"]
    assert replay.rejections(GQA, DECODE, H200) == {"flashmla": Rejected(("MLA only",))}


def test_failures_are_replayed_and_unknown_candidates_rejected(replay: ReplayMeasurer) -> None:
    other = Candidate("fa3", {"num_splits": 9})
    answers = replay.measure(GQA, DECODE, [Candidate("triton", {}), other], seed=0, repeats=3)
    assert answers["triton[]"] == Failed("incorrect", "off", Accuracy(1.0, 0.01))
    assert isinstance(answers[other.key], Rejected)


def test_records_of_two_devices_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="several devices"):
        ReplayMeasurer([recorded(FAST, measured(1.0)), recorded(FAST, measured(1.0), "NVIDIA A100")])
    with pytest.raises(ValueError, match="no records"):
        ReplayMeasurer([])


def test_simulated_times_depend_on_workload_candidate_and_seed_only() -> None:
    first, second = SimulatedMeasurer(H200), SimulatedMeasurer(H200)
    once = first.measure(GQA, DECODE, [FAST, SLOW], seed=3, repeats=3)
    assert once == second.measure(GQA, DECODE, [SLOW, FAST], seed=3, repeats=3)
    assert once != first.measure(GQA, DECODE, [FAST, SLOW], seed=4, repeats=3)
    assert first.truth(GQA, DECODE, FAST) == second.truth(GQA, DECODE, FAST)


def test_the_simulated_device_is_marked_and_offers_what_the_model_knows() -> None:
    simulated = SimulatedMeasurer(H200)
    assert simulated.environment().name.endswith("(simulated)")
    candidates = simulated.candidates(GQA, DECODE, H200)
    assert {"fa3", "flashinfer", "triton"} <= {c.backend for c in candidates}
    assert "flashmla" in simulated.rejections(GQA, DECODE, H200)
    assert all(simulated.truth(GQA, DECODE, c) for c in candidates[:50])


def test_simulated_faults_are_what_was_asked_for() -> None:
    fault = Failed("crashed", "on purpose")
    simulated = SimulatedMeasurer(H200, faults={SLOW.key: fault})
    assert simulated.measure(GQA, DECODE, [SLOW], seed=0, repeats=1) == {SLOW.key: fault}
