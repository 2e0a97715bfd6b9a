"""Whole-stack mode: plan once, then per layer the KV write of the new tokens and the attention call, like a model."""

import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from executors.base import Knobs, Prepared
from executors.kv_write import prepare_write
from executors.registry import get_backend
from executors.sampler import make_sampler

if TYPE_CHECKING:
    from torch import Tensor

    from executors.inputs import Inputs


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


def measure_stack(inputs: "Inputs", backend: str, knobs: Knobs, *, layers: int, repeats: int = 7) -> StackTimes:
    """Time one step of a model's layers; layer i works on KV copy i modulo the copies there are.

    Args:
        inputs: The workload; with as many slots as layers each layer has its own cache, as in a model.
        backend: A backend's name.
        knobs: Its knobs.
        layers: Layers that share the plan.
        repeats: Samples; the median counts.
    """
    import torch

    if layers < 1:
        raise ValueError(f"layers={layers} must be at least 1")
    with torch.no_grad():
        prepared = get_backend(backend).prepare(inputs, knobs)
        write = prepare_write(inputs)

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
        seconds = statistics.median(sampler.sample().seconds for _ in range(repeats))
    return StackTimes(layers, plan_seconds, seconds)
