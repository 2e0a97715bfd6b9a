"""Put one profile together: a file, what it extends, and the facts of its architecture."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hwprofiles.errors import ProfileError
from hwprofiles.features import Features
from hwprofiles.library import DATA, Layer, read_toml
from hwprofiles.measured import Measured
from hwprofiles.names import suggestion
from hwprofiles.profile import Profile

DIRECTIVES = ("extends", "unset")
OF_ONE_DEVICE = ("aliases", "driver_names", "measured", "confidence")
"""Not handed down to a profile of another id."""
JOINED = ("notes", "sources")


@dataclass(slots=True)
class _Parts:
    """Merged values, and for each top-level field the file that it comes from."""

    values: dict[str, Any]
    owners: dict[str, Path]
    files: list[Path] = field(default_factory=list)


def assemble(path: Path, layers: Sequence[Layer]) -> Profile:
    """Read a file and everything that it builds on.

    Raises:
        ProfileError: A file is broken, names an unknown field or profile, extends itself in a circle, or a value
            leaves its range; the message names file, field and rule.
    """
    return _checked(_with_architecture(_read(path, layers, ())), path)


def made_on_the_spot(values: dict[str, Any]) -> Profile:
    """Fill a profile from its architecture's facts; rates per second follow from rates per clock, SMs and clock."""
    parts = _with_architecture(_Parts(dict(values), {}))
    parts.values.setdefault("architecture", "unknown")
    origins = parts.values.setdefault("origins", {})
    clock, sms = parts.values.get("boost_clock_hz"), parts.values.get("num_sms")
    if clock and sms:
        for unit in ("matrix", "vector"):
            per_clk = parts.values.get(f"{unit}_flops_per_clk_per_sm", {})
            parts.values[f"{unit}_flops_per_s"] = {dtype: rate * clock * sms for dtype, rate in per_clk.items()}
            origins[f"{unit}_flops_per_s"] = "derived"
        parts.values["matrix_clock_hz"] = clock
    return _checked(parts, Path("made on the spot"))


def _checked(parts: _Parts, path: Path) -> Profile:
    parts.values["files"] = tuple(str(p) for p in parts.files)
    try:
        return Profile(**parts.values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        owner = parts.owners.get(str(first["loc"][0]), path)
        rule = first["msg"].removeprefix("Value error, ").replace("valid tuple", "list").replace("dictionary", "table")
        if name == "architecture" and first["type"] == "missing":
            rule = _no_architecture(parts.values.get("arch_target"))
        if first["type"] == "extra_forbidden":
            rule = f"unknown field{suggestion(str(first['loc'][-1]), (*Features.model_fields, *Measured.model_fields))}"
        raise ProfileError(f"{owner}: {name}: {rule}") from None


def _no_architecture(target: object) -> str:
    if target is None:
        return 'give arch_target, or architecture = "..." for a family that has no file of facts'
    known = ", ".join(sorted(p.stem for p in (DATA / "architectures").glob("*.toml")))
    return f'there are no facts on arch_target {target!r}: take one of {known}, or give architecture = "..." yourself'


def profile_id(path: Path, values: dict[str, Any]) -> str:
    """Id of the profile in a file: its `id`, else the file's name."""
    return str(values.get("id", path.stem))


def file_of(wanted: str, layers: Sequence[Layer]) -> Path | None:
    """The strongest file that holds a profile with this id."""
    for layer in reversed(layers):
        for path in layer.paths:
            if path.stem != wanted and layer.kind != "user":
                continue
            if layer.kind == "shipped" or profile_id(path, read_toml(path)) == wanted:
                return path
    return None


def _read(path: Path, layers: Sequence[Layer], seen: tuple[Path, ...]) -> _Parts:
    if path in seen:
        raise ProfileError(f"{path}: extends: goes round in a circle: {' -> '.join(p.name for p in (*seen, path))}")
    values = read_toml(path)
    _reject_unknown_fields(path, values)
    own_id = profile_id(path, values)
    parent = values.pop("extends", None)
    unset = values.pop("unset", [])
    if not isinstance(unset, list) or not all(name in Profile.model_fields for name in unset):
        raise ProfileError(f"{path}: unset: {unset!r} must be a list of field names")
    values["id"] = own_id
    if _is_users(path, layers):
        origins = values.setdefault("origins", {})
        for name in _value_names(values):
            origins.setdefault(name, "user")
    own = _Parts(values, dict.fromkeys(values, path), [path])
    if parent is None:
        return own
    base = _parent(path, str(parent), own_id, layers, seen)
    if base.values["id"] != own_id:
        for name in OF_ONE_DEVICE:
            base.values.pop(name, None)
    for name in unset:
        base.values.pop(name, None)
    return _over(base, own)


def _parent(path: Path, parent: str, own_id: str, layers: Sequence[Layer], seen: tuple[Path, ...]) -> _Parts:
    below = layers
    if parent == own_id:
        own_layer = next((i for i, layer in enumerate(layers) if path in layer.paths), len(layers))
        below = layers[:own_layer]
    found = file_of(parent, below)
    if found is None:
        known = [p.stem for layer in below for p in layer.paths]
        hint = suggestion(parent, known)
        if parent == own_id and path.stem == parent and file_of(parent, layers) == path:
            hint = "; it names itself"
        raise ProfileError(f"{path}: extends: no profile has the id {parent!r}{hint}")
    return _read(found, below, (*seen, path))


def _with_architecture(parts: _Parts) -> _Parts:
    target = parts.values.get("arch_target")
    if not isinstance(target, str) or "/" in target:
        return parts
    path = DATA / "architectures" / f"{target}.toml"
    if not path.is_file():
        return parts
    facts = read_toml(path)
    _reject_unknown_fields(path, facts)
    return _over(_Parts(facts, dict.fromkeys(facts, path), [path]), parts)


def _over(base: _Parts, top: _Parts) -> _Parts:
    """Lay one set of values over another: tables key by key, notes and sources joined, the rest replaced."""
    merged = dict(base.values)
    origins = dict(base.values.get("origins", {}))
    for name in _value_names(top.values):
        origins.pop(name, None)
    for name, value in top.values.items():
        under = merged.get(name)
        if name == "origins":
            continue
        if name in JOINED and isinstance(under, list) and isinstance(value, list):
            merged[name] = [*value, *(item for item in under if item not in value)]
        elif name != "measured" and isinstance(under, dict) and isinstance(value, dict):
            merged[name] = under | value
        else:
            merged[name] = value
    merged["origins"] = origins | top.values.get("origins", {})
    return _Parts(merged, base.owners | top.owners, [*top.files, *base.files])


def _value_names(values: dict[str, Any]) -> list[str]:
    """Names as `origins` spells them: `num_sms`, `matrix_flops_per_s.bf16`."""
    described = {"id", "name", "vendor", "kind", "architecture", "arch_target", "compute_capability", "unit", "sm_kind"}
    described |= {"aliases", "driver_names", "features", "measured", "measured_by_others", "origins", "unconfirmed"}
    described |= {"notes", "sources", "confidence", *DIRECTIVES}
    names = []
    for name, value in values.items():
        if name not in described:
            names += [f"{name}.{key}" for key in value] if isinstance(value, dict) else [name]
    return names


def _is_users(path: Path, layers: Sequence[Layer]) -> bool:
    return not any(path in layer.paths for layer in layers if layer.kind not in ("user", "beside"))


def _reject_unknown_fields(path: Path, values: dict[str, Any]) -> None:
    known = [*Profile.model_fields, *DIRECTIVES]
    for name in values:
        if name not in known or name == "files":
            raise ProfileError(f"{path}: {name}: unknown field{suggestion(name, known)}")
