"""Sizes that a config.json states, by the names that models give them; what is missing is an error with its name."""

from collections.abc import Mapping
from typing import Any

from costmodel.errors import ConfigError
from costmodel.layer_group import Model

HIDDEN = ("hidden_size", "n_embd", "d_model", "model_dim")
LARGEST = 1 << 31
"""No size of a model is above it."""
VOCABULARY = ("vocab_size", "padded_vocab_size")


class Sizes:
    """The language model's part of a config.json, or an object inside it."""

    def __init__(self, model: Model, part: Mapping[str, Any] | None = None) -> None:
        self.model = model
        self.data: Mapping[str, Any] = part if part is not None else (model.text or model.raw)

    def inside(self, name: str) -> "Sizes":
        """Give an object of the file; an empty one where it is missing."""
        found = self.data.get(name)
        return Sizes(self.model, found if isinstance(found, dict) else {})

    def optional(self, *names: str) -> int | None:
        """Give the first of these that is a whole number, or a list of one number repeated."""
        for name in names:
            value = self.data.get(name)
            if isinstance(value, list) and value and all(entry == value[0] for entry in value):
                value = value[0]
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        return None

    def count(self, *names: str, usual: str | None = None) -> int:
        """Give the first of these.

        Args:
            names: In order of precedence.
            usual: The name that a message asks for; None is the first.

        Raises:
            ConfigError: None of them is a positive whole number of a possible size.
        """
        value = self.optional(*names)
        if value is not None and 1 <= value <= LARGEST:
            return value
        stated = next((name for name in names if self.data.get(name) is not None), None)
        if stated is not None:
            raise ConfigError(
                f"{self.model.name}: config.json's {stated}={self.data[stated]!r:.60} must be a whole number from 1 to "
                f"{LARGEST}; weights and step times follow from it"
            )
        asked = usual or names[0]
        others = ", ".join(name for name in names if name != asked)
        also = f" (nor {others})" if others else ""
        raise ConfigError(
            f"{self.model.name}: config.json has no {asked}{also}; without it weights and step times are unknown"
        )

    def flag(self, *names: str) -> bool:
        """Whether one of these is true."""
        return any(self.data.get(name) is True for name in names)

    @property
    def hidden(self) -> int:
        """Width of the residual stream."""
        return self.count(*HIDDEN)
