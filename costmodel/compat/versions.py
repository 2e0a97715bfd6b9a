"""SGLang releases as comparable numbers, and ranges of them as data files write them."""

import re

from costmodel.errors import ConfigError

CURRENT = "0.5.23"
"""The release that the tables were read from."""

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
