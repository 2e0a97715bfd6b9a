"""SGLang releases as comparable numbers, and ranges of them as data files write them."""

import re
import tomllib
from importlib.resources import files

from costmodel.errors import ConfigError

_RELEASES = tomllib.loads(files("costmodel.compat").joinpath("data/names.toml").read_text("utf-8"))["releases"]

CURRENT: str = _RELEASES["read_from"]
"""The release that the tables were read from."""
OLDEST: str = _RELEASES["oldest"]
"""The oldest release that the tables were compared with."""

Version = tuple[int, ...]

_CLAUSE = re.compile(r"(>=|<=|<|>|==)\s*(\d+(?:\.\d+)*)")
_RELEASE = re.compile(r"v?(\d+(?:\.\d+){1,3})(?:[.\-+]?(?:post|rc|dev)?\d*)?", re.ASCII)


def parse_version(text: str) -> Version:
    """Give a release's numbers.

    Raises:
        ConfigError: It is no release number.
    """
    match = _RELEASE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"SGLang version {text!r} is not a release number such as {CURRENT}")
    return tuple(int(part) for part in match[1].split("."))


def check_covered(text: str) -> None:
    """Check that the tables say something about a release.

    Raises:
        ConfigError: It is no release number, or older than the tables.
    """
    if parse_version(text) < parse_version(OLDEST):
        raise ConfigError(f"SGLang {text} is older than these tables, which hold from {OLDEST} to {CURRENT}")


def in_range(version: Version, clauses: str) -> bool:
    """Whether a release lies in a range such as `>=0.5.20,<0.5.23`; an empty range holds all."""
    return all(_holds(version, clause) for clause in clauses.split(",") if clause.strip())


def _holds(version: Version, clause: str) -> bool:
    match = _CLAUSE.fullmatch(clause.strip())
    if match is None:
        raise ValueError(f"version range {clause!r} is not one of >=, <=, <, >, == with a release number")
    bound = tuple(int(part) for part in match[2].split("."))
    width = max(len(version), len(bound))
    left, right = (v + (0,) * (width - len(v)) for v in (version, bound))
    return {">=": left >= right, "<=": left <= right, "<": left < right, ">": left > right, "==": left == right}[
        match[1]
    ]
