import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.commands.hw import app
from hwprofiles import Measured, list_profiles, load_profile
from hwprofiles.save import calibrated_path, save_calibrated

MEASURED = Measured(
    date="2026-11-30T12:00:00Z",
    driver="580.159",
    command="attnroof hw calibrate --device cuda:0",
    read_bytes_per_s=4.32e12,
    matrix_flops_per_s={"bf16": 7.9152e14},
    spread={"read_bytes_per_s": 0.012},
    curves={"read_bytes_per_s_by_bytes": [[4194304, 9.9e12], [4294967296, 4.32e12]]},
    warnings=["held down by power cap"],
)


@pytest.fixture(autouse=True)
def nothing_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("ATTNROOF_PROFILES", raising=False)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def run_json(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_list_names_all_devices() -> None:
    devices = run_json("list")
    assert len(devices) == len(list_profiles()) >= 57
    assert all(
        set(d) == {"id", "name", "vendor", "architecture", "aliases", "driver_names"} and d["driver_names"]
        for d in devices
    )
    table = run("list").stdout
    for device in devices:
        assert device["id"] in table


def test_show_gives_identity_and_fields() -> None:
    shown = run_json("show", "NVIDIA H200")
    assert (shown["id"], shown["num_sms"], shown["memory_bytes_per_s"]) == ("nvidia-h200-sxm-141gb", 132, 4.8e12)
    assert {"name", "vendor", "architecture", "aliases", "driver_names"} <= set(shown)
    assert shown["features"]["wgmma"] is True


def test_show_prints_units_origins_and_sources() -> None:
    text = run("show", "b200").stdout
    for expected in ("7.7 TB/s", "2.25 PFLOP/s", "4.5 POP/s", "126 MiB", "TMEM", "source: https://"):
        assert expected in text
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.split()}
    assert rows["shared_memory_bytes_per_sm"] == ["228", "KiB", "vendor"]
    assert rows["matrix_clock_hz"] == ["1.86", "GHz", "derived"]
    assert rows["gemm_fp8_best_flops_per_s"][-1] == "others"


def test_show_prints_datasheet_measured_and_ratio_side_by_side() -> None:
    h200 = load_profile("h200")
    save_calibrated(h200, MEASURED, calibrated_path(h200))
    text = run("show", "h200").stdout
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.split()}
    assert rows["matrix_flops_per_s.bf16"] == ["989", "TFLOP/s", "792", "TFLOP/s", "0.800", "-"]
    assert rows["read_bytes_per_s"] == ["4.8", "TB/s", "4.32", "TB/s", "0.900", "1.2%"]
    assert "warning: held down by power cap" in text
    assert "read by bytes: 4 MiB: 9.9 TB/s, 4 GiB: 4.32 TB/s" in text


def test_compare_prints_ridge_points() -> None:
    text = run("compare", "h100", "h200", "b200").stdout
    ridge = next(line for line in text.splitlines() if line.strip().startswith("ridge bf16"))
    assert ridge.split()[-3:] == ["295", "206", "292"]
    first = run_json("compare", "h100", "mi300x")[0]
    assert round(first["ridge_flops_per_byte"]["bf16"]) == 295


def test_detect_lists_this_machine() -> None:
    cpu = run_json("detect")[-1]
    assert (cpu["device"], cpu["profile"]["id"]) == ("cpu", load_profile("cpu").id)
    assert load_profile("cpu").id in run("detect").stdout.replace("\n", "")


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_roofline_draws_a_picture(tmp_path: Path, ending: str) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / f"new/roof.{ending}"
    assert run("roofline", "h200", "b200", "--dtype", "bf16", "--dtype", "fp8", "--out", str(out)).exit_code == 0
    assert out.read_bytes().startswith({"png": b"\x89PNG", "svg": b"<?xml"}[ending])


def test_roofline_refuses_what_it_cannot_draw(tmp_path: Path) -> None:
    assert "among .png, .svg, .pdf" in str(run("roofline", "h200", "--out", "roof.gif").exception)
    lacking = run("roofline", "gb10", "--out", str(tmp_path / "x.png")).exception
    assert "no bandwidth, or no rate in bf16" in str(lacking)


def test_calibrate_writes_a_profile_that_load_profile_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("executors.calibrate.calibrate", lambda *arguments: MEASURED)
    written = run_json("calibrate", "--device", "cpu")
    assert written["path"] == str(calibrated_path(load_profile("cpu")))
    assert load_profile("cpu").measured == MEASURED


def test_calibrate_writes_where_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("executors.calibrate.calibrate", lambda *arguments: MEASURED)
    out = tmp_path / "cpu.toml"
    before = load_profile("cpu").measured
    result = run("calibrate", "--out", str(out))
    assert "held down by power cap" in result.output
    assert load_profile(str(out)).measured == MEASURED
    assert load_profile("cpu").measured == before


def test_calibrate_of_a_device_that_is_not_there_says_so() -> None:
    assert "no device 'cuda:63'" in str(run("calibrate", "--device", "cuda:63").exception)


def test_check_says_what_is_wrong(tmp_path: Path) -> None:
    assert f"{len(list_profiles())} profile(s) hold together" in run("check").stdout
    path = tmp_path / "sparse.toml"
    path.write_text('extends = "nvidia-h200-sxm-141gb"\nname = "x"\nmatrix_flops_per_s = { bf16 = 1.979e15 }\n')
    result = run("check", str(path))
    assert "sparse: matrix_flops_per_s.bf16" in result.stdout
    assert "3 problem(s) in 1 profile(s)" in str(result.exception)


def test_roofline_says_which_device_is_not_in_it(tmp_path: Path) -> None:
    result = run("roofline", "h200", "v100", "--dtype", "fp8", "--out", str(tmp_path / "roof.svg"))
    assert "nvidia-v100-sxm2-32gb is not in it" in result.stderr


def test_calibrate_measures_nothing_that_it_could_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_arguments: object) -> Measured:
        raise AssertionError("measured before the place to write was checked")

    monkeypatch.setattr("executors.calibrate.calibrate", never)
    (tmp_path / "file").write_text("")
    assert "cannot be made" in str(run("calibrate", "--out", str(tmp_path / "file" / "x.toml")).exception)
    assert "is a folder" in str(run("calibrate", "--out", str(tmp_path)).exception)


def test_square_brackets_and_dollars_in_names_are_text(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text('extends = "nvidia-h200-sxm-141gb"\nname = "[/red] $x^{$"\nnotes = ["[/bold]"]\n')
    shown = run("show", str(path))
    assert shown.exit_code == 0
    assert "[/red] $x^{$" in shown.stdout
    assert "note: [/bold]" in shown.stdout
    assert run("compare", str(path), "h100").exit_code == 0
    assert run("roofline", str(path), "--out", str(tmp_path / "roof.png")).exit_code == 0


def test_check_knows_the_names_of_other_devices(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'extends = "nvidia-h200-sxm-141gb"\nname = "x"\naliases = ["h200"]\ndriver_names = ["NVIDIA H200"]\n'
    )
    result = run("check", str(path))
    assert "mine: driver_names: 'nvidia h200' is also nvidia-h200-sxm-141gb" in result.stdout
    assert "mine: aliases: 'h200' also names nvidia-h200-sxm-141gb" in result.stdout
