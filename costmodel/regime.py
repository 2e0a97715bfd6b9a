"""Regimes: groups of calls whose errors are alike, each with its own interval."""

from costmodel.timing import Timing

SHORT_SECONDS = 30e-6
"""Below this a call is mostly floor and start-up."""


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
