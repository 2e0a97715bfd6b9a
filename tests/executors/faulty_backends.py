"""Backends that go wrong on purpose, to be named as `faulty_backends:Class`."""

import os
import signal
import time
from typing import Any

from costmodel import Attention, Batch
from executors.backends.torch_native import TorchNative
from executors.base import Knob, Knobs, Prepared
from executors.inputs import Inputs
from hwprofiles import Profile


class Right(TorchNative):
    """Correct, with no knobs."""

    name = "faulty_backends:Right"

    def knobs(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Knob, ...]:
        return ()

    def prepare(self, inputs: Inputs, knobs: Knobs) -> Prepared:
        prepared = super().prepare(inputs, {"form": "per_request"})
        right = prepared.run
        return Prepared(run=lambda slot: self.spoil(right(slot), slot), threads=1)

    def spoil(self, output: Any, slot: int) -> Any:
        return output


class BadPointer(Right):
    def spoil(self, output: Any, slot: int) -> Any:
        os.kill(os.getpid(), signal.SIGSEGV)


class Endless(Right):
    def spoil(self, output: Any, slot: int) -> Any:
        while True:
            time.sleep(0.01)


class BeyondMemory(Right):
    def spoil(self, output: Any, slot: int) -> Any:
        import torch

        return torch.empty(1 << 50, dtype=torch.uint8)


class Killed(Right):
    """What the kernel's out-of-memory killer does."""

    def spoil(self, output: Any, slot: int) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


class Wrong(Right):
    """Leaves out a little: one value of one head."""

    def spoil(self, output: Any, slot: int) -> Any:
        output[-1, -1, -1] *= 1.5
        return output


class NotANumber(Right):
    def spoil(self, output: Any, slot: int) -> Any:
        output[0, 0, 0] = float("nan")
        return output


class Unwritten(Right):
    """Returns its one output buffer and writes the last row only the first time."""

    def prepare(self, inputs: Inputs, knobs: Knobs) -> Prepared:
        right = super().prepare(inputs, knobs)
        kept: list[Any] = []

        def run(slot: int) -> Any:
            output = right.run(slot)
            if not kept:
                kept.append(output)
            else:
                kept[0][:-1] = output[:-1]
            return kept[0]

        return Prepared(run=run, threads=1)


class FirstCopyOnly(Right):
    """Reads KV copy 0 whatever it is asked for: fast, since that copy stays in the cache."""

    def prepare(self, inputs: Inputs, knobs: Knobs) -> Prepared:
        right = super().prepare(inputs, knobs)
        return Prepared(run=lambda slot: right.run(0), threads=1)


class Restless(Right):
    """Right, and different in the last bit from run to run."""

    calls = 0

    def spoil(self, output: Any, slot: int) -> Any:
        import torch

        self.calls += 1
        if self.calls % 2:
            output.view(torch.int16)[0, 0, 0] ^= 1
        return output


class Raises(Right):
    def spoil(self, output: Any, slot: int) -> Any:
        raise RuntimeError("the library said no")
