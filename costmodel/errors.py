"""Errors that the cost model raises; each carries what a caller needs to act on it."""

from collections.abc import Iterable
from difflib import get_close_matches


class Incompatible(Exception):
    """The backend's library call cannot run this workload on this device."""

    def __init__(self, backend: str, reasons: Iterable[str]) -> None:
        self.backend = backend
        self.reasons: tuple[str, ...] = tuple(reasons)
        super().__init__(f"{backend}: {'; '.join(self.reasons)}")


class UnknownBackend(ValueError):
    """No backend of that name; the message lists the nearest."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        names = sorted(known)
        near = get_close_matches(name, names, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(names)}"
        super().__init__(f"unknown backend {name!r}; {hint}")


class ConfigError(ValueError):
    """A model's config.json cannot be read as an attention configuration."""
