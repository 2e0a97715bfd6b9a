"""What went wrong for users of other tuners, case by case, as public reports describe it.

Each test names the report. Cases that are the subject of a whole test file are there: killed runs (test_faults),
lookup and foreign devices (test_lookup), noise, drift and two states (test_noise), what tunes with little memory
(test_faults), workers (test_fleet).
"""

import json
import threading
from pathlib import Path

import pytest
from tuner_fakes import ENVIRONMENT, GQA, FakeMeasurer, answer, configuration, row, tools, workload

from costmodel import Attention, Batch
from executors.outcome import Candidate, Outcome
from tuner.budget import Budget
from tuner.configuration import Configuration, read, write
from tuner.policy import Policy
from tuner.target import Target
from tuner.validation import judge


def empty() -> Configuration:
    return configuration([])


def test_saving_never_touches_the_entries_of_another_device(tmp_path: Path) -> None:
    """NVIDIA/TensorRT-LLM pull request 17664: a cache tuned on another GPU loads clean."""
    theirs = configuration([row()])
    other = theirs.model_copy(update={"device": theirs.device.model_copy(update={"sms": 114})})
    path = write(other, tmp_path)
    before = path.read_text()
    mine = Target(empty(), tmp_path)
    mine.add(row("q2k"))
    assert path.read_text() == before
    assert mine.path != path
    assert set(read(mine.path).extend) == {"1:2048:2048"}


def test_concurrent_writers_end_in_the_union(tmp_path: Path) -> None:
    """sgl-project/sglang pull request 24156: ranks overwrite each other's file."""
    specs = [f"{n}q1s4k" for n in range(1, 9)]
    targets = [Target(empty(), tmp_path) for _ in specs]
    threads = [threading.Thread(target=t.add, args=(row(s),)) for t, s in zip(targets, specs, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(read(targets[0].path).decode) == {f"{n}:4096" for n in range(1, 9)}


def test_all_ranks_read_the_same_answer_from_the_same_file(tmp_path: Path) -> None:
    """vllm-project/vllm issue 57423: one rank hits, the others tune, and the collective hangs."""
    path = write(configuration([row("8q1s4k"), row("64q1s16k", best=("triton", 32))]), tmp_path)
    ranks = [Policy.load(path) for _ in range(4)]
    for batch in (Batch.decode([4096] * 8), Batch.decode([16384] * 64), Batch.decode([100] * 3)):
        assert len({(p.backend, tuple(p.knobs.items())) for p in (rank.choice(GQA, batch) for rank in ranks)}) == 1


def test_a_table_is_not_stretched_beyond_what_was_tuned() -> None:
    """vllm-project/vllm pull requests 52192 and 40542: the nearest key made other sizes slower."""
    policy = Policy([configuration([row("q1s4k", best=("triton", 32)), row("8q1s4k", best=("triton", 32))])])
    found = policy.choice(GQA, Batch.decode([4096] * 64))
    assert (found.backend, found.source) == ("fa3", "default")


def test_one_point_is_no_bracket() -> None:
    """ai-dynamo/aiconfigurator pull request 1233: extrapolation from single points."""
    from tuner.between import between_rows

    assert between_rows(GQA, 1, "decode", [row("8q1s4k")], lambda a, b, c: 1.0) is None


def test_the_budget_is_kept_for_short_kernels() -> None:
    """facebookexperimental/triton pull request 3546: the budget is overshot fourfold."""
    now = [0.0]

    def slow(candidates: object) -> None:
        now[0] += 10.0 * len(candidates)  # type: ignore[arg-type]

    budget = Budget(seconds=60.0, clock=lambda: now[0])
    answer(workload(), tools(FakeMeasurer(on_measure=slow), effort="full"), budget.share(1))
    assert budget.elapsed <= 60.0 + 10.0 * 6


def test_an_unrelated_patch_release_still_hits() -> None:
    """vllm-project/vllm pull request 54794: tuning ran again after every update of the sources."""
    from tuner.versions import same_implementation

    assert same_implementation(("flashinfer", "0.6.13"), ("flashinfer", "0.6.14"))
    assert same_implementation(("torch", "2.13.0+cpu"), ("torch", "2.13.1+cu130"))
    assert not same_implementation(("flashinfer", "0.6.13"), ("flashinfer", "0.7.0"))
    assert not same_implementation(("flash_attn_interface", "3.0.0"), ("fa3_fwd_interface", "3.0.0"))


def test_an_upgrade_that_made_the_winner_slower_is_said() -> None:
    """sgl-project/sglang issue 18364: a library upgrade regressed and nothing said so."""
    saved = row()
    device = FakeMeasurer(version="3.1.0")
    rivals = [saved.best, saved.sglang_default]

    def now(c: Candidate, seconds: float) -> Outcome:
        from executors.outcome import Accuracy, Measured

        return Measured(tuple(seconds * f for f in (1, 1.001, 0.999, 1, 1)), Accuracy(0, 1))

    outcomes = {r.candidate.key: now(r.candidate, s) for r, s in zip(rivals, (130e-6, 100e-6), strict=True) if r}
    checked = judge(saved, [r for r in rivals if r], outcomes, device.implementation(saved.best.backend))
    assert checked.finding == "lost"
    assert "23.1 % faster" in checked.text
    assert "tuned with flash_attn_interface 3.0.0, here is flash_attn_interface 3.1.0" in checked.text


@pytest.mark.parametrize("cut", [10, 200, 1000])
def test_a_truncated_entry_is_a_miss_and_not_an_error(
    cut: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """flashinfer-ai/flashinfer issue 3920: an invalid entry is a miss."""
    from tuner import lookup

    monkeypatch.setattr(lookup, "PACKAGED", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(lookup.FOLDER_VARIABLE, raising=False)
    path = write(configuration([row()]), tmp_path)
    path.write_text(path.read_text()[:cut])
    assert lookup.find_configuration(GQA, ENVIRONMENT.recorded()).source == "model"


def test_every_field_that_changes_the_candidates_changes_the_file(tmp_path: Path) -> None:
    """flashinfer-ai/flashinfer pull request 3367: a key without kernel parameters replays an invalid tactic."""
    shapes = [GQA, Attention(32, 8, 128, sinks=True), Attention(32, 8, 128, kv_dtype="fp8_e4m3")]
    paths = {write(configuration([row()], shape), tmp_path) for shape in shapes}
    paths |= {write(configuration([row()], GQA, page_size=64), tmp_path)}
    assert len(paths) == 4
    assert all(json.loads(p.read_text())["attention"] for p in paths)


@pytest.mark.parametrize(
    ("device", "attention", "batch", "seconds", "word"),
    [
        ("a100", Attention(32, 8, 128), Batch.decode([4096] * 64), 338e-6, "bandwidth"),
        ("l40s", Attention(32, 8, 128), Batch.decode([4096] * 64), 836e-6, "bandwidth"),
        ("h200", Attention(32, 8, 128), Batch.extend([16384], [16384]), 850e-6, "TFLOP/s"),
    ],
)
def test_times_beyond_the_hardware_are_refused(
    device: str, attention: Attention, batch: Batch, seconds: float, word: str
) -> None:
    """ai-dynamo/aiconfigurator at 095f58a5: published rows at 155 % of the bandwidth and 260 % of the peak."""
    from hwprofiles import load_profile
    from tuner.plausible import impossible

    profile = load_profile(device)
    assert word in str(impossible(attention, batch, seconds, profile))
    assert impossible(attention, batch, 4 * seconds, profile) is None


def test_an_impossible_time_never_wins() -> None:
    """A kernel that was left out of a library returns at once, without an error."""
    from executors.outcome import Accuracy, Measured

    def at_once(c: Candidate) -> Outcome | None:
        return Measured((1e-6,) * 7, Accuracy(0, 1)) if c.knobs == {"num_splits": 8} else None

    row_now = answer(workload("64q1s4k"), tools(FakeMeasurer(answer=at_once, scale=10.0)))
    assert row_now.best.knobs != {"num_splits": 8}
    assert "impossible" in row_now.failures["fa3[num_splits=8]"]


def test_the_shipped_records_are_all_possible() -> None:
    from executors.recordings import read_records
    from hwprofiles import load_profile
    from tuner.plausible import impossible

    profile = load_profile("h200")
    records = read_records(profile=profile).records
    calls = [(r.to_attention(), r.to_batch(), r.latency_us / 1e6) for r in records if r.latency_us]
    refused = [reason for call in calls if (reason := impossible(*call, profile)) is not None]
    assert len(refused) <= 0.001 * len(calls), refused[:3]
