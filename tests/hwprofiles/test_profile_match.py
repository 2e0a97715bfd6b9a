import pytest

from hwprofiles import MissingValue, load_profile
from hwprofiles.match import fits, match
from hwprofiles.seen import Seen

GIB, MIB = 1 << 30, 1 << 20


def h200(**changes: object) -> Seen:
    values = {
        "device": "cuda:0",
        "name": "NVIDIA H200",
        "vendor": "NVIDIA",
        "num_sms": 132,
        "memory_bytes": 143771 * MIB,
        "arch_target": "sm_90",
        "compute_capability": "9.0",
        "boost_clock_hz": 1.98e9,
        "memory_bytes_per_s": 4.917e12,
        "power_limit_w": 700.0,
        "driver": "580.159",
    }
    return Seen(**(values | changes))  # type: ignore[arg-type]


def test_a_whole_device_gets_its_file() -> None:
    found = match(h200())
    assert (found.profile, found.from_file, found.remarks) == (load_profile("h200"), True, ())


def test_a_power_cap_is_said() -> None:
    assert "capped at 500 W of 700 W" in match(h200(power_limit_w=500.0)).remarks[0]


@pytest.mark.parametrize("reported", [143156, 143771, 140300, 146000])
def test_memory_is_the_same_within_two_percent(reported: int) -> None:
    assert fits(load_profile("h200"), h200(memory_bytes=reported * MIB))


@pytest.mark.parametrize("reported", [80995, 139000, 147000])
def test_other_memory_is_another_variant(reported: int) -> None:
    assert not fits(load_profile("h200"), h200(memory_bytes=reported * MIB))


def test_an_h20_with_141_gb_is_the_h20_3e() -> None:
    found = match(h200(name="NVIDIA H20", num_sms=78))
    assert found.profile.id == "nvidia-h20-3e-141gb"
    assert "by chip, SM count and memory" in found.remarks[0]


def test_a_known_name_with_other_shape_gets_a_profile_on_the_spot() -> None:
    found = match(h200(num_sms=66, memory_bytes=70 * GIB))
    assert not found.from_file
    assert found.profile.num_sms == 66
    assert found.profile.matrix_rate("bf16") == pytest.approx(load_profile("h200").matrix_rate("bf16") / 2)
    assert found.profile.origin("matrix_flops_per_s.bf16") == "derived"
    assert "made on the spot" in found.remarks[0]


def test_a_mig_slice_is_said_and_has_no_bandwidth() -> None:
    found = match(h200(num_sms=60, memory_bytes=69 * GIB, partition="MIG 3g", memory_bytes_per_s=None))
    assert "MIG 3g part of a H200" in found.remarks[0]
    assert (found.profile.num_sms, found.profile.memory_bytes_per_s) == (60, None)


def test_an_unknown_card_gets_the_facts_of_its_architecture() -> None:
    found = match(h200(name="NVIDIA H300", num_sms=144, memory_bytes=200 * GIB))
    assert found.profile.id == "local-nvidia-h300"
    assert found.profile.features.wgmma
    assert found.profile.architecture == "Hopper"
    assert found.profile.matrix_rate("bf16") == 144 * 1.98e9 * 4096
    assert found.profile.memory_bytes_per_s == 4.917e12
    assert "in no profile file" in found.remarks[0]


def test_a_radeon_without_a_name_is_known_by_chip_and_units() -> None:
    seen = Seen("cuda:0", "AMD Radeon Graphics", "AMD", 96, 24 * GIB, "gfx1100")
    assert match(seen).profile.id == "amd-rx-7900-xtx"


def test_two_instincts_of_one_chip_are_told_apart_by_memory() -> None:
    def instinct(memory: int) -> Seen:
        return Seen("cuda:0", "AMD Instinct OAM", "AMD", 304, memory, "gfx942")

    assert match(instinct(192 * GIB)).profile.id == "amd-mi300x"
    assert match(instinct(256 * GIB)).profile.id == "amd-mi325x"


def test_a_compute_partition_of_an_instinct_is_said() -> None:
    seen = Seen("cuda:0", "AMD Instinct MI300X", "AMD", 38, 24 * GIB, "gfx942", partition="CPX/NPS4")
    found = match(seen)
    assert "CPX/NPS4 part of a Instinct MI300X" in found.remarks[0]
    assert found.profile.matrix_rate("bf16") == pytest.approx(1307.4e12 / 8)


def test_an_architecture_that_nobody_described_leaves_its_rates_open() -> None:
    found = match(h200(name="NVIDIA X900", arch_target="sm_130", compute_capability="13.0"))
    assert (found.profile.architecture, found.profile.matrix_flops_per_s) == ("unknown", {})
    with pytest.raises(MissingValue, match=r"matrix_flops_per_s\.bf16"):
        found.profile.matrix_rate("bf16")


def test_two_profiles_that_fit_are_both_said() -> None:
    own = load_profile("h200").model_copy(update={"id": "zz-own"})
    found = match(h200(), [load_profile("h200"), own])
    assert (found.profile.id, found.remarks) == ("nvidia-h200-sxm-141gb", ("zz-own fits cuda:0 as well: give --gpu",))
