"""Streams of requests: Poisson, gamma, or a fixed number in the system; the same seed gives the same stream."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Protocol

from costmodel.serving.request import Request


class Arrivals(Protocol):
    """Where a simulation gets its requests from, in order of arrival."""

    def next_time(self) -> float | None:
        """When the next request arrives; None at the end or until another request finishes."""

    def take(self) -> Request:
        """Take that request."""

    def finished(self, seconds: float) -> None:
        """Hear that a request finished."""


class OpenLoop:
    """Requests that arrive when they arrive, whatever the server does."""

    def __init__(self, requests: Iterator[Request]) -> None:
        self._requests = requests
        self._next = next(requests, None)

    def next_time(self) -> float | None:
        """When the next request arrives; None at the end."""
        return None if self._next is None else self._next.arrival

    def take(self) -> Request:
        """Take it.

        Raises:
            ValueError: The stream is not in order.
        """
        request = self._next
        if request is None:
            raise ValueError("there is no further request")
        self._next = next(self._requests, None)
        if self._next is not None and self._next.arrival < request.arrival:
            raise ValueError(f"requests are not in order: {self._next.arrival} s comes after {request.arrival} s")
        return request

    def finished(self, seconds: float) -> None:
        """Nothing depends on it."""


class ClosedLoop:
    """A fixed number of requests in the system: when one finishes the next arrives; their own times do not count."""

    def __init__(self, requests: Iterator[Request], concurrency: int) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency={concurrency} must be at least 1")
        self._requests = requests
        self._due = [0.0] * concurrency
        self._next = next(requests, None)

    def next_time(self) -> float | None:
        """When the next request arrives; None at the end or while all are in the system."""
        return self._due[0] if self._due and self._next is not None else None

    def take(self) -> Request:
        """Take it.

        Raises:
            ValueError: There is none now.
        """
        request = self._next
        if request is None or not self._due:
            raise ValueError("there is no further request now")
        self._next = next(self._requests, None)
        return Request(self._due.pop(0), request.isl, request.osl, request.cached, request.blocks)

    def finished(self, seconds: float) -> None:
        """Let the next request arrive."""
        self._due.append(seconds)


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths of synthetic requests, drawn evenly around their means.

    Raises:
        ValueError: A value is out of range.
    """

    isl: int
    osl: int
    spread: float = 0.0
    """Half-width of both, as a share of the mean."""
    cached_share: float = 0.0
    """Share of the input that the prefix cache holds."""

    def __post_init__(self) -> None:
        """Check every field."""
        if self.isl < 1 or self.osl < 1:
            raise ValueError(f"isl={self.isl} and osl={self.osl} must be at least 1")
        for name in ("spread", "cached_share"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be from 0 to below 1")

    def draw(self, random: Random, arrival: float) -> Request:
        """Draw one request."""
        isl, osl = self._around(random, self.isl), self._around(random, self.osl)
        return Request(arrival, isl, osl, min(isl - 1, int(isl * self.cached_share)))

    def _around(self, random: Random, mean: int) -> int:
        return mean if not self.spread else max(1, round(mean * (1 + self.spread * (2 * random.random() - 1))))


def synthetic(lengths: Lengths, count: int, seed: int, rate: float | None = None, cv: float = 1.0) -> Iterator[Request]:
    """Draw requests.

    Args:
        lengths: Of the requests.
        count: How many.
        seed: The same seed gives the same requests.
        rate: Requests a second; None for all at once, as a closed loop takes them.
        cv: Coefficient of variation of the gaps: 1 is Poisson, 0 evenly spaced, more is burstier (gamma).

    Raises:
        ValueError: A value is out of range.
    """
    if count < 1:
        raise ValueError(f"count={count} must be at least 1")
    if rate is not None and not 0 < rate < float("inf"):
        raise ValueError(f"rate={rate} must be positive and finite")
    if not 0 <= cv < float("inf"):
        raise ValueError(f"cv={cv} must be finite and at least 0")
    return _draw(lengths, count, Random(seed), rate, cv)


def _draw(lengths: Lengths, count: int, random: Random, rate: float | None, cv: float) -> Iterator[Request]:
    now = 0.0
    for _ in range(count):
        yield lengths.draw(random, now)
        if rate is not None:
            now += 1.0 / rate if cv == 0 else random.gammavariate(1 / cv**2, cv**2 / rate)
