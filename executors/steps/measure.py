"""Measure the steps and the parts of one model on one device."""

import gc
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from costmodel import Batch
from executors.environment import Environment
from executors.inputs import make_inputs
from executors.registry import get_backend
from executors.steps.cases import Case
from executors.steps.parts import Part, parts_of
from executors.steps.records import Measurement, PartRecord, StepRecord, microseconds, recorded_batch
from executors.steps.reference import Comparison, compare_with_reference
from executors.steps.shape import StackShape
from executors.steps.stack import Stack
from executors.steps.timing import Timer
from executors.steps.weights import make_weights

if TYPE_CHECKING:
    from executors.base import Prepared

GRAPH_SECONDS = 2e-3
"""A graph of one part lasts about this long where its calls, launched from Python, do."""
LEAST_CALLS = 8
"""Even long calls take turns over that many layers, so that no weights are left in the device's cache."""
ATTENTION_SETTLE = 0.03
PART_SETTLE, BUSY_SETTLE = 0.02, 0.1
COARSE_TOKENS = (1, 8, 32, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Tokens that kernels between products are measured with: their times are nearly a line."""
BUSY_TOKENS = 512
"""Tokens from which on products load the matrix units enough for the clock to move."""


class StepBench:
    """One model's weights on one device, and what is measured with them."""

    def __init__(self, shape: StackShape, environment: Environment, *, seed: int = 0) -> None:
        self._shape, self._environment, self._seed = shape, environment, seed
        self._device = environment.device
        self._weights = make_weights(shape, self._device, seed=seed)

    def step(self, case: Case) -> StepRecord:
        """Measure one step, and its attention call alone."""
        return self._record(case, None)

    def checked(self, case: Case) -> StepRecord:
        """Compare one step's logits with the reference, then measure it."""
        return self._record(case, compare_with_reference(self._stack(case.batch(), case.backend)))

    def parts(self, tokens: int, known: set[tuple[object, ...]]) -> Iterator[PartRecord]:
        """Measure every part over `tokens` tokens whose sizes are not among those known, and add them."""
        for part in parts_of(self._shape, self._weights, tokens, self._device):
            sizes = (part.kind, part.tokens, part.n, part.k)
            if sizes in known or (part.k == 0 and tokens not in COARSE_TOKENS):
                continue
            known.add(sizes)
            busy = part.kind == "gemm" and tokens >= BUSY_TOKENS
            yield self._part(part, Timer(self._device, settle_seconds=BUSY_SETTLE if busy else PART_SETTLE))

    def _stack(self, batch: Batch, backend: str) -> Stack:
        self.release()
        shape = self._shape
        inputs = make_inputs(shape.attention, batch, self._device, seed=self._seed, slots=shape.layers)
        prepared = get_backend(backend).prepare(inputs, {})
        return Stack(shape, self._weights, inputs, prepared, seed=self._seed)

    def _record(self, case: Case, comparison: Comparison | None) -> StepRecord:
        batch = replace(case.batch(), layers=self._shape.layers)
        library = get_backend(case.backend).implementation_for(self._shape.attention, batch, {}) or ("unknown", "")
        stack = self._stack(batch, case.backend)
        timer, slots = Timer(self._device), stack.inputs.slots
        plan = _plan_seconds(stack.prepared, timer)
        eager = timer.eager(stack.step)
        times = timer.graph(stack.step)

        def attend() -> None:
            for layer in range(self._shape.layers):
                stack.prepared.run(layer % slots)

        alone = min(Timer(self._device, settle_seconds=ATTENTION_SETTLE).graph(attend).seconds)
        return StepRecord(
            batch=recorded_batch(batch),
            backend=case.backend,
            implementation=library[0],
            implementation_version=library[1],
            attention_us=microseconds(alone / self._shape.layers),
            plan_us=microseconds(plan),
            eager_us=microseconds(eager),
            max_error=None if comparison is None else float(f"{comparison.max_error:.3g}"),
            tolerance=None if comparison is None else float(f"{comparison.tolerance:.3g}"),
            **self._measurement().fields(times),
        )

    def _part(self, part: Part, timer: Timer) -> PartRecord:
        layers = self._shape.layers
        calls = max(LEAST_CALLS, round(GRAPH_SECONDS / timer.eager(lambda: part.run(0))))

        def run() -> None:
            for call in range(calls):
                part.run(call % layers)

        times = timer.graph(run)
        times = replace(times, seconds=tuple(seconds / calls for seconds in times.seconds))
        return PartRecord(
            part=part.kind,
            name=part.name,
            tokens=part.tokens,
            n=part.n,
            k=part.k,
            **self._measurement().fields(times),
        )

    def _measurement(self) -> Measurement:
        shape = self._shape
        return Measurement(shape.model.name, shape.tp, shape.layers, shape.attention.dtype, self._environment)

    def failed(self, case: Case, reason: str) -> StepRecord:
        """Give the record of a step that did not run."""
        batch = replace(case.batch(), layers=self._shape.layers)
        name, version = get_backend(case.backend).implementation_for(self._shape.attention, batch, {}) or ("none", "")
        return StepRecord(
            batch=recorded_batch(batch),
            backend=case.backend,
            implementation=name,
            implementation_version=version,
            outcome="failed",
            reason=reason[:300],
            **self._measurement().fields(None),
        )

    def release(self) -> None:
        """Give memory back that no longer belongs to a step."""
        import torch

        gc.collect()
        if self._device != "cpu":
            torch.cuda.empty_cache()


def _plan_seconds(prepared: "Prepared", timer: Timer) -> float | None:
    """Host time of one plan, the shortest of a few; None where the backend has none."""
    if prepared.plan is None:
        return None
    taken = []
    for _ in range(3):
        timer.synchronize()
        start = time.perf_counter()
        prepared.plan()
        timer.synchronize()
        taken.append(time.perf_counter() - start)
    return min(taken)
