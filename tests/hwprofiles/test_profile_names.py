from pathlib import Path

import pytest
from driver_names import DEVICE_OF
from hypothesis import given, settings
from hypothesis import strategies as st

from hwprofiles import MissingValue, PartitionedDevice, UnknownProfile, list_profiles, load_profile
from hwprofiles.library import DATA

PROFILES = {p.id: p for p in list_profiles()}
NAMES = sorted((name, p.id) for p in PROFILES.values() for name in (p.id, *p.aliases, *p.driver_names))


def test_all_devices_load() -> None:
    files = {path.stem for path in (DATA / "devices").glob("*.toml")}
    assert len(files) >= 57
    assert files <= set(PROFILES)
    assert {PROFILES[i].vendor for i in files} >= {"NVIDIA", "AMD", "Intel", "Huawei"}


@pytest.mark.parametrize(("name", "device"), DEVICE_OF.items())
def test_every_driver_name_finds_its_device(name: str, device: str) -> None:
    assert load_profile(name).id == device


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("h200", "nvidia-h200-sxm-141gb"),
        ("h200_sxm", "nvidia-h200-sxm-141gb"),
        ("h100", "nvidia-h100-sxm5-80gb"),
        ("a100", "nvidia-a100-sxm4-80gb"),
        ("rtx_pro_6000", "nvidia-rtx-pro-6000-blackwell-server"),
        ("b200_sxm", "nvidia-b200-sxm-180gb"),
        ("NVIDIA_H200", "nvidia-h200-sxm-141gb"),
    ],
)
def test_short_names_have_fixed_targets(name: str, device: str) -> None:
    assert load_profile(name).id == device


@given(st.sampled_from(NAMES), st.sampled_from("_- "), st.booleans())
def test_case_and_separators_do_not_matter(named: tuple[str, str], separator: str, upper: bool) -> None:
    name, device = named
    spelled = name.replace("-", separator).replace("_", separator).replace(" ", separator)
    assert load_profile(spelled.upper() if upper else spelled.lower()).id == device


@settings(max_examples=25)
@given(st.text(alphabet="abcxyz0123456789_- ", max_size=12))
def test_any_text_either_finds_a_known_device_or_is_unknown(name: str) -> None:
    try:
        found = load_profile(name)
    except UnknownProfile:
        return
    assert found.kind == "cpu" or found.id in PROFILES


def test_unknown_name_lists_the_nearest() -> None:
    with pytest.raises(UnknownProfile, match="h200") as caught:
        load_profile("h20o")
    assert "h200" in caught.value.nearest


@pytest.mark.parametrize(
    ("name", "whole", "partition"),
    [
        ("NVIDIA H200 MIG 3g.71gb", "nvidia-h200-sxm-141gb", "MIG 3g.71gb slice"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "nvidia-a100-sxm4-40gb", "MIG 1g.5gb slice"),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb Device", "nvidia-a100-sxm4-80gb", "MIG 3g.40gb slice"),
        ("NVIDIA H100 80GB HBM3 MIG 1c.2g.20gb", "nvidia-h100-sxm5-80gb", "MIG 1c.2g.20gb slice"),
        ("h100_mig_1g.10gb", "nvidia-h100-sxm5-80gb", "mig_1g.10gb slice"),
        ("mi300x CPX/NPS4", "amd-mi300x", "CPX/NPS4 partition"),
        ("AMD Instinct MI300X (CPX)", "amd-mi300x", "CPX partition"),
        ("Ascend910B3-vir10_3c_32g", "huawei-ascend-910b3", "vir10_3c_32g partition"),
    ],
)
def test_partitions_are_recognised(name: str, whole: str, partition: str) -> None:
    with pytest.raises(PartitionedDevice, match="bandwidth") as caught:
        load_profile(name)
    assert (caught.value.whole, caught.value.partition) == (whole, partition)


def test_h20_3e_is_an_h20_with_the_memory_of_an_h200() -> None:
    plain, large, h200 = load_profile("h20"), load_profile("NVIDIA H20-3e"), load_profile("h200")
    assert large.matrix_flops_per_s == plain.matrix_flops_per_s
    assert large.num_sms == plain.num_sms == 78
    assert large.memory_bytes == h200.memory_bytes
    assert large.memory_reported_bytes is None


def test_missing_value_says_which_and_how() -> None:
    orin = load_profile("agx_orin")
    with pytest.raises(MissingValue, match=r'no confirmed memory_bytes_per_s.*extends = "nvidia-jetson-agx-orin-64gb"'):
        orin.require("memory_bytes_per_s")
    with pytest.raises(MissingValue, match=r"matrix_flops_per_s\.fp8"):
        orin.matrix_rate("fp8_e4m3")
    assert orin.unconfirmed["memory_bytes_per_s"] == 204.8e9


def test_dtypes_of_a_launch_command_find_their_rate() -> None:
    b200 = load_profile("b200")
    assert b200.matrix_rate("fp8_e5m2") == b200.matrix_flops_per_s["fp8"]
    assert b200.matrix_rate("nvfp4") == 9e15


def test_published_values_survive() -> None:
    h200 = load_profile("h200")
    assert (h200.num_sms, h200.memory_bytes_per_s, h200.l2_bytes) == (132, 4.8e12, 60 * 2**20)
    assert h200.matrix_rate("bf16") == 989.4e12
    assert h200.shared_memory_max_bytes_per_block == 227 * 1024
    assert h200.features.wgmma
    assert not h200.features.tcgen05
    assert round(h200.ridge_flops_per_byte()["bf16"]) == 206


def test_origins_tell_derived_from_published() -> None:
    b200 = load_profile("b200")
    assert b200.origin("matrix_clock_hz") == "derived"
    assert b200.origin("matrix_flops_per_s.bf16") == "vendor"
    assert b200.origin("llc_bytes") is None


@pytest.mark.parametrize(
    ("name", "profile_id"),
    [("rtx4090", "nvidia-rtx-4090"), ("RTX5090", "nvidia-rtx-5090"), ("max1550", "intel-max-1550")],
)
def test_separators_may_be_left_out(name: str, profile_id: str) -> None:
    assert load_profile(name).id == profile_id


def test_a_slice_of_nothing_asks_for_the_device() -> None:
    with pytest.raises(UnknownProfile, match=r"MIG 1g\.10gb slice: name the whole device"):
        load_profile("MIG 1g.10gb")


def test_a_long_name_is_cut_in_the_message() -> None:
    with pytest.raises(UnknownProfile) as caught:
        load_profile("x" * 5000)
    assert len(str(caught.value)) < 200


def test_shipped_profiles_do_not_depend_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text('name = "x"\nvendor = "y"\nkind = "gpu"\narchitecture = "z"\n')
    monkeypatch.setenv("ATTNROOF_PROFILES", str(tmp_path))
    assert "mine" in {p.id for p in list_profiles()}
    assert "mine" not in {p.id for p in list_profiles(shipped_only=True)}
