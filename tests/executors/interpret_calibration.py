"""Run the calibration kernels under Triton's interpreter; prints how far each is from its reference."""

import os
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import torch
from triton.runtime import interpreter

_patch = interpreter._patch_lang_tensor


def _accept_numpy_2_4(tensor: type, scope: Any) -> None:
    """Let loop bounds be one-element arrays, which NumPy 2.4 refuses to turn into int."""
    _patch(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())


interpreter._patch_lang_tensor = _accept_numpy_2_4

from executors.calibrate.kernels import exp_kernel, merge_kernel, read_kernel  # noqa: E402


def read(programs: int, passes: int) -> float:
    source = torch.arange(4 * 256, dtype=torch.float32)
    out = torch.empty(programs)
    read_kernel[(programs,)](source, out, 4, passes, BLOCK=256)
    return (out.sum() - passes * source.sum()).item()


def exponentials(rounds: int) -> float:
    out = torch.empty(2 * 64)
    exp_kernel[(2,)](out, rounds, BLOCK=64)
    expected = torch.arange(64) / 64
    for _ in range(rounds):
        expected = torch.exp2(-expected)
    return (out - expected.repeat(2)).abs().max().item()


def merge(rows: int) -> float:
    partial, lse, out = torch.randn(rows, 8, 16), torch.randn(rows, 8), torch.empty(rows, 16)
    merge_kernel[(rows,)](partial, lse, out, SPLITS=8, DIM=16)
    weights = torch.exp2(lse) / torch.exp2(lse).sum(1, keepdim=True)
    return (out - torch.einsum("rs,rsd->rd", weights, partial)).abs().max().item()


torch.manual_seed(0)
print(read(3, 1), read(3, 2), read(8, 3), exponentials(1), exponentials(7), merge(5))
