"""The tuned configuration of one attention shape on one device: its schema, checksum, reading and atomic writing."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from costmodel import Attention
from costmodel.record import RecordedDevice
from tuner.between import Between
from tuner.filename import configuration_name
from tuner.row import Frozen, Row

SCHEMA_VERSION = 1
ANEW = "remove it and tune again, with --resume from what was measured"
"""What to do about a damaged file."""
TABLES = ("decode", "extend", "verify", "mixed")


class ConfigurationError(ValueError):
    """A configuration file cannot be used; the message says why and what to do."""


class Provenance(Frozen):
    """Where a configuration comes from."""

    tool: str
    """attnroof and its version."""
    created: str
    """UTC, ISO 8601."""
    command: str
    model: str | None = None
    model_config_json: dict[str, Any] = Field(default_factory=dict)
    """The model's config.json, so that a launch line can be checked where the model is not at hand."""
    profile: str | None = None
    """Id of the device's profile, or `cpu`."""
    tensor_parallel: int = 1
    layers: int | None = None
    """Layers of the model with this attention."""
    seed: int = 0
    source: str = "live"
    """`live`, `replay` or `simulated`."""
    torch: str | None = None
    cuda: str | None = None
    implementations: dict[str, tuple[str, str]] = Field(default_factory=dict)
    """Backend to implementation and version at the time."""
    sglang_version: str | None = None
    records: str | None = None
    """File of the records behind the rows."""
    rejected: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Backend to why it cannot run here."""
    notes: tuple[str, ...] = ()


class Configuration(Frozen):
    """Rows for one attention shape on one device."""

    schema_version: int = SCHEMA_VERSION
    device: RecordedDevice
    attention: dict[str, Any]
    page_size: int = Field(default=1, ge=1)
    """Tokens in one page of the KV cache, for all rows."""
    provenance: Provenance
    decode: dict[str, Row] = Field(default_factory=dict)
    extend: dict[str, Row] = Field(default_factory=dict)
    verify: dict[str, Row] = Field(default_factory=dict)
    mixed: dict[str, Row] = Field(default_factory=dict)
    between: dict[str, Between] = Field(default_factory=dict)
    """Winners between the rows, by phase."""
    superseded: tuple[Row, ...] = ()
    """Rows of other library versions whose place a newer row has taken."""

    def to_attention(self) -> Attention:
        """The attention shape."""
        return Attention(**self.attention)

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, table after table."""
        return tuple(row for name in TABLES for row in self.table(name).values())

    def table(self, phase: str) -> dict[str, Row]:
        """The rows of one phase by key."""
        table: dict[str, Row] = getattr(self, phase)
        return table

    @property
    def file_name(self) -> str:
        """The name under which it is saved."""
        return configuration_name(self.device, self.to_attention(), self.page_size)

    def with_rows(self, rows: Iterable[Row]) -> "Configuration":
        """Add rows; one for the same batch is replaced, and kept as superseded where its library was another."""
        tables = {name: dict(self.table(name)) for name in TABLES}
        superseded = list(self.superseded)
        for row in rows:
            old = tables[row.phase].get(row.key)
            if old is not None and old.versions.items() - row.versions.items():
                superseded.append(old)
            tables[row.phase][row.key] = row
        return self.model_copy(update={**tables, "superseded": tuple(superseded)})


def dumps(configuration: Configuration) -> str:
    """Write a configuration as JSON text with its checksum."""
    body = configuration.model_dump(mode="json", exclude_defaults=True)
    body = {"schema_version": configuration.schema_version, **body}
    return json.dumps({"checksum": _checksum(body), **body}, indent=1, ensure_ascii=False) + "\n"


def loads(text: str, name: str = "configuration") -> Configuration:
    """Read a configuration; its content counts, not its name.

    Raises:
        ConfigurationError: It is not JSON, not a configuration of this tool, of another schema, or was altered.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{name} is damaged: not JSON ({error}); {ANEW}") from None
    except RecursionError:
        raise ConfigurationError(f"{name} is damaged: nested too deeply; {ANEW}") from None
    except ValueError as error:
        raise ConfigurationError(f"{name} is damaged: {error}; {ANEW}") from None
    if not isinstance(data, dict) or "schema_version" not in data or "attention" not in data:
        raise ConfigurationError(f"{name} is not an attnroof configuration: no schema_version and attention in it")
    if data["schema_version"] != SCHEMA_VERSION:
        raise ConfigurationError(
            f"{name} has schema_version {data['schema_version']!r}; this attnroof reads {SCHEMA_VERSION}: "
            "tune again, or use the attnroof that wrote it"
        )
    checksum = data.pop("checksum", None)
    if checksum != _checksum(data):
        raise ConfigurationError(f"{name} is damaged: its checksum does not fit its content; {ANEW}")
    try:
        configuration = Configuration.model_validate(data)
        configuration.to_attention()
    except (ValidationError, ValueError, TypeError) as error:
        raise ConfigurationError(f"{name} does not follow the schema: {_brief(error)}") from None
    for table in TABLES:
        for key, row in configuration.table(table).items():
            if key != row.key or row.phase != table:
                raise ConfigurationError(
                    f"{name} does not follow the schema: {table}[{key!r}] holds {row.phase} {row.key}"
                )
    return configuration


def read(path: Path | str) -> Configuration:
    """Read a configuration file.

    Raises:
        ConfigurationError: The file is missing, unreadable, damaged or foreign.
    """
    return loads(read_text(path), str(path))


def read_text(path: Path | str) -> str:
    """Read a file as text.

    Raises:
        ConfigurationError: The file is missing, a folder, unreadable or not text.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError(f"no file {path}; `attnroof tune` makes one") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is damaged: not text") from None
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}") from None


def write(configuration: Configuration, folder: Path, name: str | None = None) -> Path:
    """Save a configuration: the file is complete or not there at all.

    Raises:
        ConfigurationError: The folder cannot be written.
    """
    path = folder / (name or configuration.file_name)
    write_atomically(path, dumps(configuration))
    return path


def write_atomically(path: Path, text: str) -> None:
    """Write a file by way of a temporary one in the same folder.

    Raises:
        ConfigurationError: The folder cannot be written or the disk is full.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, delete=False, encoding="utf-8", prefix=".attnroof-"
        ) as file:
            temporary = Path(file.name)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise ConfigurationError(f"cannot write {path}: {error.strerror or error}") from None


def _checksum(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _brief(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"{where}: {first['msg']}" + (
            f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        )
    return str(error)
