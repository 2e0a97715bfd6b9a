"""Records survive the way to disk and back, and whatever a killed or foreign writer leaves behind."""

import json
import lzma
from pathlib import Path

import pytest

from costmodel import Attention, Batch, Record
from costmodel.fit.__main__ import read
from costmodel.record import INDEPENDENT
from executors.environment import Environment
from executors.outcome import Accuracy, Candidate, Conditions, Failed, Measured, Outcome, Rejected
from executors.recorder import Workload, append_records, to_record
from executors.recordings import PACKAGED, independent_files, read_records
from executors.sweeps.pack import pack

H200 = Environment("cuda:0", "NVIDIA H200", "9.0", 132, 143771 << 20, "580.159", "2.11.0", "13.0")
WORKLOAD = Workload(Attention(32, 8, 128), Batch.decode([4096] * 64, page_size=64), H200)
FA3 = Candidate("fa3", {"num_splits": 0})
TIMES = tuple(x * 1e-6 for x in (131.0, 130.0, 132.0, 133.0, 129.0))
MEASURED = Measured(
    seconds=TIMES,
    accuracy=Accuracy(0.002, 0.01, True, 0.25),
    eager_seconds=140e-6,
    plan_seconds=0.0,
    write_seconds=3e-6,
    compile_seconds=0.0,
    path="fa3",
    conditions=Conditions(1.98e9, 350.0, 41.0, ("power cap",), "busy"),
    sustained_seconds=135e-6,
)


def record(outcome: Outcome = MEASURED) -> Record:
    return to_record(WORKLOAD, FA3, outcome, ("flash_attn_interface", "3.0.0"))


def test_a_measurement_is_written_in_the_units_and_names_of_the_format() -> None:
    line = json.loads(record().to_line())
    assert line["latency_us"] == 131.0
    assert line["p10_us"] == pytest.approx(129.4)
    assert line["p90_us"] == pytest.approx(132.6)
    assert line["repeats"] == 5
    assert line["batch"]["kv_lens"] == [4096, "*", 64]
    assert line["attention"] == {"num_qo_heads": 32, "num_kv_heads": 8, "head_dim": 128}
    assert line["device"] == {
        "name": "NVIDIA H200", "cc": "9.0", "sms": 132, "memory_mib": 143771, "driver": "580.159"
    }  # fmt: skip
    assert line["sm_clock_mhz"] == 1980
    assert (line["checked"], line["busy"], line["sustained_us"]) == (0.25, "busy", 135.0)


@pytest.mark.parametrize(
    ("outcome", "kind", "reason"),
    [
        (Rejected(("no sinks", "no fp8")), "rejected", "no sinks; no fp8"),
        (Failed("timeout", "no sign of life"), "timeout", "no sign of life"),
        (Failed("incorrect", "off", Accuracy(float("nan"), 0.01)), "incorrect", "off"),
    ],
)
def test_every_outcome_has_a_record(outcome: Outcome, kind: str, reason: str) -> None:
    line = json.loads(record(outcome).to_line())
    assert (line["outcome"], line["reason"]) == (kind, reason)
    assert "latency_us" not in line
    assert "NaN" not in record(outcome).to_line()


def test_lines_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "new" / "records.jsonl"
    rows = [record(), record(Rejected(("no",)))]
    append_records(path, rows[:1])
    append_records(path, rows[1:])
    assert read_records(path).records == tuple(rows)


def test_damaged_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    good = record().to_line()
    path.write_bytes(f"{good}\n\nnot json\n{{}}\n{good[:50]}".encode() + b"\xff\xfe")
    append_records(path, [record()])
    loaded = read_records(path)
    assert len(loaded.records) == 2
    assert loaded.damaged == 3


def test_a_folder_is_read_whole_and_compressed_files_too(tmp_path: Path) -> None:
    append_records(tmp_path / "a.jsonl", [record()])
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.jsonl.xz").write_bytes(lzma.compress((record().to_line() + "\n").encode()))
    assert len(read_records(tmp_path).records) == 2


def test_nothing_to_append_touches_nothing(tmp_path: Path) -> None:
    append_records(tmp_path / "records.jsonl", [])
    assert list(tmp_path.iterdir()) == []


def test_a_compressed_file_that_breaks_off_gives_its_whole_lines_and_counts_as_damaged(tmp_path: Path) -> None:
    lines = "".join(record(Failed("crashed", str(n) * 50)).to_line() + "\n" for n in range(3000))
    data = lzma.compress(lines.encode())
    (tmp_path / "cut.jsonl.xz").write_bytes(data[: len(data) // 2])
    loaded = read_records(tmp_path)
    assert 0 < len(loaded.records) < 3000
    assert 1 <= loaded.damaged <= 2


def test_the_packaged_records_are_whole_and_of_known_devices() -> None:
    loaded = read_records()
    assert loaded.damaged == 0
    assert {path.name for path in PACKAGED.iterdir()} >= {"nvidia-h200"}
    assert all(r.torch and r.time and r.implementation_version for r in loaded.records)


def test_records_drawn_to_judge_the_fit_are_read_only_when_named(tmp_path: Path) -> None:
    pack([record()], tmp_path / "some.jsonl.xz")
    pack([record(), record()], tmp_path / INDEPENDENT)
    assert len(read_records(tmp_path).records) == 1
    assert len(read_records(independent_files(tmp_path)).records) == 2
    assert len(list(read([tmp_path]))) == 1
