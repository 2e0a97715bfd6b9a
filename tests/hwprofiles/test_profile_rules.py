import tomllib
from typing import Any

import pytest

from hwprofiles import Features, Measured, Profile, list_profiles, load_profile
from hwprofiles.library import DATA
from hwprofiles.validate import check, check_all

SPARSE = [
    (device, dtype, figure)
    for device, figures in tomllib.loads((DATA / "sparse_figures.toml").read_text()).items()
    for dtype, figure in figures.items()
]


def broken(profile: Profile, **changes: Any) -> list[str]:
    return [problem.field for problem in check(profile.model_copy(update=changes))]


def test_all_shipped_profiles_hold_together() -> None:
    assert [str(problem) for problem in check_all(list_profiles())] == []


@pytest.mark.parametrize(("device", "dtype", "figure"), SPARSE)
def test_known_sparse_figures_fail(device: str, dtype: str, figure: float) -> None:
    profile = load_profile(device)
    rates = profile.matrix_flops_per_s | {dtype: figure}
    assert f"matrix_flops_per_s.{dtype}" in broken(profile, matrix_flops_per_s=rates)


@pytest.mark.parametrize("profile", [p for p in list_profiles() if p.kind == "gpu"], ids=lambda p: p.id)
@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_a_doubled_rate_fails_on_every_gpu_that_states_its_clock(profile: Profile, dtype: str) -> None:
    if dtype not in profile.matrix_flops_per_clk_per_sm:
        assert dtype not in profile.matrix_flops_per_s or profile.matrix_clock_hz is None or dtype == "fp8"
        return
    rates = profile.matrix_flops_per_s | {dtype: 2 * profile.matrix_flops_per_s[dtype]}
    assert f"matrix_flops_per_s.{dtype}" in broken(profile, matrix_flops_per_s=rates)


def test_tegra_bandwidth_on_a_data_center_card_fails() -> None:
    assert broken(load_profile("h100"), memory_bytes_per_s=2.73e11) == ["memory_bytes_per_s"]


def test_ddr_bandwidth_is_channels_times_rate() -> None:
    xeon = load_profile("sapphire_rapids")
    assert xeon.memory_type == "DDR5-4800 x8"
    assert broken(xeon, memory_bytes_per_s=2 * 307.2e9) == ["memory_bytes_per_s"]


@pytest.mark.parametrize(
    ("device", "flag", "value", "field"),
    [
        ("a100", "wgmma", True, "features.wgmma"),
        ("a100", "tma", True, "features.tma"),
        ("h100", "tcgen05", True, "features.tcgen05"),
        ("b200", "tensor_memory", False, "features.tensor_memory"),
        ("h100", "fp8_matrix", False, "features.fp8_matrix"),
        ("mi300x", "xmx", True, "features.xmx"),
        ("t4", "cp_async", True, "features.cp_async"),
    ],
)
def test_features_of_another_architecture_fail(device: str, flag: str, value: bool, field: str) -> None:
    profile = load_profile(device)
    assert field in broken(profile, features=Features(**profile.features.model_dump() | {flag: value}))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"sources": ()}, "sources"),
        ({"confidence": "sure"}, "confidence"),
        ({"compute_capability": "8.9"}, "compute_capability"),
        ({"shared_memory_max_bytes_per_block": 512 * 1024}, "shared_memory_max_bytes_per_block"),
        ({"max_threads_per_sm": 1536}, "max_threads_per_sm"),
        ({"origins": {"no_such_field": "vendor"}}, "origins.no_such_field"),
        ({"origins": {"matrix_flops_per_s.fp4": "vendor"}}, "origins.matrix_flops_per_s.fp4"),
        ({"num_sms": 144}, "matrix_flops_per_s.bf16"),
    ],
)
def test_each_rule_speaks_up(changes: dict[str, Any], field: str) -> None:
    assert field in broken(load_profile("h200"), **changes)


def test_one_driver_name_for_two_devices_needs_a_difference() -> None:
    h200 = load_profile("h200")
    twin = h200.model_copy(update={"id": "twin", "aliases": ()})
    assert [p.field for p in check_all([h200, twin])] == ["driver_names"]
    larger = twin.model_copy(update={"memory_reported_bytes": 2 * (h200.memory_reported_bytes or 0)})
    assert "driver_names" not in [p.field for p in check_all([h200, larger])]


def test_one_alias_for_two_devices_fails() -> None:
    h200 = load_profile("h200")
    twin = h200.model_copy(update={"id": "twin", "driver_names": ()})
    assert [p.field for p in check_all([h200, twin])] == ["aliases"]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"read_bytes_per_s": 5.2e12}, "measured.read_bytes_per_s"),
        ({"matrix_flops_per_s": {"bf16": 1.2e15}}, "measured.matrix_flops_per_s.bf16"),
    ],
)
def test_a_measurement_beyond_the_hardware_fails(values: dict[str, Any], field: str) -> None:
    h200 = load_profile("h200")
    assert broken(h200, measured=Measured(date="2026-11-30", **values)) == [field]


def test_a_measurement_at_boost_clock_may_pass_the_peak() -> None:
    seen = Measured(date="2026-11-30", read_bytes_per_s=4.9e12, matrix_flops_per_s={"bf16": 1.05e15})
    assert broken(load_profile("h200"), measured=seen) == []
