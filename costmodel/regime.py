"""Regimes: groups of calls whose errors are alike, each with its own interval."""

from costmodel.plan import Plan
from costmodel.timing import Timing

SHORT_SECONDS = 30e-6
"""Below this a call is mostly floor and start-up."""
OTHER_KERNELS = "kernel:other"
"""Compiled kernels that too little was measured of for an interval of their own."""


def regime_of(timing: Timing) -> str:
    """Name the regime of a call: short ones apart, the others by what takes most of the time."""
    if timing.seconds < SHORT_SECONDS:
        return "short"
    parts = {
        "latency": timing.floor + timing.latency + timing.merge + timing.overhead,
        "memory": timing.memory,
        "compute": timing.compute + timing.softmax,
    }
    return max(parts, key=lambda name: parts[name])


def regimes_of(timing: Timing, plan: Plan, phase: str) -> tuple[str, str, str]:
    """Name the groups that a call belongs to: what takes its time, which compiled kernel runs, and its phase."""
    return regime_of(timing), f"kernel:{plan.kernel}", f"phase:{phase}"
