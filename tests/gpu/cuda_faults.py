"""Backends that go wrong on a GPU on purpose, to be named as `cuda_faults:Class`."""

from typing import Any

from costmodel import Attention, Batch
from executors.backends.torch_native import TorchNative
from executors.base import Knob, Knobs, Prepared
from executors.inputs import Inputs
from hwprofiles import Profile


class Right(TorchNative):
    name = "cuda_faults:Right"

    def knobs(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Knob, ...]:
        return ()

    def prepare(self, inputs: Inputs, knobs: Knobs) -> Prepared:
        right = super().prepare(inputs, {}).run
        return Prepared(run=lambda slot: self.spoil(right(slot)))

    def spoil(self, output: Any) -> Any:
        return output


class BadAddress(Right):
    """Loads far outside of an allocation, which ends the CUDA context."""

    def spoil(self, output: Any) -> Any:
        import torch

        return output + torch.zeros(1, device=output.device)[torch.full((1,), 1 << 40, device=output.device)].sum()


class Endless(Right):
    """Keeps the GPU busy for hours."""

    def spoil(self, output: Any) -> Any:
        import torch

        torch.cuda._sleep(1 << 45)
        return output


class BeyondMemory(Right):
    def spoil(self, output: Any) -> Any:
        import torch

        return torch.empty(1 << 46, dtype=torch.uint8, device=output.device)


class Wrong(Right):
    def spoil(self, output: Any) -> Any:
        output[-1, -1, -1] += 1
        return output


class NotANumber(Right):
    def spoil(self, output: Any) -> Any:
        output[0, 0, 0] = float("nan")
        return output
