"""The rule tables, one per SGLang version, read once from `data/`."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from costmodel.sglang.rules import Rule, read_rules


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


def version_key(version: str) -> tuple[int, ...]:
    """Make a version comparable.

    Raises:
        ValueError: The text is not numbers joined by dots (a suffix such as `.post1` is ignored).
    """
    numbers = []
    for part in version.split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    if len(numbers) < 2:
        raise ValueError(f"sglang={version!r} is not a version such as {'0.5.23'!r}")
    return tuple(numbers)


def sglang_aliases(sglang: str | None = None) -> Mapping[str, str]:
    """Give the backend names of a version that stand for others, such as `nsa` for `dsa`."""
    aliases = load_tables().aliases
    if sglang is None or version_key(sglang) >= version_key("0.5.23"):
        return aliases
    return {old: new for old, new in aliases.items() if old != "tokenspeed_mla"}


@lru_cache(maxsize=4)
def load_tables(sglang: str | None = None) -> Tables:
    """Read the tables of a version.

    Args:
        sglang: A version with tables of its own; None means the newest.

    Raises:
        ValueError: There are no tables for this version; the message lists those there are.
    """
    version = sglang or latest_version()
    if version not in supported_versions():
        raise ValueError(f"no rules for SGLang {version}; there are rules for {', '.join(supported_versions())}")
    raw: dict[str, Any] = tomllib.loads((_DATA / f"sglang-{version}.toml").read_text(encoding="utf-8"))
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
        overridden=tuple(raw["overridden"]),
        lists=lists,
        rules=read_rules(raw["rules"]),
    )


@lru_cache(maxsize=4)
def load_flags(sglang: str) -> list[dict[str, Any]]:
    """Read the launch options of a version: names, arity, type and choices."""
    flags: list[dict[str, Any]] = json.loads((_DATA / f"flags-{sglang}.json").read_text(encoding="utf-8"))
    return flags
