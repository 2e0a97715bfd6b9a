from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwprofiles import ProfileError, list_profiles, load_profile
from hwprofiles.assemble import assemble
from hwprofiles.library import Layer, layers

Write = Callable[..., Path]
CAPPED = 'extends = "nvidia-h200-sxm-141gb"\nname = "H200, 500 W"\naliases = ["h200_500w"]\ntdp_w = 500\n'
NEW_DEVICE = """
name = "Example X1"
vendor = "Example"
kind = "gpu"
architecture = "X"
driver_names = ["Example X1 96GB"]
memory_bytes_per_s = 2.4e12
matrix_flops_per_s = { bf16 = 4.5e14 }
sources = ["https://example.org/x1.pdf"]
confidence = "high"
"""


def test_a_capped_card_changes_one_value(write: Write) -> None:
    write("h200-500w.toml", CAPPED)
    capped, h200 = load_profile("H200_500W"), load_profile("h200")
    assert (capped.id, capped.tdp_w, h200.tdp_w) == ("h200-500w", 500, 700)
    assert capped.origin("tdp_w") == "user"
    assert capped.origin("num_sms") == "vendor"
    assert (capped.aliases, capped.driver_names) == (("h200_500w",), ())
    changed = {n for n in type(h200).model_fields if getattr(capped, n) != getattr(h200, n)}
    assert changed <= {
        "id",
        "name",
        "aliases",
        "driver_names",
        "tdp_w",
        "origins",
        "files",
        "confidence",
        "measured",
    }


def test_a_new_device_is_one_file(write: Write) -> None:
    path = write("example-x1.toml", NEW_DEVICE)
    found = load_profile("example x1 96gb")
    assert found.id == "example-x1"
    assert found.files == (str(path),)
    assert "example-x1" in {p.id for p in list_profiles()}


def test_one_file_may_be_named_instead_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x1.toml"
    path.write_text(NEW_DEVICE)
    monkeypatch.setenv("ATTNROOF_PROFILES", str(path))
    assert load_profile("x1").name == "Example X1"
    monkeypatch.delenv("ATTNROOF_PROFILES")
    assert load_profile(str(path)).name == "Example X1"


def test_a_users_file_overrides_the_shipped_one_of_that_id(write: Write) -> None:
    before = len(list_profiles())
    write("nvidia-h200-sxm-141gb.toml", 'extends = "nvidia-h200-sxm-141gb"\nmemory_bytes_per_s = 4.6e12\n')
    for name in ("h200", "NVIDIA H200", "nvidia-h200-sxm-141gb"):
        assert load_profile(name).memory_bytes_per_s == 4.6e12
    assert load_profile("h200").aliases == ("h200", "h200_sxm")
    assert len(list_profiles()) == before


def test_a_users_alias_wins(write: Write) -> None:
    write("mine.toml", CAPPED.replace("h200_500w", "h200"))
    assert load_profile("h200").id == "mine"


def test_unset_takes_an_inherited_value_away(write: Write) -> None:
    write("mine.toml", 'extends = "nvidia-h200-sxm-141gb"\nname = "x"\nunset = ["memory_bytes_per_s"]\n')
    assert load_profile("mine").memory_bytes_per_s is None


def test_architecture_facts_come_from_one_place(write: Write) -> None:
    write("mine.toml", 'name = "x"\nvendor = "NVIDIA"\nkind = "gpu"\narch_target = "sm_90"\n')
    mine, h200 = load_profile("mine"), load_profile("h200")
    assert mine.features == h200.features
    assert mine.shared_memory_bytes_per_sm == h200.shared_memory_bytes_per_sm
    assert mine.architecture == "Hopper"


def test_a_calibration_is_found_and_keeps_the_datasheet(tmp_path: Path) -> None:
    folder = tmp_path / "cache/attnroof/profiles"
    folder.mkdir(parents=True)
    text = 'id = "nvidia-h200-sxm-141gb"\nextends = "nvidia-h200-sxm-141gb"\n[measured]\ndate = "2026-11-30"\n'
    (folder / "nvidia-h200-sxm-141gb.toml").write_text(text + "read_bytes_per_s = 4.4e12\n")
    found = load_profile("NVIDIA H200")
    assert found.measured
    assert (found.measured.read_bytes_per_s, found.memory_bytes_per_s) == (4.4e12, 4.8e12)
    assert found.origin("memory_bytes_per_s") == "vendor"


def test_measurements_are_not_handed_down_to_another_device(write: Write) -> None:
    write("one.toml", NEW_DEVICE + '[measured]\ndate = "2026-11-30"\n')
    write("two.toml", 'extends = "one"\nname = "Two"\n')
    assert load_profile("one").measured
    assert load_profile("two").measured is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("num_sms = [", r"bad\.toml: not valid TOML"),
        (CAPPED + "memory_bytes_per_s = 4800\n", r"bad\.toml: memory_bytes_per_s: 4800 is outside .* bytes/s"),
        (CAPPED + "matrix_flops_per_s = { bf16 = 989 }\n", r"bad\.toml: matrix_flops_per_s\.bf16: 989 .* FLOP/s"),
        (CAPPED + "boost_clock_hz = 1980\n", r"bad\.toml: boost_clock_hz: 1980 .* Hz"),
        (CAPPED + "memory_bytes = 141\n", r"bad\.toml: memory_bytes: 141 .* bytes"),
        (CAPPED + "num_sm = 132\n", r"bad\.toml: num_sm: unknown field; did you mean num_sms"),
        (
            CAPPED + "matrix_flops_per_s = { bf61 = 1e14 }\n",
            r"bad\.toml: matrix_flops_per_s: dtype 'bf61' is not among",
        ),
        (CAPPED + "features = { wgmmma = true }\n", r"bad\.toml: features\.wgmmma: unknown field; did you mean wgmma"),
        (CAPPED + 'num_sms = "many"\n', r"bad\.toml: num_sms: 'many' must be a number"),
        (CAPPED + 'num_sms = "92"\n', r"bad\.toml: num_sms: '92' must be a number"),
        (CAPPED + "num_sms = true\n", r"bad\.toml: num_sms: True must be a number"),
        (CAPPED + f"num_sms = {'9' * 400}\n", r"bad\.toml: num_sms: a number that large is outside"),
        (CAPPED + f"num_sms = {'9' * 5000}\n", r"bad\.toml: holds a number that cannot be read"),
        (CAPPED + "l2_bytes = " + "[" * 3000 + "]" * 3000 + "\n", r"bad\.toml: not valid TOML"),
        (CAPPED + "#" * (1 << 20), r"bad\.toml: has 1 MiB; a profile has a few KiB"),
        (CAPPED + 'features = { wgmma = "yes" }\n', r"bad\.toml: features\.wgmma: .*boolean"),
        (CAPPED + 'compute_capability = "nine"\n', r"bad\.toml: compute_capability: "),
        (CAPPED.replace("H200, 500 W", r"\u001b[31mred"), r"bad\.toml: name: .* without control characters"),
        (CAPPED + 'driver_names = [""]\n', r"bad\.toml: driver_names\.0: .* not empty"),
        ('id = "../x"\n' + CAPPED, r"bad\.toml: id: '\.\./x' must be letters, digits"),
        (CAPPED + 'unset = ["nmu_sms"]\n', r"bad\.toml: unset: \['nmu_sms'\] must be a list of field names"),
        (CAPPED + 'unset = "tdp_w"\n', r"bad\.toml: unset: 'tdp_w' must be a list of field names"),
        (
            NEW_DEVICE.replace('architecture = "X"', 'arch_target = "sm_999"'),
            r"no facts on arch_target 'sm_999': .* sm_90",
        ),
        (NEW_DEVICE.replace('architecture = "X"', ""), r"bad\.toml: architecture: give arch_target, or architecture"),
        (CAPPED + 'files = ["x"]\n', r"bad\.toml: files: unknown field"),
        ('extends = "bad"\n', r"bad\.toml: extends: no profile has the id 'bad'; it names itself"),
        (
            'extends = "nvidia-h200"\n',
            r"bad\.toml: extends: no profile has the id 'nvidia-h200'; did you mean nvidia-h200-",
        ),
        ('vendor = "x"\n', r"bad\.toml: name: Field required"),
    ],
)
def test_a_broken_file_is_named_with_field_and_rule(write: Write, text: str, says: str) -> None:
    write("bad.toml", text)
    with pytest.raises(ProfileError, match=says):
        load_profile("bad")


def test_a_circle_is_named(write: Write) -> None:
    write("one.toml", 'extends = "two"\n')
    write("two.toml", 'extends = "one"\n')
    with pytest.raises(ProfileError, match=r"one\.toml -> two\.toml -> one\.toml"):
        load_profile("one")


def test_a_file_named_twice_is_read_once(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("mine.toml", CAPPED)
    monkeypatch.setenv("ATTNROOF_PROFILES", f"{path}:{path}:{path.parent}")
    assert load_profile("h200_500w").id == "mine"


def test_a_circle_is_named_for_files_given_by_path(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('extends = "two"\n')
    (tmp_path / "two.toml").write_text('extends = "one"\n')
    with pytest.raises(ProfileError, match=r"one\.toml -> two\.toml -> one\.toml"):
        load_profile(str(tmp_path / "one.toml"))


def test_a_file_given_by_path_extends_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(NEW_DEVICE)
    (tmp_path / "another.toml").write_text("not TOML, and none of its business")
    (tmp_path / "top.toml").write_text('extends = "base"\nname = "Top"\ntdp_w = 300\n')
    top = load_profile(str(tmp_path / "top.toml"))
    assert (top.memory_bytes_per_s, top.tdp_w) == (2.4e12, 300)


def test_a_value_out_of_range_is_blamed_on_the_file_that_holds_it(write: Write) -> None:
    write("base.toml", NEW_DEVICE.replace("2.4e12", "2400"))
    write("derived.toml", 'extends = "base"\nname = "y"\n')
    with pytest.raises(ProfileError, match=r"base\.toml: memory_bytes_per_s: 2400"):
        load_profile("derived")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"gone\.toml: cannot be read: No such file"):
        load_profile(str(tmp_path / "gone.toml"))


def test_an_environment_variable_to_nowhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNROOF_PROFILES", "/no/such/folder")
    with pytest.raises(ProfileError, match="ATTNROOF_PROFILES names '/no/such/folder'"):
        load_profile("h200")


def test_a_name_of_two_profiles_asks_for_an_id(write: Write) -> None:
    write("one.toml", CAPPED)
    write("two.toml", CAPPED)
    with pytest.raises(ProfileError, match="several profiles, give an id: one, two"):
        load_profile("h200_500w")


FLOAT_FIELDS = {"memory_bytes_per_s": (1e9, 1e13), "tdp_w": (1.0, 2000.0), "boost_clock_hz": (2e8, 5e9)}


@given(st.sampled_from([p.id for p in list_profiles()]), st.sampled_from(sorted(FLOAT_FIELDS)), st.data())
def test_extending_changes_what_it_names_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, base: str, field: str, data: st.DataObject
) -> None:
    value = data.draw(st.floats(*FLOAT_FIELDS[field]))
    path = tmp_path_factory.mktemp("extended") / "child.toml"
    path.write_text(f'extends = "{base}"\n{field} = {value!r}\n')
    where = (*layers(), Layer("user", (path,)))
    parent, child = load_profile(base), assemble(path, where)
    assert getattr(child, field) == value
    own = {"id", "aliases", "driver_names", "measured", "confidence", "origins", "files", field}
    assert {n for n in type(parent).model_fields if getattr(child, n) != getattr(parent, n)} <= own
