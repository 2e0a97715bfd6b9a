"""Timing of candidates that passed their check: rounds in random order, so that drift cannot pick the winner."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from executors.conditions import Disturbance, Probe, combine, is_held_down, rest
from executors.failures import DeviceLost, describe, device_is_lost, text_of
from executors.outcome import Accuracy, Conditions, Outcome
from executors.sampler import Sample, Sampler
from executors.settings import Settings, Watcher
from executors.stack import measure_stack

MIN_SAMPLES = 3
"""Samples that even a passed deadline leaves to each candidate, so that a spread can be stated."""
EXTRA_ROUNDS = 2
"""Interrupted samples are taken again in at most this many times the rounds asked for ..."""
QUIET_SHARE = 0.5
"""... and only while at least this part of a round is undisturbed: a machine that is always busy is not waited for."""


@dataclass(slots=True)
class Runner:
    """A candidate that passed its check, and its samples so far."""

    key: str
    sampler: Sampler
    accuracy: Accuracy
    compile_seconds: float
    eager_seconds: float | None
    plan_seconds: float | None
    layers: int = 1
    """Layers of the step to time as a whole; 1 leaves that out."""
    samples: list[Sample] = field(default_factory=list)
    sustained_seconds: float | None = None
    step_seconds: float | None = None

    def take(self) -> None:
        """Take one sample."""
        self.samples.append(self.sampler.sample())

    def sustain(self, duration: float) -> None:
        """Run alone for `duration` seconds."""
        self.sustained_seconds = self.sampler.sustained_seconds(duration)

    def step(self) -> None:
        """Time a whole step of the batch's layers."""
        self.step_seconds = measure_stack(self.sampler.prepared, self.sampler.inputs).step_seconds

    def clean(self) -> list[Sample]:
        """Samples that nothing interrupted."""
        return [s for s in self.samples if not s.disturbed]

    def seconds(self, repeats: int) -> tuple[float, ...]:
        """Latency samples to report: undisturbed ones, filled up with the fastest disturbed ones where too few."""
        clean = [s.seconds for s in self.clean()]
        rest = sorted(s.seconds for s in self.samples if s.disturbed)
        return tuple(clean + rest[: max(0, repeats - len(clean))])

    def conditions(self, repeats: int, others: str | None) -> Conditions:
        """Summarise the state of the device, and say whether the machine was busy."""
        missing = repeats - len(self.clean())
        disturbance = Disturbance(len(self.samples) - len(self.clean()), len(self.samples)) if missing > 0 else None
        busy = "; ".join(text for text in (others, disturbance and disturbance.words()) if text)
        return combine([s.conditions for s in self.samples], busy or None)


def interleave(runners: Sequence[Runner], device: str, settings: Settings, watcher: Watcher) -> dict[str, Outcome]:
    """Take every runner's samples.

    Returns:
        Key to outcome of those that failed on the way.

    Raises:
        DeviceLost: A candidate destroyed the CUDA context.
    """
    order = random.Random(settings.seed)
    failed: dict[str, Outcome] = {}

    def attempt(runner: Runner, work: Callable[[Runner], None]) -> None:
        watcher.began(runner.key)
        try:
            work(runner)
        except Exception as error:
            if device_is_lost(device):
                raise DeviceLost(runner.key, text_of(error)) from error
            failed[runner.key] = describe(error)

    probe = Probe(device)
    boost = probe.boost_clock_hz()
    for turn in range(settings.repeats * (1 + EXTRA_ROUNDS)):
        due = [r for r in runners if r.key not in failed and len(r.clean()) < settings.repeats]
        if not due or (settings.passed and turn >= min(MIN_SAMPLES, settings.repeats)):
            break
        order.shuffle(due)
        for runner in due:
            attempt(runner, Runner.take)
        taken = [r.samples[-1] for r in due if r.key not in failed]
        if not settings.passed and any(is_held_down(s.conditions, boost) for s in taken):
            rest(probe.read, boost, time.sleep)
        quiet = sum(not s.disturbed for s in taken) >= QUIET_SHARE * len(taken)
        if turn + 1 >= settings.repeats and not quiet:
            break
    if settings.sustained_seconds:
        for runner in [r for r in runners if r.key not in failed]:
            attempt(runner, lambda r: r.sustain(settings.sustained_seconds))
    for runner in [r for r in runners if r.key not in failed and r.layers > 1]:
        attempt(runner, Runner.step)
    return failed


def others_on(device: str) -> str | None:
    """Say who else computes on the device, or None."""
    return Probe(device).others()
