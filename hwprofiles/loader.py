"""Find a profile by id, driver name, alias or path."""

import re
from collections.abc import Sequence
from pathlib import Path

from hwprofiles.assemble import assemble, file_of, profile_id
from hwprofiles.errors import PartitionedDevice, ProfileError, UnknownProfile
from hwprofiles.library import Layer, layers, read_toml
from hwprofiles.names import joined, nearest, normalized, respelled
from hwprofiles.profile import Profile

_PARTITION = re.compile(
    r"(?P<whole>.*?)[\s_-]*"
    r"(?P<kind>(?<![a-z])MIG[\s_-]*\d+[gc][\w.+]*|vir\d+\w*|\(?(?<![a-z])[CDQT]PX\b\)?(?:[\s/_-]*NPS\d)?)(?: Device)?",
    re.IGNORECASE,
)
"""A MIG slice, an Ascend template or an AMD compute partition, as drivers and users spell them."""


def load_profile(name: str) -> Profile:
    """Load one profile.

    Args:
        name: Id, driver name or alias, in any case and with `_`, `-`, spaces or nothing between its words; the path
            of a `.toml` file; or `cpu`, the processor that this runs on.

    Raises:
        UnknownProfile: Nothing has this name; `nearest` lists the closest ones.
        PartitionedDevice: The name is that of a MIG slice or a partition.
        ProfileError: The file is broken, or several profiles claim the name.
    """
    where = layers()
    if name.endswith(".toml"):
        return _load_file(Path(name).expanduser().absolute(), where)
    if name.strip().lower() == "cpu":
        from hwprofiles.local import local_cpu

        return local_cpu()
    wanted = normalized(name)
    for layer in reversed(where):
        claims = _claims(wanted, layer)
        if len(claims) > 1:
            raise ProfileError(f"{name!r} is the name of several profiles, give an id: {', '.join(sorted(claims))}")
        if claims:
            return load_by_id(claims[0], where)
    _reject_partition(name)
    together = _spelt_together(name)
    if together is not None:
        return together
    raise UnknownProfile(name, nearest(name, _all_names()))


def _load_file(path: Path, where: Sequence[Layer]) -> Profile:
    """Load a file; what it extends may lie beside it."""
    if any(path in layer.paths for layer in where):
        return assemble(path, where)
    beside = tuple(p for p in sorted(path.parent.glob("*.toml")) if p.is_file())
    return assemble(path, (*where, Layer("beside", beside)))


def list_profiles(*, shipped_only: bool = False) -> tuple[Profile, ...]:
    """Load all profiles, ordered by id; the user's own and calibrated ones over the shipped ones.

    Args:
        shipped_only: Leave out what lies on this machine, and measurements; the same everywhere.
    """
    where = layers()[:1] if shipped_only else layers()
    ids = {p.stem if layer.kind == "shipped" else profile_id(p, read_toml(p)) for layer in where for p in layer.paths}
    return tuple(load_by_id(each, where) for each in sorted(ids))


def load_by_id(wanted: str, where: Sequence[Layer]) -> Profile:
    """Load the strongest profile of an id."""
    path = file_of(wanted, where)
    if path is None:
        raise UnknownProfile(wanted)
    return assemble(path, where)


def _claims(wanted: str, layer: Layer) -> list[str]:
    """Ids in a layer that go by a name.

    Only files whose text holds the name are parsed: fast, and no index that could go stale.
    """
    claims = []
    for path in layer.paths:
        if normalized(path.stem) != wanted and not _mentions(path, wanted):
            continue
        values = read_toml(path)
        own_id = profile_id(path, values)
        if wanted == normalized(own_id):
            return [own_id]
        if any(normalized(str(n)) == wanted for key in ("aliases", "driver_names") for n in values.get(key, ())):
            claims.append(own_id)
    return claims


def _mentions(path: Path, wanted: str) -> bool:
    return f'"{wanted}"' in respelled(path.read_text(encoding="utf-8"))


def _spelt_together(name: str) -> Profile | None:
    """The one profile with a name that differs by separators only: `rtx4090` for `rtx_4090`."""
    wanted = joined(name)
    found = [p for p in list_profiles() if wanted in {joined(n) for n in (p.id, *p.aliases, *p.driver_names)}]
    return found[0] if len(found) == 1 else None


def _all_names() -> list[str]:
    return [each for p in list_profiles() for each in (*p.aliases, p.id, *p.driver_names)]


def _reject_partition(name: str) -> None:
    match = _PARTITION.fullmatch(name.strip())
    if not match:
        return
    kind = match["kind"].strip("-() ")
    part = f"{kind} slice" if kind.upper().startswith("MIG") else f"{kind} partition"
    if not match["whole"]:
        raise UnknownProfile(name, hint=f"it is a {part}: name the whole device as well")
    try:
        whole = load_profile(match["whole"].strip())
    except UnknownProfile:
        return
    raise PartitionedDevice(name, whole.id, part)
