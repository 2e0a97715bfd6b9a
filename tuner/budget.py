"""How much a search may still spend: trials and seconds are totals over all workloads."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

Clock = Callable[[], float]


@dataclass(slots=True)
class Budget:
    """Trials and seconds for a whole run, shared out evenly over the workloads still to come.

    Seconds are counted on a monotonic clock, which does not jump when the wall clock is set.

    Raises:
        ValueError: A limit is not positive.
    """

    trials: int | None = None
    seconds: float | None = None
    clock: Clock = time.monotonic
    used_trials: int = 0
    _start: float = field(default=0.0)

    def __post_init__(self) -> None:
        """Check the limits and start the clock."""
        if self.trials is not None and self.trials < 1:
            raise ValueError(f"trials={self.trials} must be at least 1")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise ValueError(f"budget_seconds={self.seconds} must be positive and finite")
        self._start = self.clock()

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return self.clock() - self._start

    @property
    def exhausted(self) -> bool:
        """Whether nothing may be run any more."""
        return self.trials_left == 0 or self.seconds_left <= 0

    @property
    def trials_left(self) -> float:
        """Trials that may still be run."""
        return math.inf if self.trials is None else max(0, self.trials - self.used_trials)

    @property
    def seconds_left(self) -> float:
        """Seconds that may still pass."""
        return math.inf if self.seconds is None else self.seconds - self.elapsed

    @property
    def until(self) -> float | None:
        """Time on the clock at which the seconds are used up; None without a limit."""
        return None if self.seconds is None else self._start + self.seconds

    def spend(self, trials: int) -> None:
        """Count trials that were run."""
        self.used_trials += trials

    def share(self, workloads_left: int) -> "Share":
        """Give one workload its even share of what is left."""
        n = max(1, workloads_left)
        trials = self.trials_left if math.isinf(self.trials_left) else math.ceil(self.trials_left / n)
        until = self.clock() + self.seconds_left / n
        return Share(self, self.used_trials + trials, until)


@dataclass(frozen=True, slots=True)
class Share:
    """One workload's part of the budget."""

    budget: Budget
    _trials_until: float
    _until: float

    @property
    def trials_left(self) -> float:
        """Trials that this workload may still run."""
        return max(0.0, min(self._trials_until - self.budget.used_trials, self.budget.trials_left))

    @property
    def seconds_left(self) -> float:
        """Seconds that this workload may still take."""
        return min(self._until - self.budget.clock(), self.budget.seconds_left)

    @property
    def exhausted(self) -> bool:
        """Whether this workload has used its part."""
        return self.trials_left < 1 or self.seconds_left <= 0

    @property
    def deadline(self) -> float | None:
        """`time.monotonic()` at which the part is used up; None without a limit."""
        return None if math.isinf(self._until) else self._until
