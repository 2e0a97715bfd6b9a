"""Where profile files lie: shipped devices, shipped measurements, the user's own files, calibrations made here."""

import os
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hwprofiles.errors import ProfileError

DATA = Path(__file__).parent / "data"
ENVIRONMENT_VARIABLE = "ATTNROOF_PROFILES"
MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Layer:
    """Files of one origin; a later layer overrides an earlier one."""

    kind: str
    """`shipped`, `measured`, `user`, `calibrated`, or `beside` a file that was given by its path."""
    paths: tuple[Path, ...]


def layers() -> tuple[Layer, ...]:
    """Profile files from the weakest layer to the strongest.

    Raises:
        ProfileError: The environment variable names something that does not exist.
    """
    return (
        Layer("shipped", _toml_files(DATA / "devices")),
        Layer("measured", _toml_files(DATA / "measured")),
        Layer("user", tuple(dict.fromkeys(_user_files()))),
        Layer("calibrated", _toml_files(calibrated_folder())),
    )


def calibrated_folder() -> Path:
    """Folder of the calibrations made on this machine (it need not exist)."""
    return cache_home() / "attnroof" / "profiles"


def cache_home() -> Path:
    """The user's cache folder; one among the temporary files for a user without a home, as in some containers."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"cache-{os.getuid()}"


def calibrated_here(files: Iterable[str]) -> bool:
    """Whether one of a profile's files was written by a calibration on this machine, not shipped as an example."""
    return any(Path(file).parent == calibrated_folder() for file in files)


def read_toml(path: Path) -> dict[str, Any]:
    """Read one file.

    Raises:
        ProfileError: It is missing, unreadable or not TOML; the message names it.
    """
    return deepcopy(_shipped(path)) if path.is_relative_to(DATA) else _parsed(path)


@cache
def _shipped(path: Path) -> dict[str, Any]:
    return _parsed(path)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ProfileError(f"{path}: has {size / 2**20:.0f} MiB; a profile has a few KiB")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProfileError(f"{path}: not valid TOML: {error}") from None
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read: {error.strerror}") from None
    except ProfileError:
        raise
    except ValueError as error:
        raise ProfileError(f"{path}: holds a number that cannot be read: {error}") from None


def _toml_files(folder: Path) -> tuple[Path, ...]:
    try:
        with os.scandir(folder) as entries:
            return tuple(sorted(Path(entry.path) for entry in entries if entry.name.endswith(".toml")))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise ProfileError(f"{folder}: cannot be read: {error.strerror}") from None


def _user_files() -> Iterator[Path]:
    for part in os.environ.get(ENVIRONMENT_VARIABLE, "").split(os.pathsep):
        if not part:
            continue
        path = Path(part).expanduser()
        if path.is_dir():
            yield from _toml_files(path)
        elif path.is_file():
            yield path
        else:
            raise ProfileError(f"{ENVIRONMENT_VARIABLE} names {part!r}, which is neither a file nor a folder")
