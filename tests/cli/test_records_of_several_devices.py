"""A CPU's records beside a GPU's: figures of the GPU are the same as without them."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli.commands.accuracy import accuracy
from cli.recorded import read_recorded
from cli.report.source import from_records
from costmodel import Record
from costmodel.record import RecordedBatch, RecordedDevice
from executors import recordings
from executors.recordings import read_records
from executors.replay import ReplayMeasurer
from executors.sweeps.__main__ import main as sweeps
from hwprofiles import Profile, load_profile

CPU = RecordedDevice(name="A CPU of CI", sms=2)
GPU = RecordedDevice(name="NVIDIA H200", cc="9.0", sms=132)
APP = typer.Typer()
APP.command()(accuracy)


def rows(device: RecordedDevice, backend: str, factor: float) -> list[Record]:
    """Decode batches with a time each, and the power and compile time of the device."""
    return [
        Record(
            attention={"num_qo_heads": 32, "num_kv_heads": 8, "head_dim": 128},
            batch=RecordedBatch(phase="decode", q_lens=[1, "*", size], kv_lens=[4096, "*", size], page_size=64),
            backend=backend,
            implementation="library",
            implementation_version="1.0",
            outcome="measured",
            latency_us=factor * size,
            power_w=factor,
            compile_s=factor,
            max_error=0.001,
            tolerance=0.01,
            device=device,
            torch="2.11.0",
            time="2026-11-30T14:05:09Z",
        )
        for size in (8, 16, 32, 64)
    ]


@pytest.fixture
def h200() -> Profile:
    return load_profile("h200")


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    return written(tmp_path / "alone", gpu=rows(GPU, "torch_native", 10.0))


@pytest.fixture
def together(tmp_path: Path) -> Path:
    return written(
        tmp_path / "together", gpu=rows(GPU, "torch_native", 10.0), cpu=rows(CPU, "torch_native", 9000.0)[:3]
    )


def written(folder: Path, **devices: list[Record]) -> Path:
    for name, records in devices.items():
        (folder / name).mkdir(parents=True)
        text = "".join(record.to_line() + "\n" for record in records)
        (folder / name / "decode.jsonl").write_text(text, encoding="utf-8")
    return folder


def test_records_can_be_read_of_one_device(together: Path, h200: Profile) -> None:
    assert len(read_records(together).records) == 7
    assert {r.device.name for r in read_records(together, h200).records} == {"NVIDIA H200"}


def test_what_advise_reads_beside_latencies_is_the_devices_own(
    alone: Path, together: Path, h200: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "PACKAGED", alone)
    own = asdict(read_recorded(h200))
    monkeypatch.setattr(recordings, "PACKAGED", together)
    assert asdict(read_recorded(h200)) == own
    assert own["power_w"] == {("torch_native", "decode"): 10.0}


def test_accuracy_gives_each_device_its_own_table(alone: Path, together: Path, h200: Profile) -> None:
    def of_h200(folder: Path) -> object:
        documents = json.loads(CliRunner().invoke(APP, ["--records", str(folder), "--all", "--json"]).stdout)
        return next(d for d in documents if d["device"] == h200.id)

    assert of_h200(together) == of_h200(alone)


def test_the_report_is_about_one_device_and_says_so(alone: Path, together: Path) -> None:
    source = from_records(together)
    assert source.profile.id == load_profile("h200").id
    assert len(source.rows) == len(from_records(alone).rows) == 4
    assert any("3 of A CPU of CI" in remark for remark in source.remarks)


def test_a_replay_is_of_one_device(together: Path, h200: Profile) -> None:
    with pytest.raises(ValueError, match="several devices"):
        ReplayMeasurer.load(together)
    assert len(ReplayMeasurer(read_records(together, h200).records).workloads()) == 4


@pytest.mark.parametrize("command", ["count", "quality"])
def test_records_are_counted_device_by_device(command: str, together: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweeps([command, "--records", str(together)]) == 0
    printed = capsys.readouterr().out
    gpu, cpu = printed.split("A CPU of CI:")
    assert gpu.startswith("NVIDIA H200:")
    rows = [next(line for line in part.splitlines() if "`torch_native`" in line) for part in (gpu, cpu)]
    assert " 4 |" in rows[0]
    assert " 3 |" in rows[1]
