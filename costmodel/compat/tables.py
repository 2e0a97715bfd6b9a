"""The rule tables as shipped: one file per backend, rules shared by many, names and aliases by SGLang version."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from costmodel.compat.rules import Rule, RuleError, read_rule
from costmodel.compat.versions import CURRENT, Version, in_range, parse_version


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

    def find(self, name: str) -> BackendTable:
        """Give a backend's table, following no alias."""
        return self.backends.get(name) or self.extra[name]


@cache
def load_tables(version: str = CURRENT) -> Tables:
    """Read the tables for one SGLang version.

    Raises:
        ConfigError: The version is no release number.
    """
    release = parse_version(version)
    names = _toml("names.toml")
    shared = _toml("shared.toml").get("rule", [])
    aliases = {a.name: a for a in (_alias(entry) for entry in names["alias"] if in_range(release, entry["versions"]))}
    known = {entry["name"] for entry in names["name"]}
    tables = {name: _table(name, release, aliases.get(name), shared) for name in sorted(known)}
    beyond = {entry["name"]: entry for entry in names["name"] if entry.get("extra")}
    return Tables(
        version,
        {n: t for n, t in tables.items() if n not in beyond},
        {n: tables[n] for n, entry in beyond.items() if in_range(release, entry.get("versions", ""))},
        tuple(read_rule(entry, "shared.toml") for entry in _toml("shared.toml").get("auto_kv", [])),
    )


@cache
def backend_names() -> tuple[str, ...]:
    """The 24 documented names, sorted."""
    return tuple(sorted(load_tables().backends))


def _alias(entry: Mapping[str, Any]) -> Alias:
    target = entry["target"]
    return Alias(
        entry["name"], target, entry.get("extend_target", target), entry["reason"], dict(entry.get("settings", {}))
    )


def _table(name: str, release: Version, alias: Alias | None, shared: list[Mapping[str, Any]]) -> BackendTable:
    own = _toml(f"backends/{alias.target if alias else name}.toml")
    resolved = own["name"]
    entries = [(entry, f"{resolved}.toml") for entry in own.get("rule", [])]
    entries += [(entry, "shared.toml") for entry in shared if _concerns(entry, resolved)]
    rules = tuple(read_rule(entry, where) for entry, where in entries if in_range(release, entry.get("versions", "")))
    return BackendTable(
        name, own["what"], alias, rules, tuple(own.get("packages", ())), in_range(release, own["versions"])
    )


def _concerns(entry: Mapping[str, Any], backend: str) -> bool:
    if "backends" in entry and "except" in entry:
        raise RuleError("shared.toml: a rule names either backends or except")
    return backend in entry["backends"] if "backends" in entry else backend not in entry.get("except", ())


@cache
def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads(files("costmodel.compat").joinpath(f"data/{name}").read_text("utf-8"))
