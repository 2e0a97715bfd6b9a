import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwprofiles import Measured, load_profile
from hwprofiles.save import calibrated_path, save_calibrated, to_toml

MEASURED = Measured(
    date="2026-11-30T12:00:00Z",
    read_bytes_per_s=1.25e10,
    matrix_flops_per_s={"bf16": 1.5e11},
    curves={"read_bytes_per_s_by_bytes": [[1048576.0, 5e10], [268435456.0, 1.25e10]]},
    spread={"matrix_flops_per_s.bf16": 0.02},
    warnings=['busy "machine"'],
)
text = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12)
scalars = st.one_of(st.booleans(), st.integers(-(2**60), 2**60), text, st.lists(st.integers(0, 99), max_size=3))
tables = st.recursive(
    st.dictionaries(text, scalars, max_size=4), lambda inner: st.dictionaries(text, inner, max_size=3), max_leaves=6
)


@given(tables)
def test_written_tables_read_back(values: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(values)) == values


@given(st.floats(allow_nan=False))
def test_written_numbers_read_back(value: float) -> None:
    assert tomllib.loads(to_toml({"x": value})) == {"x": value}


def test_a_calibrated_gpu_extends_its_datasheet() -> None:
    h200 = load_profile("h200")
    save_calibrated(h200, MEASURED, calibrated_path(h200))
    again = load_profile("NVIDIA H200")
    assert again.measured == MEASURED
    assert again.memory_bytes_per_s == h200.memory_bytes_per_s
    assert again.aliases == h200.aliases
    assert len(calibrated_path(h200).read_text().splitlines()) < 25


def test_a_calibrated_processor_is_found_as_cpu() -> None:
    cpu = load_profile("cpu")
    save_calibrated(cpu, MEASURED, calibrated_path(cpu))
    again = load_profile("cpu")
    assert again.measured == MEASURED
    assert again.memory_bytes_per_s == MEASURED.read_bytes_per_s
    assert again.origin("memory_bytes_per_s") == "measured"
    assert again.num_sms == cpu.num_sms


def test_a_calibration_in_a_file_of_its_own_is_loaded_by_path(tmp_path: Path) -> None:
    path = tmp_path / "somewhere.toml"
    before = load_profile("h200").measured
    save_calibrated(load_profile("h200"), MEASURED, path)
    found = load_profile(str(path))
    assert (found.id, found.measured) == ("nvidia-h200-sxm-141gb", MEASURED)
    assert load_profile("h200").measured == before


def test_saving_again_replaces_the_whole_measurement() -> None:
    h200 = load_profile("h200")
    save_calibrated(h200, MEASURED, calibrated_path(h200))
    later = Measured(date="2026-12-01T12:00:00Z", exp_per_s=4e12)
    save_calibrated(load_profile("h200"), later, calibrated_path(h200))
    assert load_profile("h200").measured == later
    assert [p.name for p in calibrated_path(h200).parent.iterdir()] == ["nvidia-h200-sxm-141gb.toml"]


def test_a_processor_can_be_calibrated_again() -> None:
    for read in (1.0e10, 1.5e10):
        cpu = load_profile("cpu")
        save_calibrated(cpu, MEASURED.model_copy(update={"read_bytes_per_s": read}), calibrated_path(cpu))
        again = load_profile("cpu")
        assert again.measured
        assert again.memory_bytes_per_s == again.measured.read_bytes_per_s == read


def test_a_users_own_card_can_be_calibrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "h200-500w.toml"
    own.write_text('extends = "nvidia-h200-sxm-141gb"\nname = "H200, 500 W"\ntdp_w = 500\n')
    monkeypatch.setenv("ATTNROOF_PROFILES", str(own))
    card = load_profile("h200-500w")
    save_calibrated(card, MEASURED, calibrated_path(card))
    again = load_profile("h200-500w")
    assert (again.measured, again.tdp_w, again.name) == (MEASURED, 500, "H200, 500 W")
