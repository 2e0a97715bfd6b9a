"""Run the GPU's calibration under Triton's interpreter: prints how far each kernel is from its reference, and a run."""

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

from executors.calibrate import bandwidth, matrix, run  # noqa: E402
from executors.calibrate.conditions import Watcher  # noqa: E402
from executors.calibrate.kernels import exp_kernel, merge_kernel, read_kernel  # noqa: E402
from executors.calibrate.stopwatch import Call, CudaStopwatch, Samples  # noqa: E402
from hwprofiles import load_profile  # noqa: E402


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


class OneCall(CudaStopwatch):
    """Takes the GPU's way with tensors in main memory: every call is made once and takes a millisecond."""

    def __init__(self) -> None:
        self.device = "cpu"

    def time(self, call: Call, calls: int = 1, samples: int = 9) -> Samples:
        call()
        return Samples((1e-3,) * samples)

    def time_in_graph(self, call: Call, nodes: int = 100, samples: int = 9) -> Samples:
        return self.time(call)

    def synchronize(self) -> None: ...


def whole_run() -> str:
    """Calibrate a small made-up GPU; gives the result as JSON."""
    run.stopwatch = lambda device: OneCall()
    run.Watcher = lambda device: Watcher("cpu")
    run.SUSTAIN_SECONDS = 0.01
    bandwidth.MIN_READ_BYTES = 4 << 20
    bandwidth.SHORT_BYTES = 2 << 20
    matrix.SIZE, matrix.PROBE_SIZE = {"cpu": 64}, 32
    small = {"num_sms": 2, "l2_bytes": 2 << 20, "memory_bytes": 32 << 20}
    profile = load_profile("h200").model_copy(update=small)
    return run.calibrate(profile, "cuda:0", "interpreted").model_dump_json()


torch.manual_seed(0)
print(read(3, 1), read(3, 2), read(8, 3), exponentials(1), exponentials(7), merge(5))
print(whole_run())
