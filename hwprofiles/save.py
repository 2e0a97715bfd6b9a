"""Write a calibrated profile as TOML."""

import json
import os
import re
from pathlib import Path
from typing import Any

from hwprofiles.assemble import file_of
from hwprofiles.library import calibrated_folder, layers
from hwprofiles.measured import Measured
from hwprofiles.profile import Profile


def calibrated_path(profile: Profile) -> Path:
    """Where this machine keeps the calibration of a profile; `load_profile` finds it there."""
    return calibrated_folder() / f"{profile.id}.toml"


def save_calibrated(profile: Profile, measured: Measured, path: Path) -> None:
    """Write what was measured over a profile, atomically.

    A profile from a file is extended; one made on the spot is written out whole. Where no datasheet tells the memory
    bandwidth, the measured read rate stands in for it.

    Raises:
        OSError: The file cannot be written.
    """
    values: dict[str, Any] = {"id": profile.id}
    if file_of(profile.id, [layer for layer in layers() if layer.kind != "calibrated"]):
        values["extends"] = profile.id
    else:
        values |= profile.model_dump(exclude_none=True, exclude_defaults=True, exclude={"measured", "files"})
    if profile.origin("memory_bytes_per_s") in (None, "measured") and measured.read_bytes_per_s:
        values["memory_bytes_per_s"] = measured.read_bytes_per_s
        values["origins"] = values.get("origins", {}) | {"memory_bytes_per_s": "measured"}
    values["measured"] = measured.model_dump(exclude_none=True, exclude_defaults=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(to_toml(values), encoding="utf-8")
    os.replace(unfinished, path)


def to_toml(values: dict[str, Any]) -> str:
    """Write nested tables of strings, numbers, booleans and lists as TOML."""
    return "\n".join(_table(values, "")) + "\n"


def _table(values: dict[str, Any], name: str) -> list[str]:
    lines = [f"{_key(key)} = {_value(value)}" for key, value in values.items() if not isinstance(value, dict)]
    for key, value in values.items():
        if isinstance(value, dict):
            full = f"{name}.{_key(key)}" if name else _key(key)
            lines += ["", f"[{full}]", *_table(value, full)]
    return lines


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)
