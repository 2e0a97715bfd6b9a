"""Compile the Triton kernels for Hopper without a GPU and list registers, spills and shared memory.

    PYTHONPATH=. python benchmarks/compile_kernels.py [--all] [--only NAME]...

Exit code 1 when an own choice spills more than `MAX_SPILL_BYTES` or exceeds shared memory. `--all` adds knob values.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

from costmodel import Attention, Batch
from executors.inputs import make_inputs
from executors.kernels.launch import Call, Launcher
from executors.kernels.tiling import HOPPER, SHARED_BYTES, tile_of

MAX_SPILL_BYTES = 96
"""Addresses and bounds that wait in local memory while the loops run, at most: 24 words of a thread.

At head dim 256, 128 rows spill 32 to 80 B around the loops, none inside; 32 keys a step would spill nothing and took
14 % longer on an H200.
"""
TARGET = GPUTarget("cuda", 90, 32)
HOPPER_SMS = 132


class _NoDevice:
    """Stands in for the CUDA driver: names the target, runs nothing."""

    def get_current_target(self) -> GPUTarget:
        return TARGET

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


@dataclass(frozen=True)
class Compiled:
    """What ptxas says of one kernel."""

    shared: int
    registers: int
    spill_bytes: int
    instructions: str

    @property
    def bad(self) -> bool:
        return self.spill_bytes > MAX_SPILL_BYTES or self.shared > SHARED_BYTES


def compile_call(call: Call) -> Compiled:
    """Compile one launch through the JIT, as the device would."""
    kernel = call.kernel.warmup(*call.arguments, grid=call.grid, **call.options)
    ptx = kernel.asm["ptx"]
    with tempfile.NamedTemporaryFile(suffix=".ptx", mode="w") as file:
        file.write(ptx)
        file.flush()
        command = [triton.knobs.nvidia.ptxas.path, "-v", "--gpu-name=sm_90a", file.name, "-o", "/dev/null"]
        log = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = {n: int(re.search(p, log)[1]) for n, p in (("r", r"Used (\d+)"), ("s", r"(\d+) bytes spill stores"))}  # type: ignore[index]
    names = {"wgmma": "wgmma.mma_async", "mma": "mma.sync", "cp.async": "cp.async.cg", "tma": "cp.async.bulk.tensor"}
    counts = " ".join(f"{n}={ptx.count(text)}" for n, text in names.items())
    return Compiled(kernel.metadata.shared, found["r"], found["s"], counts)


def workloads() -> Iterator[tuple[str, Attention, Batch]]:
    """Yield shapes small enough for the CPU that compile the same code as large ones."""
    gqa, mha = Attention(32, 8, 128), Attention(8, 8, 128)
    for page in (1, 16, 64):
        yield f"decode page {page}", gqa, Batch.decode([2048] * 4, page_size=page)
    yield "decode mha", mha, Batch.decode([2048], page_size=64)
    yield "decode fp8", Attention(32, 8, 128, kv_dtype="fp8_e4m3"), Batch.decode([2048], page_size=64)
    for dim in (64, 80, 96, 192, 256):
        yield f"decode dim {dim}", Attention(16, 2, dim), Batch.decode([2048], page_size=64)
    yield "decode window sinks", Attention(64, 8, 64, sliding_window=128, sinks=True), Batch.decode([2048])
    yield "decode soft cap", Attention(16, 8, 256, logit_soft_cap=50.0), Batch.decode([2048])
    for heads in (16, 32, 64, 128):
        yield f"mla {heads} heads", Attention.mla(heads), Batch.decode([2048], page_size=64)
    for heads in (16, 128):
        yield f"mla {heads} heads page 1", Attention.mla(heads), Batch.decode([2048])
    yield "mla verify", Attention.mla(64), Batch.verify([2048], 4, page_size=64)
    yield "mla fp8", Attention.mla(16, kv_dtype="fp8_e4m3"), Batch.decode([2048], page_size=64)
    for dim in (64, 128, 256):
        yield f"prefill dim {dim}", Attention(16, 2, dim), Batch.extend([512], [512])
        yield f"extend dim {dim} page 1", Attention(16, 2, dim), Batch.extend([512], [1024])
    yield "extend page 128", gqa, Batch.extend([512], [1024], page_size=128)
    yield "prefill mla expanded", Attention.mla(8, form="expanded"), Batch.extend([512], [512])
    yield "extend fp8", Attention(16, 2, 128, kv_dtype="fp8_e4m3"), Batch.extend([512], [1024], page_size=64)
    yield "extend window", Attention(16, 2, 128, sliding_window=1024), Batch.extend([512], [2048])
    yield "verify chain", gqa, Batch.verify([1024], 4, page_size=64)
    yield "verify tree", gqa, Batch.verify([1024], 16, topk=4, page_size=64)


def knob_values() -> Iterator[dict[str, int]]:
    for block_m in (16, 64, 128):
        for block_n in (32, 64, 128):
            for warps in (4, 8):
                for stages in (2, 3, 4):
                    yield {"block_m": block_m, "block_n": block_n, "num_warps": warps, "num_stages": stages}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="Compile the knob values too.")
    parser.add_argument("--only", action="append", default=[], help="Name of a workload; may be repeated.")
    options = parser.parse_args()
    triton.runtime.driver.set_active(_NoDevice())
    bad = 0
    for name, attention, batch in workloads():
        if options.only and name not in options.only:
            continue
        inputs = make_inputs(attention, batch, "cpu", seed=0, slots=1)
        for knobs in [{}, *(knob_values() if options.all else ())]:
            tile = tile_of(attention, batch, knobs, target=HOPPER)
            launcher = Launcher(inputs, tile, 2, HOPPER_SMS, pdl=True)
            for call in launcher.calls(0, torch.empty_like(inputs.q[..., : attention.value_dim])):
                bad += report(name, tile, call, is_default=not knobs)
    return 1 if bad else 0


def report(name: str, tile: Any, call: Call, is_default: bool) -> bool:
    kernel = call.kernel.__name__
    if kernel == "merge":
        sizes = ""
    else:
        load = ("tma " if tile.tma or (tile.specialized and tile.source == "page") else "") + tile.source
        sizes = f"{tile.block_m}x{tile.block_n} w{tile.num_warps} s{tile.num_stages} {load}"
    try:
        made = compile_call(call)
    except triton.runtime.errors.OutOfResources as error:
        print(f"{name:24} {kernel:13} {sizes:28} {error}")
        return is_default
    print(
        f"{name:24} {kernel:13} {sizes:28} shared {made.shared / 1024:6.1f} KiB  registers {made.registers:3}  "
        f"spill {made.spill_bytes:4} B  {made.instructions}",
        flush=True,
    )
    return is_default and made.bad


if __name__ == "__main__":
    sys.exit(main())
