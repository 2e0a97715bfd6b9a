"""Streams of requests: Poisson, gamma, or a fixed number in the system; the same seed gives the same stream."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

from costmodel.serving.request import Request

SMALLEST_CV, LARGEST_CV = 0.001, 1000.0
"""Outside, gamma gaps are even or all in one, and their parameters leave what floats hold."""


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
        self._fresh = concurrency
        self._due: deque[float] = deque()
        self._next = next(requests, None)

    def next_time(self) -> float | None:
        """When the next request arrives; None at the end or while all are in the system."""
        if self._next is None or not (self._fresh or self._due):
            return None
        return 0.0 if self._fresh else self._due[0]

    def take(self) -> Request:
        """Take it.

        Raises:
            ValueError: There is none now.
        """
        request = self._next
        if request is None or not (self._fresh or self._due):
            raise ValueError("there is no further request now")
        self._next = next(self._requests, None)
        if self._fresh:
            self._fresh -= 1
            return replace(request, arrival=0.0)
        return replace(request, arrival=self._due.popleft())

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
    if rate is not None:
        check_gaps(rate, cv)
    return _draw(lengths, count, Random(seed), rate, cv)


def respaced(requests: Iterator[Request], rate: float, cv: float, seed: int) -> Iterator[Request]:
    """Give requests new arrivals instead of their own; arguments as of `synthetic`.

    Raises:
        ValueError: A value is out of range.
    """
    check_gaps(rate, cv)
    return _respaced(requests, rate, cv, Random(seed))


def check_gaps(rate: float, cv: float) -> None:
    """Check what gaps between arrivals are drawn from.

    Raises:
        ValueError: A value is out of range.
    """
    if not 0 < rate < float("inf"):
        raise ValueError(f"rate={rate} must be positive and finite")
    if cv != 0 and not SMALLEST_CV <= cv <= LARGEST_CV:
        raise ValueError(f"cv={cv} must be 0, for even gaps, or from {SMALLEST_CV} to {LARGEST_CV:g}")


def _draw(lengths: Lengths, count: int, random: Random, rate: float | None, cv: float) -> Iterator[Request]:
    now = 0.0
    for _ in range(count):
        yield lengths.draw(random, now)
        if rate is not None:
            now += _gap(random, rate, cv)


def _respaced(requests: Iterator[Request], rate: float, cv: float, random: Random) -> Iterator[Request]:
    now = 0.0
    for request in requests:
        yield replace(request, arrival=now)
        now += _gap(random, rate, cv)


def _gap(random: Random, rate: float, cv: float) -> float:
    return 1.0 / rate if cv == 0 else random.gammavariate(1 / cv**2, cv**2 / rate)
