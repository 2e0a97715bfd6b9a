"""The rule tables, one per SGLang version, read once from `data/`."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from costmodel.sglang.rules import Rule, read_rules
from costmodel.sglang.version import version_key


@dataclass(frozen=True, slots=True)
class Tables:
    """Names and rules of one SGLang version."""

    sglang: str
    choices: tuple[str, ...]
    """Values of `--attention-backend`, in SGLang's order."""
    aliases: Mapping[str, str]
    """Old name to the name it stands for."""
    architectures: Mapping[str, str]
    """model_type to the architecture that SGLang serves it as, whatever config.json says."""
    draft_choices: tuple[str, ...]
    deterministic: tuple[str, ...]
    deterministic_radix: tuple[str, ...]
    kv_cache_dtypes: tuple[str, ...]
    registry: tuple[str, ...]
    """Names that have a constructor."""
    overridden: tuple[str, ...]
    """Architectures for which SGLang has defaults of its own, attention or not."""
    lists: Mapping[str, frozenset[str]]
    """Named sets that rules refer to."""
    rules: tuple[Rule, ...]


_DATA = files("costmodel.sglang") / "data"


@lru_cache(maxsize=1)
def supported_versions() -> tuple[str, ...]:
    """List the SGLang versions with rules of their own, oldest first."""
    names = (f.name for f in _DATA.iterdir() if f.name.startswith("sglang-") and f.name.endswith(".toml"))
    return tuple(sorted((n.removeprefix("sglang-").removesuffix(".toml") for n in names), key=version_key))


def latest_version() -> str:
    """Name the newest SGLang version with rules of its own."""
    return supported_versions()[-1]


def nearest_version(sglang: str) -> str:
    """Name the newest version with rules of its own that is not newer than `sglang`, or the oldest.

    Raises:
        ValueError: `sglang` is not a version.
    """
    older = [v for v in supported_versions() if version_key(v) <= version_key(sglang)]
    return older[-1] if older else supported_versions()[0]


def sglang_aliases(sglang: str | None = None) -> Mapping[str, str]:
    """Give the backend names of a version that stand for others, such as `nsa` for `dsa`.

    A version without tables of its own has the names of the nearest older one, or of the oldest.
    """
    if sglang is None:
        return load_tables().aliases
    return load_tables(nearest_version(sglang)).aliases


@lru_cache(maxsize=4)
def load_tables(sglang: str | None = None) -> Tables:
    """Read the tables of a version.

    Args:
        sglang: A version with tables of its own; None means the newest.

    Raises:
        ValueError: There are no tables for this version; the message lists those there are.
    """
    version = latest_version() if sglang is None else sglang
    if version not in supported_versions():
        raise ValueError(f"no rules for SGLang {version}; there are rules for {', '.join(supported_versions())}")
    raw = _read(version)
    lists = {name: frozenset(values) for name, values in raw["lists"].items()}
    lists |= {key.upper(): frozenset(raw[key]) for key in ("deterministic", "deterministic_radix", "registry")}
    return Tables(
        sglang=raw["sglang"],
        choices=tuple(raw["choices"]),
        aliases=raw["aliases"],
        architectures=raw["architectures"],
        draft_choices=tuple(raw["draft_choices"]),
        deterministic=tuple(raw["deterministic"]),
        deterministic_radix=tuple(raw["deterministic_radix"]),
        kv_cache_dtypes=tuple(raw["kv_cache_dtypes"]),
        registry=tuple(raw["registry"]),
        overridden=tuple(name for name in raw["overridden"] if name not in raw.get("not_overridden", ())),
        lists=lists,
        rules=read_rules(raw["rules"], version),
    )


@lru_cache(maxsize=4)
def load_flags(sglang: str) -> list[dict[str, Any]]:
    """Read the launch options of a version: names, arity, type and choices."""
    raw: dict[str, Any] = json.loads((_DATA / f"flags-{sglang}.json").read_text(encoding="utf-8"))
    flags: list[dict[str, Any]] = raw["flags"]
    if "extends" not in raw:
        return flags
    replaced = {name for flag in flags for name in flag["flags"]} | set(raw["without"])
    return [flag for flag in load_flags(raw["extends"]) if not replaced & set(flag["flags"])] + flags


def _read(sglang: str) -> dict[str, Any]:
    """Read a version's table file over the one that it extends."""
    raw: dict[str, Any] = tomllib.loads((_DATA / f"sglang-{sglang}.toml").read_text(encoding="utf-8"))
    return {**_read(raw["extends"]), **raw} if "extends" in raw else raw
