"""Which choice to take and why: SGLang's default, unless a measured one is better beyond the intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from costmodel.serving.choice import Choice
from costmodel.serving.choices import Pair
from costmodel.serving.layers import ORDER
from costmodel.serving.service import Rates, Service

Goal = Literal["ttft", "tpot", "throughput"]
GOALS: dict[Goal, str] = {"ttft": "TTFT", "tpot": "TPOT", "throughput": "throughput"}
WORTH_HAVING = 0.01
"""Smallest relative gain that is called one."""
MEASURE_FIRST = "measure before you use it"


@dataclass(frozen=True, slots=True)
class Missing:
    """A default that has no prediction."""

    own: Pair | str
    """What SGLang takes by itself, or why it refuses."""
    why: str
    """Why it cannot be predicted."""


def decide(
    goal: Goal, choices: Sequence[Choice], default: Choice | None, missing: Missing | None = None
) -> tuple[Choice, str]:
    """Say which choice to take and why: the default, unless a measured one is better beyond the intervals.

    Args:
        goal: What counts.
        choices: Best first, whatever the evidence; at least one.
        default: SGLang's own.
        missing: What is known about the default where there is none.
    """
    first, supported = choices[0], supported_first(choices)[0]
    if default is None:
        return supported, _without_default(supported, missing or Missing("", ""))
    name = f"SGLang's default {default.name}"
    if default.missed and not supported.missed:
        misses = f"{name} misses the SLO ({'; '.join(default.missed)}); {supported.name} is predicted to keep it"
        if supported.measured:
            return supported, misses
        return default, f"{misses}, but nobody measured its attention: keep the default or {MEASURE_FIRST}"
    keeping = [c for c in choices if len(c.missed) <= len(default.missed)]
    known = [c for c in keeping if c.measured] if default.measured else []
    certain = [c for c in known if better_by(goal, c.service, default.service)[1]]
    if certain:
        winner = min(_as_good(goal, certain), key=lambda choice: _doubt(choice, default))
        gain = better_by(goal, winner.service, default.service)[0]
        by = f"{100 * gain:.1f} % in {GOALS[goal]}"
        return winner, f"{winner.name} beats {name} by {by}, beyond the intervals of attention{_ahead(first, winner)}"
    gain = better_by(goal, first.service, default.service)[0]
    if gain < WORTH_HAVING:
        return default, f"keep {name}: no pair is predicted to be worth having over it in {GOALS[goal]}"
    predicted = (
        f"no difference worth having is certain: {first.name} is predicted {100 * gain:.1f} % better in {GOALS[goal]} "
        f"than {name}"
    )
    if first.measured and default.measured:
        return default, f"{predicted}, within the intervals of attention; keep the default or measure"
    whose = "its" if default.measured else "the default's" if first.measured else "either's"
    return default, f"{predicted}, but nobody measured {whose} attention; keep the default or measure"


def _without_default(best: Choice, missing: Missing) -> str:
    if isinstance(missing.own, Pair):
        return (
            f"keep SGLang's default {missing.own.name} or measure: it cannot be predicted here ({missing.why}); of the "
            f"pairs that can, {best.name} is predicted to be best"
        )
    text = f"SGLang has no choice of its own here ({missing.own}); {best.name} is predicted to be best"
    return text if best.measured else f"{text}, which rests on structure alone: {MEASURE_FIRST}"


def _ahead(first: Choice, winner: Choice) -> str:
    """Mention a pair in front of the winner that only structure supports."""
    unmeasured = first.name != winner.name and not first.measured
    return f" ({first.name} is predicted faster still, but nobody measured its attention)" if unmeasured else ""


def _as_good(goal: Goal, choices: Sequence[Choice]) -> list[Choice]:
    """Keep the choices that the first one does not beat beyond the intervals."""
    return [choice for choice in choices if not better_by(goal, choices[0].service, choice.service)[1]]


def _doubt(choice: Choice, default: Choice) -> tuple[int, int]:
    """Give what speaks against a choice among equals: weak evidence, then every backend that differs from SGLang's."""
    changed = (choice.pair.prefill != default.pair.prefill) + (choice.pair.decode != default.pair.decode)
    return ORDER.index(choice.service.evidence), changed


def metric(goal: Goal) -> Callable[[Rates], float]:
    """Give what a goal minimizes."""
    return {
        "ttft": lambda rates: rates.ttft_seconds,
        "tpot": lambda rates: rates.tpot_seconds,
        "throughput": lambda rates: 1.0 / rates.tokens_per_s,
    }[goal]


def order(goal: Goal, rates: Rates) -> tuple[float, float]:
    """Give what choices are sorted by: the goal to nine digits, then the time per token, as a fixed rate ties them."""
    return float(f"{metric(goal)(rates):.9g}"), rates.tpot_seconds


def better_by(goal: Goal, ours: Service, theirs: Service) -> tuple[float, bool]:
    """Give the relative gain of one service over another, and whether it is beyond the intervals of attention."""
    value = metric(goal)
    gain = value(theirs.rates) / value(ours.rates) - 1.0
    certain = value(ours.slow_attention) < value(theirs.fast_attention)
    return gain, certain and gain >= WORTH_HAVING


def supported_first(choices: Sequence[Choice]) -> list[Choice]:
    """Put choices without any measurement behind their attention after those that miss as few limits of the SLO."""
    return sorted(choices, key=lambda choice: (len(choice.missed), not choice.measured))
