"""What arrives at a server."""

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Request:
    """One request.

    Raises:
        ValueError: A value is out of range.
    """

    arrival: float
    """Seconds since the start."""
    isl: int
    """Input tokens."""
    osl: int
    """Output tokens."""
    cached: int = 0
    """Input tokens that a prefix cache is known to hold."""
    blocks: tuple[int, ...] = ()
    """Ids of the prompt's blocks; equal ids are equal text with equal text before it."""

    def __post_init__(self) -> None:
        """Check every field."""
        if not 0 <= self.arrival < float("inf"):
            raise ValueError(f"arrival={self.arrival} must be a finite number of seconds from 0")
        if self.isl < 1 or self.osl < 1:
            raise ValueError(f"isl={self.isl} and osl={self.osl} must be at least 1")
        if not 0 <= self.cached < self.isl:
            raise ValueError(f"cached={self.cached} must be from 0 to isl - 1 = {self.isl - 1}")
