"""Recorded candidates are drawn again and compared; recordings are counted and packed."""

from pathlib import Path

import pytest

from costmodel import Attention, Batch, Record
from executors.environment import Environment
from executors.outcome import Accuracy, Candidate, Failed, Measured, Outcome
from executors.recorder import Workload, append_records, to_record
from executors.recordings import read_records
from executors.sweeps import quality
from executors.sweeps.__main__ import main
from executors.sweeps.again import EACH, agreement, recorded_tasks
from executors.sweeps.count import table
from executors.sweeps.pack import latest, pack

H200 = Environment("cuda:0", "NVIDIA H200", "9.0", 132, None, "580.159", "2.11.0", "13.0")
GQA = Attention(32, 8, 128)


def record(
    kv: int, splits: int, us: float | None = 100.0, *, attention: Attention = GQA, version: str = "3.0"
) -> Record:
    workload = Workload(attention, Batch.decode([kv], page_size=64), H200)
    outcome: Outcome = Failed("crashed", "gone") if us is None else Measured((us * 1e-6,), Accuracy(0.0, 1.0))
    return to_record(workload, Candidate("fa3", {"num_splits": splits}), outcome, ("fa3", version))


def test_drawing_takes_few_candidates_of_many_workloads_and_none_that_failed() -> None:
    records = [record(kv, splits) for kv in (1000, 2000, 3000) for splits in range(20)]
    records += [record(4000, 1, None)]
    tasks = recorded_tasks(records, rows=18, seed=1)
    assert [len(found) for _, found in tasks] == [EACH, EACH, 18 - 2 * EACH]
    assert len({work.batch for work, _ in tasks}) == 3
    assert all(work.only == tuple(found) for work, found in tasks)
    assert recorded_tasks(records, rows=18, seed=1) == tasks
    assert recorded_tasks(records, rows=18, seed=2) != tasks


def test_agreement_is_relative_to_the_first_and_leaves_short_kernels_out() -> None:
    before = [record(n, 0, us) for n, us in ((1, 100.0), (2, 200.0), (3, 50.0), (4, 5.0), (5, 80.0))]
    after = [record(n, 0, us) for n, us in ((1, 101.0), (2, 196.0), (3, 50.0), (4, 9.0))]
    found = agreement(before, after)
    assert found.rows == 3
    assert found.median == pytest.approx(0.01)
    assert found.p90 == pytest.approx(0.02)
    assert found.shift == pytest.approx(0.0)
    assert "3 candidates" in str(found)


def test_recordings_without_a_common_candidate_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="share no measured candidate"):
        agreement([record(1, 0)], [record(2, 0)])


def test_records_are_counted_by_kind_and_outcome() -> None:
    fp8 = Attention(32, 8, 128, kv_dtype="fp8_e4m3")
    records = [record(1, 0), record(1, 1), record(1, 0, attention=fp8), record(1, 2, None)]
    records += [record(1, 0, attention=Attention.mla(16))]
    row = table(records).splitlines()[2]
    assert row == "| `fa3` | 2 | 0 | 0 | 0 | 1 | 1 | 4 | 1 crashed |"


def test_quality_is_the_worst_error_and_the_usual_spread() -> None:
    workload = Workload(GQA, Batch.decode([64]), H200)
    candidate = Candidate("fa3", {})
    outcomes = (
        Measured((1e-4, 1.02e-4, 0.98e-4), Accuracy(0.5, 1.0, True)),
        Measured((1e-4,), Accuracy(0.1, 1.0, False), cold=False),
        Failed("incorrect", "far off", Accuracy(9.0, 1.0, True)),
    )
    records = [to_record(workload, candidate, outcome, ("fa3", "3.0")) for outcome in outcomes]
    assert quality.table(records).splitlines()[2] == "| `fa3` | 2 | 0.50 | 50% | 0.80% | 1 | 0 |"


def test_packing_keeps_the_last_record_of_each_candidate_and_version(tmp_path: Path) -> None:
    first, again, other, older = record(1, 0, None), record(1, 0, 90.0), record(1, 1), record(1, 0, version="2.9")
    kept = latest([first, other, again, older])
    assert kept == [again, other, older]
    pack(kept, tmp_path / "all.jsonl.xz")
    assert read_records(tmp_path).records == tuple(kept)


def test_the_command_line_counts_and_packs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    append_records(tmp_path / "a.jsonl", [record(1, 0), record(1, 0), record(2, 0)])
    assert main(["count", "--records", str(tmp_path)]) == 0
    assert "| `fa3` | 3 |" in capsys.readouterr().out
    packed = tmp_path / "packed.jsonl.xz"
    assert main(["pack", "--records", str(tmp_path / "a.jsonl"), "--out", str(packed)]) == 0
    assert capsys.readouterr().out.startswith("2 of 3 records")
    assert len(read_records(packed).records) == 2


def test_a_folder_that_is_not_there_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count", "--records", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err


def test_packing_nothing_writes_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = tmp_path / "packed.jsonl.xz"
    assert main(["pack", "--records", str(tmp_path), "--out", str(packed)]) == 2
    assert "nothing to pack" in capsys.readouterr().err
    assert not packed.exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--limit", "-3"),
        ("--limit", "0"),
        ("--start", "-1"),
        ("--repeats", "0"),
        ("--rows", "1e3"),
        ("--seed", "٣"),
        ("--budget-seconds", "-1"),
        ("--budget-seconds", "nan"),
        ("--sustained-seconds", "inf"),
        ("--budget-seconds", "soon"),
    ],
)
def test_absurd_numbers_are_wrong_usage(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--set", "cpu", "--device", "cpu", option, value])
    assert ended.value.code == 2
    assert value in capsys.readouterr().err
