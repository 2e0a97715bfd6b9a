"""Typed access to a configuration's fields under all the names they go by; every error names field, value and rule."""

from collections.abc import Mapping, Sequence
from typing import Any

from costmodel.errors import ConfigError

MAX_COUNT = 1 << 31
MAX_LAYERS = 4096


class Fields:
    """One JSON object of a configuration, remembering which of its fields were read."""

    def __init__(self, data: Mapping[str, Any], where: str, defaults: Mapping[str, Any] | None = None) -> None:
        self.data = data
        self.where = where
        self._defaults = defaults or {}
        self.seen: set[str] = set()
        self.assumed: dict[str, Any] = {}
        """Fields that the file leaves out, taken from the model class."""
        self.remarks: list[str] = []
        """What a reader of the file should know."""

    def raw(self, *names: str) -> Any:
        """The first of `names` that is present and not null; the class default where all are absent; else None."""
        self.seen.update(names)
        for name in names:
            value = self.data.get(name)
            if value is not None:
                return value
        if any(name in self.data for name in names):
            return None
        for name in names:
            if name in self._defaults:
                self.assumed[name] = self._defaults[name]
                return self._defaults[name]
        return None

    def present(self, *names: str) -> str | None:
        """The first of `names` that the file itself sets to something other than null."""
        return next((name for name in names if self.data.get(name) is not None), None)

    def count(self, *names: str, low: int = 1, high: int = MAX_COUNT) -> int | None:
        """A whole number under any of `names`.

        Raises:
            ConfigError: It is no whole number from `low` to `high`.
        """
        value = self.raw(*names)
        return None if value is None else self.checked(self.present(*names) or names[0], value, low, high)

    def require(self, *names: str, low: int = 1, high: int = MAX_COUNT) -> int:
        """A whole number that has to be there.

        Raises:
            ConfigError: It is missing or out of range.
        """
        value = self.count(*names, low=low, high=high)
        if value is None:
            raise self.error(f"has no {names[0]}" + (f" (nor {', '.join(names[1:])})" if names[1:] else ""))
        return value

    def number(self, *names: str) -> float | None:
        """A positive, finite number under any of `names`; 0 counts as absent."""
        value = self.raw(*names)
        if value is None or value is False or value == 0:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
            raise self.error(f"{names[0]}={short(value)} must be a positive number")
        return float(value)

    def flag(self, name: str, default: bool | None = None) -> bool | None:
        """A true/false field."""
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, (bool, int)):
            raise self.error(f"{name}={short(value)} must be true or false")
        return bool(value)

    def text(self, *names: str) -> str | None:
        """A string field; other types count as absent."""
        value = self.raw(*names)
        return value if isinstance(value, str) else None

    def items(self, *names: str) -> list[Any] | None:
        """A list field.

        Raises:
            ConfigError: It is no list, or longer than any model.
        """
        value = self.raw(*names)
        if value is None:
            return None
        name = self.present(*names) or names[0]
        if not isinstance(value, (list, tuple)):
            raise self.error(f"{name}={short(value)} must be a list")
        if len(value) > 4 * MAX_LAYERS:
            raise self.error(f"{name} has {len(value)} entries; at most {4 * MAX_LAYERS}")
        return list(value)

    def counts(self, *names: str, low: int = 0, high: int = MAX_COUNT) -> list[int] | None:
        """A list of whole numbers."""
        values = self.items(*names)
        name = self.present(*names) or names[0]
        return None if values is None else [self.checked(name, v, low, high) for v in values]

    def part(self, name: str) -> "Fields | None":
        """A nested object as fields of its own; None where absent or no object."""
        value = self.raw(name)
        return Fields(value, f"{self.where}: {name}") if isinstance(value, dict) else None

    def checked(self, name: str, value: Any, low: int, high: int) -> int:
        """Check one whole number.

        Raises:
            ConfigError: It is none, or out of range.
        """
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(f"{name}={short(value)} must be a whole number")
        if not low <= value <= high:
            raise self.error(f"{name}={short(value)} must be from {low} to {high}")
        return value

    def per_layer(self, name: str, values: Sequence[Any], layers: int) -> list[Any]:
        """Give one entry for each layer; entries beyond the last layer belong to prediction heads and are dropped.

        Raises:
            ConfigError: There are fewer entries than layers.
        """
        if len(values) < layers:
            raise self.error(f"{name} has {len(values)} entries for {layers} layers")
        return list(values[:layers])

    def error(self, message: str) -> ConfigError:
        """An error that says where."""
        return ConfigError(f"{self.where}: {message}")


def short(value: Any) -> str:
    """Give a value as text of at most 60 characters, for messages."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
