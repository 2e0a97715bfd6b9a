"""How many prompts prefill together, and when each of them gets its first token."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

TAIL = 6.0
"""Standard deviations above the mean that are looked at."""


@dataclass(frozen=True, slots=True)
class PrefillTime:
    """Seconds of prefilling prompts one after the other in chunks: a floor a chunk and a slope a prompt."""

    floor: float
    each: float
    chunks: float
    """Chunks that one prompt fills."""

    @classmethod
    def through(cls, alone: float, together: float, prompts: int, chunks: float) -> "PrefillTime":
        """Lay a line through the times of one prompt and of `prompts` prompts that share one chunk.

        Args:
            alone: Seconds of one prompt.
            together: Seconds of `prompts` prompts.
            prompts: 1 where no two fit a chunk; then there is no floor to tell apart.
            chunks: Chunks that one prompt fills.
        """
        if prompts < 2:
            return cls(0.0, alone, chunks)
        each = min(alone, max(0.0, (together - alone) / (prompts - 1)))
        return cls(alone - each, each, chunks)

    def of(self, prompts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Seconds until so many prompts, whole or not, are prefilled."""
        return np.asarray(self.floor * np.ceil(np.round(prompts * self.chunks, 9)) + self.each * prompts)

    def share(self, others: float) -> float:
        """Seconds of one prompt where `others` on average wait with it; those that fit share the floor of a chunk."""
        together = max(1.0, min(1.0 + others, 1.0 / self.chunks))
        return self.floor / together + self.each if self.floor else self.each

    def first_token(self, prompts: int) -> float:
        """Mean seconds to the first token of prompts that arrive together: each waits for the end of its last chunk."""
        index = np.arange(1, prompts + 1, dtype=np.float64)
        ends = np.minimum(np.ceil(np.round(index * self.chunks, 9)) / self.chunks, prompts)
        return float(self.of(ends).mean())


@lru_cache(maxsize=256)
def finishing(running: int, steps: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Give how many of `running` requests end in one decode step, each after `steps` steps and independently.

    Returns:
        Numbers, and the chance of each; not to be written to.
    """
    share = 1.0 / max(1, steps)
    mean = running * share
    most = min(running, math.ceil(mean + TAIL * math.sqrt(mean) + TAIL))
    least = max(0, math.floor(mean - TAIL * math.sqrt(mean) - TAIL)) if share < 1 else running
    numbers = np.arange(least, most + 1)
    logs = [_log_chance(int(number), running, share) for number in numbers]
    chances = np.exp(np.array(logs))
    return numbers, chances / chances.sum()


def _log_chance(number: int, of: int, share: float) -> float:
    if share >= 1:
        return 0.0 if number == of else -math.inf
    ways = math.lgamma(of + 1) - math.lgamma(number + 1) - math.lgamma(of - number + 1)
    return ways + number * math.log(share) + (of - number) * math.log1p(-share)


def mean_prefill(time: PrefillTime, running: int, steps: int) -> float:
    """Mean prefill seconds a request, over what ends and is replaced in one decode step."""
    numbers, chances = finishing(running, steps)
    return float((chances * time.of(numbers.astype(np.float64))).sum() / (chances * numbers).sum())


def mean_first_token(time: PrefillTime, running: int, steps: int) -> float:
    """Mean seconds to the first token where a new request takes the place of each that ended.

    The request that is looked at ended; the others end in the same step by chance.
    """
    numbers, chances = finishing(running - 1, steps)
    return sum(
        float(chance) * time.first_token(int(number) + 1)
        for number, chance in zip(numbers, chances, strict=True)
        if chance > 1e-6
    )


def first_token_at(time: PrefillTime, rate: float, waits: float, busy: float) -> float:
    """Mean seconds to the first token of prompts that arrive by chance, `rate` a second.

    Prompts that fit a chunk together wait for the step under way and prefill with all that arrived in it. Where no two
    do they queue: half of a decode step, then the work of those in front (Pollaczek and Khinchine, equal prompts).

    Args:
        time: Of prefills.
        rate: Prompts a second.
        waits: Seconds of a decode step, times the chance that one is under way when nothing prefills.
        busy: Share of time in prefill.
    """
    each = time.share(rate * waits)
    if not time.floor:
        return each + waits / 2 + busy * each / (2 * (1 - busy))
    prefill = each * (1 + rate * waits)
    in_decode = waits / 2 + each * (1 + rate * waits)
    in_prefill = prefill / 2 + each * (1 + rate * prefill)
    return (1 - busy) * in_decode + busy * in_prefill


def left_behind(time: PrefillTime, first: float, busy: float) -> float:
    """Seconds of prefill that wait when a request got its first token, and go before its second one.

    They arrived while it waited and was prefilled, or, where prompts share chunks, while it was prefilled.
    """
    return busy * (time.floor + time.each if time.floor else first)
