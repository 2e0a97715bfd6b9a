"""The lookup order: explicit, environment, cache, packaged, model; by content; one warning; never an exception."""

from dataclasses import replace
from pathlib import Path

import pytest
from tuner_fakes import ENVIRONMENT, GQA, configuration, row

from costmodel import Batch
from tuner import lookup
from tuner.configuration import write
from tuner.lookup import find_configuration, find_policy

H200 = ENVIRONMENT.recorded()


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(lookup.FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr(lookup, "PACKAGED", tmp_path / "packaged")
    monkeypatch.setattr(lookup, "_warned", set())
    return tmp_path


def test_the_order_of_places(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = configuration([row()])
    assert find_configuration(GQA, H200).source == "model"
    write(made, places / "packaged")
    assert find_configuration(GQA, H200).source == "packaged"
    write(made, lookup.cache_folder())
    assert find_configuration(GQA, H200).source == "cache"
    write(made, places / "mine")
    monkeypatch.setenv(lookup.FOLDER_VARIABLE, str(places / "mine"))
    assert find_configuration(GQA, H200).source == "environment"
    explicit = write(made, places, "any-name.json")
    assert find_configuration(GQA, H200, explicit=explicit).path == explicit


def test_a_miss_warns_once_with_path_and_command(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        find_configuration(GQA, H200)
    assert len(caplog.records) == 1
    assert "attn,device_name=NVIDIA_H200" in caplog.text
    assert "attnroof tune" in caplog.text


def test_another_device_or_page_size_is_not_used(places: Path) -> None:
    write(configuration([row()]), places / "packaged")
    h100 = H200.model_copy(update={"name": "NVIDIA H100 80GB HBM3"})
    assert find_configuration(GQA, h100).configuration is None
    assert find_configuration(GQA, H200, page_size=64).configuration is None
    assert find_configuration(replace(GQA, sinks=True), H200).configuration is None


def test_another_sm_count_is_used_with_one_warning(places: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(configuration([row()]), places / "packaged")
    partitioned = H200.model_copy(update={"sms": 60})
    found = find_configuration(GQA, partitioned)
    assert found.configuration is not None
    assert found.other_version == ("132 SMs instead of 60",)
    assert caplog.text.count("another version") == 1


def test_driver_and_memory_do_not_matter(places: Path) -> None:
    write(configuration([row()]), places / "packaged")
    other = H200.model_copy(update={"driver": "600.1", "memory_mib": 1})
    assert find_configuration(GQA, other).other_version == ()


def test_rows_of_another_library_version_are_marked_with_one_warning(
    places: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(configuration([row(version="3.0.0")]), places / "packaged")
    before = path.read_text()
    monkeypatch.setattr(lookup, "installed", lambda *_: ("flash_attn_interface", "3.1.0"))
    for _ in range(2):
        found = find_configuration(GQA, H200)
    assert found.configuration is not None
    marked = found.configuration.decode["8:4096"]
    saved = row().best
    assert marked.status == "other_version"
    assert (marked.best.low_us or 0) < 0.9 * (saved.measured_us or 0)
    assert (marked.best.high_us or 0) > 1.1 * (saved.measured_us or 0)
    assert caplog.text.count("rows of other versions") == 1
    assert path.read_text() == before
    monkeypatch.setattr(lookup, "installed", lambda *_: ("flash_attn_interface", "3.0.7"))
    again = find_configuration(GQA, H200)
    assert again.configuration is not None
    assert again.configuration.decode["8:4096"].status == "measured"


def test_a_damaged_file_is_a_miss_not_an_error(places: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(configuration([row()]), places / "packaged")
    path.write_text("{")
    assert find_configuration(GQA, H200).source == "model"
    assert "damaged" in caplog.text


def test_the_policy_falls_back_to_the_model(places: Path) -> None:
    found = find_policy(GQA, H200).choice(GQA, Batch.decode([4096] * 8))
    assert found.source == "model"
    assert found.backend
    write(configuration([row("8q1s4k")]), places / "packaged")
    assert find_policy(GQA, H200).choice(GQA, Batch.decode([4096] * 8)).source == "measured"


def test_a_device_without_a_profile_gets_no_answer_and_no_exception() -> None:
    odd = H200.model_copy(update={"name": "Frobnicator 9000"})
    assert find_policy(GQA, odd).choice(GQA, Batch.decode([4096])).source == "none"
