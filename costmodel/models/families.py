"""What a model class implies beyond its config.json, looked up by `model_type`."""

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

_CLASS_SUFFIX = re.compile(r"(For[A-Z]\w*|LMHeadModel|Model|Eagle3?|NextN)+$")
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True, slots=True)
class Family:
    """Facts of one model class; see data/families.toml for their meaning and sources."""

    name: str
    model_types: tuple[str, ...] = ()
    window_every: int | None = None
    window_by_flag: bool = False
    chunk_every: int | None = None
    linear_every: int | None = None
    sinks: bool = False
    soft_cap: float | None = None
    two_attentions: bool = False
    always_defaults: bool = False
    bf16_for_fp32: bool = False
    encoder: bool = False
    attention_free: bool = False
    parallel_linear: bool = False
    defaults: dict[str, Any] = field(default_factory=dict)


UNKNOWN = Family("")
"""No facts: every field has to be in the file."""


def find_family(model_type: str) -> Family:
    """Give the family of a model type; `UNKNOWN` where the table has none."""
    return _families().get(model_type, UNKNOWN)


def family_of_architecture(architecture: str) -> Family:
    """Give the family of a class name such as `GptOssForCausalLM`; `UNKNOWN` where the table has none."""
    stem = _CLASS_SUFFIX.sub("", architecture)
    return find_family(_WORD.sub("_", stem).lower())


def class_defaults(model_type: str, family: Family, nested: bool) -> dict[str, Any]:
    """Give what the class assumes for fields that are left out.

    Published files of composite models leave such fields out of their nested text configuration; at top level only
    the families that are known to do so get defaults.

    Args:
        model_type: The text configuration's own type.
        family: Its family.
        nested: Whether the configuration is nested in another.
    """
    if nested:
        return {**_toml("class_defaults.toml").get(model_type, {}), **family.defaults}
    return family.defaults if family.always_defaults else {}


@cache
def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads(files("costmodel.models").joinpath(f"data/{name}").read_text("utf-8"))


@cache
def _families() -> dict[str, Family]:
    table: dict[str, Family] = {}
    for name, facts in _toml("families.toml").items():
        family = Family(name, **{**facts, "model_types": tuple(facts["model_types"])})
        table.update(dict.fromkeys(family.model_types, family))
    return table
