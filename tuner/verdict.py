"""Which candidate wins: the fastest one, if it is faster than the default by more than the measured noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from executors.outcome import Candidate
from tuner.noise import Timing, beats, gain, timing, unsteady

Times = Mapping[str, tuple[float, ...]]
"""Candidate key to its repeats, seconds, in the order they were taken."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The winner among measured candidates."""

    best: Candidate
    runner_up: Candidate | None
    gain: Timing | None
    """Time of the winner over that of the default; None where either was not measured or they are the same."""
    unsteady: str | None
    """Why the times do not describe one state of the device, in words."""


def decide(candidates: Sequence[Candidate], default: Candidate | None, times: Times) -> Verdict | None:
    """Choose the winner.

    Candidates that cannot be told apart from the fastest are tied; of these the first in the order of the space wins,
    which puts defaults before other knobs, and the default itself before all.

    Args:
        candidates: Those that may win, in the order of the space.
        default: What runs when nothing is tuned.
        times: Repeats of the measured ones.

    Returns:
        The verdict, or None where nothing was measured.
    """
    measured = sorted((c for c in candidates if times.get(c.key)), key=lambda c: timing(times[c.key]).seconds)
    if not measured:
        return None
    fastest = measured[0]
    best = _break_tie(candidates, default, fastest, times)
    others = [c for c in measured if c.key != best.key]
    ratio = None
    if default is not None and times.get(default.key) and best.key != default.key:
        ratio = gain(times[best.key], times[default.key])
    states = [unsteady(times[c.key]) for c in (best, *([default] if default else [])) if times.get(c.key)]
    return Verdict(best, others[0] if others else None, ratio, next((s for s in states if s), None))


def undecided(
    candidates: Sequence[Candidate], default: Candidate, times: Times, groups: Mapping[str, str]
) -> list[Candidate]:
    """Candidates that have to be measured again, together, before the verdict is clear; empty where it is.

    Args:
        candidates: Those that may win.
        default: What runs when nothing is tuned.
        times: Repeats by candidate.
        groups: Candidate to the group it was measured in; the device may have changed between groups, so a winner
            counts only against a default of the same group.
    """
    measured = [c for c in candidates if times.get(c.key)]
    if len(measured) < 2 or default.key not in {c.key for c in measured}:
        return []
    fastest = min(measured, key=lambda c: timing(times[c.key]).seconds)
    if fastest.key == default.key:
        return []
    ratio = gain(times[fastest.key], times[default.key])
    together = groups.get(fastest.key) == groups.get(default.key)
    if together and 1 - ratio.seconds > 3 * ratio.error:
        return []
    rivals = [c for c in measured if not beats(times[fastest.key], times[c.key]) and c.key != default.key]
    return [default, *sorted(rivals, key=lambda c: timing(times[c.key]).seconds)[:3]]


def _break_tie(
    candidates: Sequence[Candidate], default: Candidate | None, fastest: Candidate, times: Times
) -> Candidate:
    reference = times.get(default.key) if default is not None else None
    if default is not None and reference and not beats(times[fastest.key], reference):
        return default
    for candidate in candidates:
        own = times.get(candidate.key)
        if own and not beats(times[fastest.key], own) and (not reference or beats(own, reference)):
            return candidate
    return fastest
