"""Costs that do not grow with the work: a launch, a merge of partial results; and the rate of exponentials."""

from executors.calibrate.stopwatch import CudaStopwatch, Samples, Stopwatch

MERGE_ROWS, MERGE_SPLITS, MERGE_DIM = 32, 8, 128
_EXP_BLOCK = 2048
_EXP_ELEMENTS = 1 << 16


def launch(watch: Stopwatch) -> Samples:
    """One library call on one element, from Python, back to back."""
    import torch

    x = torch.zeros(1, device=watch.device)
    return watch.time(lambda: x.add_(1), calls=500)


def graph_launch(watch: CudaStopwatch) -> Samples:
    """One kernel on one element inside a CUDA graph."""
    import torch

    x = torch.zeros(1, device=watch.device)
    return watch.time_in_graph(lambda: x.add_(1), nodes=500)


def merge(watch: Stopwatch) -> Samples:
    """Merge eight partial outputs of one decode step with 32 heads and head_dim 128; in a CUDA graph on a GPU."""
    import torch

    partial = torch.randn(MERGE_ROWS, MERGE_SPLITS, MERGE_DIM, device=watch.device)
    lse = torch.randn(MERGE_ROWS, MERGE_SPLITS, device=watch.device)
    if not isinstance(watch, CudaStopwatch):
        return watch.time(lambda: torch.einsum("rs,rsd->rd", torch.softmax(lse, 1), partial), calls=50)
    from executors.calibrate.kernels import merge_kernel

    out = torch.empty(MERGE_ROWS, MERGE_DIM, device=watch.device)
    return watch.time_in_graph(
        lambda: merge_kernel[(MERGE_ROWS,)](partial, lse, out, SPLITS=MERGE_SPLITS, DIM=MERGE_DIM, num_warps=4)
    )


def exponentials(watch: Stopwatch, num_sms: int) -> tuple[float, Samples]:
    """Exponentials per second with all SMs or cores, and the samples behind them."""
    import torch

    if not isinstance(watch, CudaStopwatch):
        samples = _exponentials_of_one_core(watch)
        return _EXP_ELEMENTS / samples.typical * num_sms, samples
    from executors.calibrate.kernels import exp_kernel

    programs, rounds = num_sms * 8, 4096
    values = torch.empty(programs * _EXP_BLOCK, device=watch.device)
    samples = watch.time(lambda: exp_kernel[(programs,)](values, rounds, BLOCK=_EXP_BLOCK, num_warps=8))
    return programs * _EXP_BLOCK * rounds / samples.typical, samples


def _exponentials_of_one_core(watch: Stopwatch) -> Samples:
    """One core alone: the work fits its cache, and no other core has to be waited for."""
    import torch

    x = torch.linspace(-1, 0, _EXP_ELEMENTS)
    out = torch.empty_like(x)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return watch.time(lambda: torch.exp(x, out=out), calls=20)
    finally:
        torch.set_num_threads(threads)
