"""One workload, many candidates: inputs and reference once, each candidate checked, then all timed interleaved."""

import statistics
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from costmodel import Attention, Batch
from executors.check import check, incorrect
from executors.compare import compare
from executors.failures import DeviceLost, describe, device_is_lost, text_of
from executors.inputs import Inputs, make_inputs
from executors.interleave import Runner, interleave, others_on
from executors.kv_write import prepare_write
from executors.outcome import Candidate, Measured, Outcome
from executors.reference import Reference, make_reference
from executors.registry import get_backend
from executors.rows import plan_rows
from executors.sampler import make_sampler
from executors.settings import INPUTS_STAGE, Settings, Silent, Watcher

if TYPE_CHECKING:
    from executors.base import Prepared

LAST_SLOT_SHARE = 0.25
"""Part of the reference's time limit that goes to checking the last KV copy."""
WRITE_SAMPLES = 3


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
    import torch

    settings, watcher = settings or Settings(), watcher or Silent()
    with torch.no_grad(), _on(device):
        return _Group(device, settings, watcher).measure(attention, batch, candidates)


class _Group:
    """The stages of one group, with what they share."""

    def __init__(self, device: str, settings: Settings, watcher: Watcher) -> None:
        self._device = device
        self._settings = settings
        self._watcher = watcher
        self._outcomes: dict[str, Outcome] = {}

    def measure(self, attention: Attention, batch: Batch, candidates: Sequence[Candidate]) -> dict[str, Outcome]:
        """Make inputs, start every candidate, time those that are right."""
        self._watcher.began(INPUTS_STAGE)
        try:
            inputs = make_inputs(attention, batch, self._device, seed=self._settings.seed)
            references = self._references(inputs)
            write_seconds = self._write_seconds(inputs)
        except Exception as error:
            if device_is_lost(self._device):
                raise DeviceLost(INPUTS_STAGE, text_of(error)) from error
            for candidate in candidates:
                self._end(candidate.key, describe(error))
            return self._outcomes
        runners = [r for c in candidates if (r := self._start_guarded(c, inputs, references)) is not None]
        others = others_on(self._device)
        for key, outcome in interleave(runners, self._device, self._settings, self._watcher).items():
            self._end(key, outcome)
        for runner in runners:
            if runner.key not in self._outcomes:
                self._end(runner.key, self._measured(runner, inputs, write_seconds, others))
        return self._outcomes

    def _end(self, key: str, outcome: Outcome) -> None:
        self._outcomes[key] = outcome
        self._watcher.ended(key, outcome)

    def _references(self, inputs: Inputs) -> tuple[Reference, Reference | None]:
        """The right outputs on the first KV copy and, for some rows, on the last."""
        seed, limit = self._settings.seed, self._settings.reference_limit(self._device)
        first = make_reference(inputs, seed=seed, limit_seconds=limit)
        if inputs.slots == 1:
            return first, None
        limit *= LAST_SLOT_SHARE
        plan = plan_rows(inputs.attention, inputs.batch, inputs.device, seed=seed + 1, limit_seconds=limit)
        return first, make_reference(inputs, slot=inputs.slots - 1, plan=plan)

    def _write_seconds(self, inputs: Inputs) -> float:
        sampler = make_sampler(prepare_write(inputs), inputs)
        sampler.warm_up()
        return statistics.median(sampler.sample().seconds for _ in range(WRITE_SAMPLES))

    def _start_guarded(
        self, candidate: Candidate, inputs: Inputs, references: tuple[Reference, Reference | None]
    ) -> Runner | None:
        if self._settings.passed:
            return None
        self._watcher.began(candidate.key)
        try:
            result = _start(candidate, inputs, references)
        except Exception as error:
            if device_is_lost(self._device):
                raise DeviceLost(candidate.key, text_of(error)) from error
            result = describe(error)
        if isinstance(result, Runner):
            return result
        self._end(candidate.key, result)
        return None

    def _measured(self, runner: Runner, inputs: Inputs, write_seconds: float, others: str | None) -> Measured:
        repeats = self._settings.repeats
        seconds = runner.seconds(repeats)
        eager = runner.eager_seconds
        return Measured(
            seconds=seconds,
            accuracy=runner.accuracy,
            eager_seconds=statistics.median(seconds) if eager is None else eager,
            plan_seconds=runner.plan_seconds,
            write_seconds=write_seconds,
            compile_seconds=runner.compile_seconds,
            cold=inputs.cold,
            path=runner.sampler.prepared.path,
            conditions=runner.conditions(repeats, others),
            sustained_seconds=runner.sustained_seconds,
            step_seconds=runner.step_seconds,
        )


def _start(candidate: Candidate, inputs: Inputs, references: tuple[Reference, Reference | None]) -> Runner | Outcome:
    """Prepare, check on the first KV copy, warm up, check on the last."""
    prepared: Prepared = get_backend(candidate.backend).prepare(inputs, candidate.knobs)
    sampler = make_sampler(prepared, inputs)
    plan_seconds = sampler.plan_seconds()
    accuracy = check(prepared, references[0])
    sampler.synchronize()
    if not accuracy.correct:
        return incorrect(accuracy)
    last = sampler.warm_up()
    if references[1] is not None:
        again = compare(last, references[1])
        if not again.correct:
            return incorrect(again, "on the last KV copy: ")
    return Runner(
        candidate.key,
        sampler,
        accuracy,
        compile_seconds=prepared.compile_seconds,
        eager_seconds=sampler.eager_seconds(),
        plan_seconds=plan_seconds,
        layers=inputs.batch.layers,
    )


def _on(device: str) -> "AbstractContextManager[object]":
    """Make the device current, so that streams and graphs belong to it."""
    import torch

    return torch.cuda.device(device) if device.startswith("cuda") else nullcontext()
