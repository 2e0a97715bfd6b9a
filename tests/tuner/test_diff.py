"""Two configurations or sets of records, call by call."""

import lzma
from pathlib import Path

import pytest

from costmodel import Attention, Record
from costmodel.record import RecordedBatch, RecordedDevice
from tuner.compare import compare, read_contents
from tuner.configuration import ConfigurationError
from tuner.lookup import PACKAGED

DEVICE = RecordedDevice(name="NVIDIA H200", cc="9.0", sms=132, memory_mib=143771, driver="580.159")


def line(latency_us: float, kv_len: int = 1024, width: float = 0.01, version: str = "3.0.0") -> str:
    record = Record(
        schema=1,
        attention={"num_qo_heads": 32, "num_kv_heads": 8, "head_dim": 128, "dtype": "bf16", "kv_dtype": "bf16"},
        batch=RecordedBatch(phase="decode", q_lens=(1,), kv_lens=(kv_len,), page_size=64),
        backend="fa3",
        implementation="flash_attn_interface",
        implementation_version=version,
        knobs={},
        outcome="measured",
        latency_us=latency_us,
        p10_us=latency_us * (1 - width),
        p90_us=latency_us * (1 + width),
        repeats=7,
        device=DEVICE,
        torch="2.11.0",
        cuda="13.0",
        time="2026-11-30T14:05:09Z",
    )
    assert record.to_attention() == Attention(num_qo_heads=32, num_kv_heads=8, head_dim=128)
    return record.to_line() + "\n"


def written(path: Path, *lines: str) -> Path:
    data = "".join(lines).encode()
    path.write_bytes(lzma.compress(data) if path.suffix == ".xz" else data)
    return path


@pytest.mark.parametrize(
    ("after", "width", "change"),
    [(10.1, 0.001, "same"), (10.5, 0.001, "slower"), (9.5, 0.001, "faster"), (10.5, 0.06, "same")],
)
def test_a_change_counts_beyond_the_noise(tmp_path, after, width, change):
    a = written(tmp_path / "a.jsonl", line(10.0, width=width))
    b = written(tmp_path / "b.jsonl.xz", line(after, width=width, version="3.1.0"))
    (found,) = compare(read_contents(a), read_contents(b))
    assert found.change == change
    assert found.ratio == pytest.approx(after / 10.0)


def test_the_worst_comes_first_and_what_is_new_is_told(tmp_path):
    a = written(tmp_path / "a.jsonl", line(10.0), line(20.0, 2048), line(5.0, 64))
    b = written(tmp_path / "b.jsonl", line(11.0), line(30.0, 2048), line(7.0, 128), "no record\n")
    after = read_contents(b)
    assert [d.change for d in compare(read_contents(a), after)] == ["slower", "slower", "only_b", "only_a"]
    assert after.damaged == 1


def test_a_folder_is_read_whole(tmp_path):
    written(tmp_path / "a.jsonl", line(10.0))
    written(tmp_path / "b.jsonl.xz", line(20.0, 2048))
    assert len(read_contents(tmp_path).sides) == 2


def test_configurations_name_their_winners():
    path = sorted(PACKAGED.glob("attn,*.json"))[0]
    contents = read_contents(path)
    assert all(side.winner for side in contents.sides.values())
    assert {d.change for d in compare(contents, contents)} == {"same"}


@pytest.mark.parametrize(("name", "data"), [("a.jsonl.xz", b"no xz"), ("b.jsonl", b"\xff\xfe"), ("c.json", b"{}")])
def test_what_holds_nothing_is_refused(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    for place in (tmp_path / name, tmp_path):
        with pytest.raises(ConfigurationError, match=name):
            read_contents(place)


def test_missing_files_and_empty_folders_are_told(tmp_path):
    with pytest.raises(ConfigurationError, match="no file"):
        read_contents(tmp_path / "none.jsonl")
    with pytest.raises(ConfigurationError, match="holds no configuration"):
        read_contents(tmp_path)
