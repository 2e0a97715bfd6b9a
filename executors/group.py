"""One workload, many candidates: inputs and reference once, each candidate checked, then all timed interleaved."""

import statistics
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from costmodel import Attention, Batch
from executors.check import check, incorrect
from executors.compare import compare
from executors.failures import DeviceLost, describe, device_is_lost, text_of
from executors.interleave import Runner, interleave, others_on
from executors.outcome import Candidate, Failed, Measured, Outcome
from executors.registry import get_backend
from executors.sampler import make_sampler
from executors.settings import INPUTS_STAGE, Settings, Silent, Watcher
from executors.setup import Setup, set_up

if TYPE_CHECKING:
    from executors.base import Prepared


def measure_group(
    attention: Attention,
    batch: Batch,
    candidates: Sequence[Candidate],
    device: str = "cpu",
    settings: Settings | None = None,
    watcher: Watcher | None = None,
) -> dict[str, Outcome]:
    """Measure the candidates of one workload in this process.

    Args:
        attention: The layer.
        batch: The requests.
        candidates: What to run; each is prepared and checked against the reference, then all are timed in turn.
        device: `cpu` or `cuda:<index>`.
        settings: Seed, repeats, limits.
        watcher: Is told what begins and ends.

    Returns:
        `Candidate.key` to outcome; candidates that the deadline left out are missing.

    Raises:
        DeviceLost: A candidate destroyed the CUDA context; nothing more can run in this process.
    """
    return Bench(device).measure(attention, batch, candidates, settings, watcher)


class Bench:
    """A device with the last workload set up on it, which the next group uses again where it has the same."""

    def __init__(self, device: str = "cpu") -> None:
        self._device = device
        self._kept: tuple[object, Setup] | None = None

    def measure(
        self,
        attention: Attention,
        batch: Batch,
        candidates: Sequence[Candidate],
        settings: Settings | None = None,
        watcher: Watcher | None = None,
    ) -> dict[str, Outcome]:
        """Measure one group, as `measure_group` does."""
        import torch

        settings, watcher = settings or Settings(), watcher or Silent()
        with torch.no_grad(), _on(self._device):
            watcher.began(INPUTS_STAGE)
            try:
                setup = self._set_up(attention, batch, settings)
            except Exception as error:
                if device_is_lost(self._device):
                    raise DeviceLost(INPUTS_STAGE, text_of(error)) from error
                outcomes = {c.key: describe(error) for c in candidates}
                for key, outcome in outcomes.items():
                    watcher.ended(key, outcome)
                return outcomes
            outcomes = _Group(self._device, settings, watcher).measure(setup, candidates)
        if any(isinstance(outcome, Failed) for outcome in outcomes.values()):
            self._kept = None
        return outcomes

    def _set_up(self, attention: Attention, batch: Batch, settings: Settings) -> Setup:
        """Keep at most one workload; one that a failed candidate may have written to is not kept."""
        limit = settings.reference_limit(self._device)
        key = (attention, batch, settings.seed, limit)
        if self._kept is None or self._kept[0] != key:
            self._kept = None
            self._kept = (key, set_up(attention, batch, self._device, seed=settings.seed, reference_seconds=limit))
        return self._kept[1]


class _Group:
    """The stages of one group, with what they share."""

    def __init__(self, device: str, settings: Settings, watcher: Watcher) -> None:
        self._device = device
        self._settings = settings
        self._watcher = watcher
        self._outcomes: dict[str, Outcome] = {}

    def measure(self, setup: Setup, candidates: Sequence[Candidate]) -> dict[str, Outcome]:
        """Start every candidate, time those that are right."""
        runners = [r for c in candidates if (r := self._start_guarded(c, setup)) is not None]
        others = others_on(self._device)
        for key, outcome in interleave(runners, self._device, self._settings, self._watcher).items():
            self._end(key, outcome)
        others = others or others_on(self._device)
        for runner in runners:
            if runner.key not in self._outcomes:
                self._end(runner.key, self._measured(runner, setup, others))
        return self._outcomes

    def _end(self, key: str, outcome: Outcome) -> None:
        self._outcomes[key] = outcome
        self._watcher.ended(key, outcome)

    def _start_guarded(self, candidate: Candidate, setup: Setup) -> Runner | None:
        if self._settings.passed:
            return None
        self._watcher.began(candidate.key)
        try:
            result = _start(candidate, setup)
        except Exception as error:
            if device_is_lost(self._device):
                raise DeviceLost(candidate.key, text_of(error)) from error
            result = describe(error)
        if isinstance(result, Runner):
            return result
        self._end(candidate.key, result)
        return None

    def _measured(self, runner: Runner, setup: Setup, others: str | None) -> Measured:
        repeats = self._settings.repeats
        seconds = runner.seconds(repeats)
        eager = runner.eager_seconds
        return Measured(
            seconds=seconds,
            accuracy=runner.accuracy,
            eager_seconds=statistics.median(seconds) if eager is None else eager,
            plan_seconds=runner.plan_seconds,
            write_seconds=setup.write_seconds,
            compile_seconds=runner.compile_seconds,
            cold=setup.inputs.cold,
            path=runner.sampler.prepared.path,
            conditions=runner.conditions(repeats, others),
            sustained_seconds=runner.sustained_seconds,
            step_seconds=runner.step_seconds,
        )


def _start(candidate: Candidate, setup: Setup) -> Runner | Outcome:
    """Prepare, check on the first KV copy, warm up, check on the last."""
    prepared: Prepared = get_backend(candidate.backend).prepare(setup.inputs, candidate.knobs)
    sampler = make_sampler(prepared, setup.inputs)
    plan_seconds = sampler.plan_seconds()
    compile_seconds = prepared.compile_seconds + sampler.first_call_seconds()
    accuracy = check(prepared, setup.first)
    sampler.synchronize()
    if not accuracy.correct:
        return incorrect(accuracy)
    last = sampler.warm_up()
    if setup.last is not None:
        again = compare(last, setup.last)
        if not again.correct:
            return incorrect(again, "on the last KV copy: ")
    return Runner(
        candidate.key,
        sampler,
        accuracy,
        compile_seconds=compile_seconds,
        eager_seconds=sampler.eager_seconds(),
        plan_seconds=plan_seconds,
        layers=setup.inputs.batch.layers,
    )


def _on(device: str) -> AbstractContextManager[object]:
    """Make the device current, so that streams and graphs belong to it."""
    import torch

    return torch.cuda.device(device) if device.startswith("cuda") else nullcontext()
