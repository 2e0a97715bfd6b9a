"""Does a saved configuration still hold here: measure its rows again and say what moved beyond the noise."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from executors.measurer import Measurer
from executors.outcome import Failed, Measured, Outcome, Rejected
from hwprofiles import Profile
from tuner.configuration import Configuration, ConfigurationError
from tuner.noise import beats, gain, timing, unsteady
from tuner.row import Choice, Row
from tuner.versions import device_differences, same_implementation

Finding = Literal["holds", "lost", "moved", "unsteady", "gone", "not_measured"]
"""`unsteady`: the times changed, but the machine was busy or in two states, so that they say nothing."""
DRIFT = 0.02
"""Change from the saved latency that is reported even where both noises are smaller: clocks differ between days."""


@dataclass(frozen=True, slots=True)
class Checked:
    """One row, measured again."""

    row: Row
    finding: Finding
    now_us: dict[str, float]
    """Candidate key to what it takes now."""
    text: str
    """What was found, in words."""


def check_device(configuration: Configuration, measurer: Measurer) -> None:
    """See that the configuration is of this device.

    Raises:
        ConfigurationError: It is of another one.
    """
    device = measurer.environment().recorded()
    differences = device_differences(configuration.device, device)
    if differences:
        raise ConfigurationError(
            f"the configuration is of {configuration.device.name}, this device is {device.name} "
            f"({'; '.join(differences)}): validate it where it was made, or tune here"
        )


def sample_rows(configuration: Configuration, count: int | None, seed: int) -> list[Row]:
    """Choose rows to check: all, or a sample that every phase has a part in."""
    rows = [row for row in configuration.rows if row.best.measured_us is not None]
    if count is None or count >= len(rows):
        return rows
    draw = random.Random(seed)
    by_phase: dict[str, list[Row]] = {}
    for row in draw.sample(rows, len(rows)):
        by_phase.setdefault(row.phase, []).append(row)
    chosen: list[Row] = []
    while len(chosen) < count:
        for waiting in by_phase.values():
            if waiting and len(chosen) < count:
                chosen.append(waiting.pop())
    return chosen


def validate_row(
    configuration: Configuration, row: Row, measurer: Measurer, profile: Profile, *, seed: int = 0, repeats: int = 9
) -> Checked:
    """Measure a row's winner beside its default and runner-up, and judge it."""
    attention, batch = configuration.to_attention(), row.batch(configuration.page_size)
    rivals = _different([row.best, row.sglang_default, row.runner_up])
    outcomes = measurer.measure(attention, batch, [c.candidate for c in rivals], seed=seed, repeats=repeats)
    return judge(row, rivals, outcomes, measurer.implementation_of(row.best.candidate, attention, batch))


def judge(
    row: Row, rivals: Sequence[Choice], outcomes: Mapping[str, Outcome], implementation: tuple[str, str] | None
) -> Checked:
    """Compare what was saved with what came out now."""
    best = row.best.candidate
    now = {c.candidate.key: o for c in rivals if isinstance(o := outcomes.get(c.candidate.key), Measured)}
    now_us = {key: 1e6 * timing(o.seconds).seconds for key, o in now.items()}
    upgraded = _upgraded(row.best, implementation)
    own = outcomes.get(best.key)
    if not isinstance(own, Measured):
        return Checked(row, "gone" if own is not None else "not_measured", now_us, f"{best.key}: {_why(own)}{upgraded}")
    disturbed = _disturbed(now)
    faster = [key for key, o in now.items() if key != best.key and beats(o.seconds, own.seconds)]
    if faster:
        key = min(faster, key=now_us.__getitem__)
        ratio = gain(now[key].seconds, own.seconds)
        text = f"{key} is now {100 * (1 - ratio.seconds):.1f} % faster than {best.key} (+- {100 * ratio.error:.1f} %)"
        return Checked(row, "unsteady" if disturbed else "lost", now_us, text + upgraded + disturbed)
    change = now_us[best.key] / (row.best.measured_us or now_us[best.key]) - 1
    limit = max(DRIFT, timing(own.seconds).noise + (row.noise or 0.0))
    if abs(change) > limit:
        text = f"{best.key} still wins, its time moved by {100 * change:+.1f} %"
        return Checked(row, "unsteady" if disturbed else "moved", now_us, text + upgraded + disturbed)
    return Checked(row, "holds", now_us, f"{best.key} holds ({100 * change:+.1f} %){upgraded}")


def _disturbed(now: Mapping[str, Measured]) -> str:
    """Why the times do not describe the device by itself, as the end of a sentence; empty where they do."""
    reasons = [o.conditions.busy for o in now.values() if o.conditions.busy]
    reasons += [f"{key} was unsteady: {why}" for key, o in now.items() if (why := unsteady(o.seconds))]
    return f"; but {reasons[0]}: validate again when nothing else runs" if reasons else ""


def _different(choices: Sequence[Choice | None]) -> list[Choice]:
    return list({c.candidate.key: c for c in choices if c is not None}.values())


def _upgraded(choice: Choice, now: tuple[str, str] | None) -> str:
    old = (choice.implementation, choice.implementation_version)
    if now is None or same_implementation(old, now):
        return ""
    return f"; it was tuned with {' '.join(old)}, here is {' '.join(now)}"


def _why(outcome: Outcome | None) -> str:
    match outcome:
        case Rejected(reasons=reasons):
            return f"does not run any more: {'; '.join(reasons)}"
        case Failed(kind=kind, message=message):
            return f"{kind}: {message}"
        case _:
            return "was not measured"
