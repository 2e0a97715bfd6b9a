"""How a group of candidates is measured, and who is told about it."""

import time
from dataclasses import dataclass
from typing import Protocol

from executors.outcome import Outcome

REFERENCE_SECONDS = {"cpu": 2.0, "cuda": 0.15}
"""Default limit of the reference by kind of device."""
INPUTS_STAGE = "inputs"
"""What `Watcher.began` is told while inputs and reference are made."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to measure a group.

    Raises:
        ValueError: A field is out of range.
    """

    seed: int = 0
    repeats: int = 7
    deadline: float | None = None
    """`time.monotonic()` after which no further candidate is begun."""
    reference_seconds: float | None = None
    """Estimated time that the reference may take; beyond it only a sample of rows is checked. None: by device."""
    sustained_seconds: float = 0.0
    """How long each candidate runs alone to see its sustained time; 0 leaves that out."""

    def __post_init__(self) -> None:
        """Check the fields."""
        if self.repeats < 1:
            raise ValueError(f"repeats={self.repeats} must be at least 1")
        if self.reference_seconds is not None and self.reference_seconds <= 0:
            raise ValueError(f"reference_seconds={self.reference_seconds} must be positive")
        if self.sustained_seconds < 0:
            raise ValueError(f"sustained_seconds={self.sustained_seconds} must not be negative")

    def reference_limit(self, device: str) -> float:
        """The reference's time limit on a device, in seconds."""
        return self.reference_seconds or REFERENCE_SECONDS[device.partition(":")[0]]

    @property
    def passed(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline


class Watcher(Protocol):
    """Is told what runs, so that a crash or a hang has a name."""

    def began(self, key: str) -> None:
        """A candidate (or the inputs) is about to touch the device."""
        ...

    def ended(self, key: str, outcome: Outcome) -> None:
        """A candidate has its outcome."""
        ...


class Silent:
    """A watcher that ignores everything."""

    def began(self, key: str) -> None:
        """Ignore."""

    def ended(self, key: str, outcome: Outcome) -> None:
        """Ignore."""
