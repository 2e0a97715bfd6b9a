"""The rule tables as shipped: one file per backend, rules shared by many, names and aliases by SGLang version."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from costmodel.compat.rules import Rule, RuleError, read_rule
from costmodel.compat.versions import CURRENT, Version, check_covered, in_range, parse_version


@dataclass(frozen=True, slots=True)
class Alias:
    """A name that SGLang turns into another."""

    name: str
    target: str
    extend_target: str
    """What the prefill flag becomes."""
    reason: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BackendTable:
    """What is known about one backend under one SGLang version."""

    name: str
    what: str
    """What runs behind the name."""
    alias: Alias | None
    rules: tuple[Rule, ...]
    packages: tuple[str, ...]
    held: bool
    """Whether the table was read for this SGLang version."""


@dataclass(frozen=True, slots=True)
class Tables:
    """All backends under one SGLang version."""

    version: str
    backends: Mapping[str, BackendTable]
    """The 24 documented names."""
    extra: Mapping[str, BackendTable]
    """Names beyond them."""
    auto_kv: tuple[Rule, ...] = ()
    """Where `--kv-cache-dtype auto` is not the checkpoint's own dtype; the first that holds counts."""


@cache
def load_tables(version: str = CURRENT) -> Tables:
    """Read the tables for one SGLang version.

    Raises:
        ConfigError: The version is no release number, or older than the tables.
    """
    check_covered(version)
    release = parse_version(version)
    entries = {entry["name"]: entry for entry in _toml("names.toml")["name"]}
    documented = sorted(name for name, entry in entries.items() if not entry.get("extra"))
    beyond = [n for n, entry in entries.items() if entry.get("extra") and in_range(release, entry.get("versions", ""))]
    return Tables(
        version,
        {name: load_backend(name, version) for name in documented},
        {name: load_backend(name, version) for name in beyond},
        tuple(read_rule(entry, "shared.toml") for entry in _toml("shared.toml")["auto_kv"]),
    )


@cache
def load_backend(name: str, version: str = CURRENT) -> BackendTable:
    """Read one backend's table.

    Args:
        name: One of the names in names.toml.
        version: SGLang version.

    Raises:
        ConfigError: The version is no release number.
    """
    release = parse_version(version)
    alias = _aliases(release).get(name)
    own = _toml(f"backends/{alias.target if alias else name}.toml")
    rules = [read_rule(e, f"{own['name']}.toml") for e in own["rule"] if in_range(release, e.get("versions", ""))]
    rules += [rule for rule, concerns in _shared(release) if concerns(own["name"])]
    packages = tuple(own.get("packages", ()))
    return BackendTable(name, own["what"], alias, tuple(rules), packages, in_range(release, own["versions"]))


@cache
def backend_names() -> tuple[str, ...]:
    """The 24 documented names, sorted."""
    return tuple(sorted(entry["name"] for entry in _toml("names.toml")["name"] if not entry.get("extra")))


@cache
def _aliases(release: Version) -> dict[str, Alias]:
    found: dict[str, Alias] = {}
    for entry in _toml("names.toml")["alias"]:
        if in_range(release, entry["versions"]):
            extend = entry.get("extend_target", entry["target"])
            settings = dict(entry.get("settings", {}))
            found[entry["name"]] = Alias(entry["name"], entry["target"], extend, entry["reason"], settings)
    return found


@cache
def _shared(release: Version) -> tuple[tuple[Rule, Callable[[str], bool]], ...]:
    return tuple(
        (read_rule(entry, "shared.toml"), _concern(entry))
        for entry in _toml("shared.toml")["rule"]
        if in_range(release, entry.get("versions", ""))
    )


def _concern(entry: Mapping[str, Any]) -> Callable[[str], bool]:
    """Which backends a shared rule is about."""
    if "backends" in entry and "except" in entry:
        raise RuleError("shared.toml: a rule names either backends or except")
    named = frozenset(entry.get("backends", entry.get("except", ())))
    return named.__contains__ if "backends" in entry else lambda backend: backend not in named


@cache
def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads(files("costmodel.compat").joinpath(f"data/{name}").read_text("utf-8"))
