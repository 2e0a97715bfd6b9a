"""Whether the packages that a backend needs are installed in a version it accepts."""

import re
from collections.abc import Mapping

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9_.\-]+)\s*(?P<operator>>=|==)?\s*(?P<version>[\w.]+)?")


def package_reasons(required: tuple[str, ...], installed: Mapping[str, str] | None) -> tuple[str, ...]:
    """Say which required packages are missing or too old; nothing where the installed ones are not known."""
    if installed is None:
        return ()
    have = {_normal(name): version for name, version in installed.items()}
    return tuple(reason for text in required for reason in _check(text, have))


def _check(requirement: str, have: Mapping[str, str]) -> list[str]:
    match = _REQUIREMENT.match(requirement)
    if match is None:
        return []
    version = have.get(_normal(match["name"]))
    if version is None:
        return [f"package {match['name']} is not installed; install {requirement}"]
    if match["version"] and _numbers(version) < _numbers(match["version"]):
        return [f"package {match['name']} {version} is older than {match['version']}; install {requirement}"]
    return []


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version.split("+")[0])[:4])
