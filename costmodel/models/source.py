"""Reading a config.json as plain, bounded, unambiguous JSON."""

import json
from pathlib import Path
from typing import Any

from costmodel.errors import ConfigError

MAX_BYTES = 16 << 20
"""No published config.json comes near; 16 MiB keeps a mistaken file from filling memory."""
MAX_DEPTH = 64

GGUF_MAGIC = b"GGUF"
SAFETENSORS_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx")


def find_config(path: str | Path) -> Path:
    """Give the config.json that `path` names: the file itself, or the one in the folder.

    Raises:
        ConfigError: There is none; the message says what to give instead.
    """
    if "\0" in str(path) or not str(path):
        raise ConfigError(f"{str(path)!r} is not a path; give a Hugging Face config.json or the folder that holds it")
    target = Path(path)
    try:
        if target.is_dir():
            inside = target / "config.json"
            if inside.is_file():
                return inside
            if any(target.glob("*.gguf")):
                raise ConfigError(_gguf(target))
            raise ConfigError(f"{target} holds no config.json; give the model's Hugging Face config.json or its folder")
        if target.exists() and not target.is_file():
            raise ConfigError(f"{target} is neither a file nor a folder; give a Hugging Face config.json")
        if not target.is_file():
            raise ConfigError(f"{target} does not exist; give a Hugging Face config.json or the folder that holds it")
    except OSError as error:
        raise ConfigError(f"{target} cannot be opened: {error.strerror or error}") from None
    return target


def read_object(path: Path) -> dict[str, Any]:
    """Read one JSON object from a file.

    Raises:
        ConfigError: The file is too large, is no JSON object, repeats a key, nests too deeply or holds NaN.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ConfigError(
                f"{path} has {size / 2**20:.0f} MiB; a config.json has a few KiB (limit {MAX_BYTES >> 20} MiB)"
            )
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None
    if data[:4] == GGUF_MAGIC:
        raise ConfigError(_gguf(path))
    if path.suffix.lower() in SAFETENSORS_SUFFIXES:
        raise ConfigError(f"{path} holds weights; give the config.json beside it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text; give a Hugging Face config.json") from None
    return parse_object(text, str(path))


def parse_object(text: str, where: str) -> dict[str, Any]:
    """Parse one JSON object.

    Args:
        text: The JSON text.
        where: What the messages call it.

    Raises:
        ConfigError: See `read_object`.
    """
    _check_depth(text, where)
    try:
        value = json.loads(
            text, object_pairs_hook=lambda pairs: _unique(pairs, where), parse_constant=lambda c: _constant(c, where)
        )
    except json.JSONDecodeError as error:
        raise ConfigError(f"{where} is not valid JSON: {error.msg} at line {error.lineno}; is it truncated?") from None
    except RecursionError:
        raise ConfigError(f"{where} nests deeper than {MAX_DEPTH} levels") from None
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{where} holds a number that cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{where} holds a JSON {type(value).__name__}, not an object; give the model's config.json")
    return value


def _unique(pairs: list[tuple[str, Any]], where: str) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ConfigError(f"{where} gives {', '.join(map(repr, repeated[:3]))} more than once; keep one of them")
    return result


def _constant(name: str, where: str) -> float:
    if name == "NaN":
        raise ConfigError(f"{where} holds NaN, which is no number; replace it by a number or null")
    return float(name.replace("Infinity", "inf"))


def _check_depth(text: str, where: str) -> None:
    depth, in_string, escaped = 0, False, False
    for char in text:
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ConfigError(f"{where} nests deeper than {MAX_DEPTH} levels")
        elif char in "]}":
            depth -= 1


def _gguf(path: Path) -> str:
    return f"{path} is a GGUF file; give the config.json of the Hugging Face model it was converted from"
