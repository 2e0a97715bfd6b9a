"""Whole-stack mode: plan once, then per layer the KV write of the new tokens and the attention call, like a model."""

import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from executors.base import Prepared
from executors.kv_write import prepare_write
from executors.sampler import make_sampler

if TYPE_CHECKING:
    from torch import Tensor

    from executors.inputs import Inputs

REPEATS = 5


@dataclass(frozen=True, slots=True)
class StackTimes:
    """Times of the attention part of one forward step."""

    layers: int
    plan_seconds: float
    """Once a step; 0 where the backend plans nothing."""
    layers_seconds: float
    """All layers: KV write and call, one after the other."""

    @property
    def step_seconds(self) -> float:
        """Plan and layers."""
        return self.plan_seconds + self.layers_seconds


def measure_stack(prepared: Prepared, inputs: "Inputs", *, repeats: int = REPEATS) -> StackTimes:
    """Time one step of the batch's layers; layer i works on KV copy i modulo the copies there are.

    Args:
        prepared: The planned call, shared by all layers.
        inputs: What it was prepared for; with as many copies as layers each layer has its own cache, as in a model.
        repeats: Samples; the median counts.
    """
    write, layers = prepare_write(inputs), inputs.batch.layers

    def step(_: int) -> "Tensor":
        for layer in range(layers):
            slot = layer % inputs.slots
            write.run(slot)
            output = prepared.run(slot)
        return output

    whole = Prepared(step, prepared.plan, capturable=prepared.capturable, threads=prepared.threads)
    sampler = make_sampler(whole, replace(inputs, k_cache=inputs.k_cache[:1], v_cache=inputs.v_cache[:1]))
    plan_seconds = sampler.plan_seconds() or 0.0
    sampler.warm_up()
    return StackTimes(layers, plan_seconds, statistics.median(sampler.sample().seconds for _ in range(repeats)))
