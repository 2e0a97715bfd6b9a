"""A steady load: equal requests that arrive at a rate, or so many at a time."""

from dataclasses import dataclass

MAX_LENGTH = 1 << 24


@dataclass(frozen=True, slots=True)
class Load:
    """Requests of one length, either `concurrency` in the system at all times or `rate` a second.

    Raises:
        ValueError: A value is out of range, or not exactly one of concurrency and rate is given.
    """

    isl: int
    """Input tokens of a request."""
    osl: int
    """Output tokens of a request, the first one included."""
    concurrency: int | None = None
    rate: float | None = None
    """Requests a second."""
    cached: int = 0
    """Input tokens that the prefix cache already holds."""

    def __post_init__(self) -> None:
        """Check every field."""
        for name in ("isl", "osl"):
            if not 1 <= getattr(self, name) <= MAX_LENGTH:
                raise ValueError(f"{name}={getattr(self, name)} must be from 1 to {MAX_LENGTH}")
        if (self.concurrency is None) == (self.rate is None):
            raise ValueError("give concurrency or rate, one of them")
        if self.concurrency is not None and self.concurrency < 1:
            raise ValueError(f"concurrency={self.concurrency} must be at least 1")
        if self.rate is not None and not 0 < self.rate < float("inf"):
            raise ValueError(f"rate={self.rate} must be positive and finite")
        if not 0 <= self.cached < self.isl:
            raise ValueError(f"cached={self.cached} must be from 0 to isl - 1 = {self.isl - 1}")

    @property
    def length(self) -> int:
        """Tokens of a finished request."""
        return self.isl + self.osl

    @property
    def mean_kv_len(self) -> int:
        """Tokens that a decoding request holds on average."""
        return self.isl + max(1, self.osl // 2)
