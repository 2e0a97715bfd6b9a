"""The kernels compile for Hopper without a GPU, within its shared memory and registers."""

import importlib.util
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="Triton's wheel brings ptxas for x86_64"),
]


def test_own_choices_compile_without_spilling() -> None:
    names = ["decode page 64", "mla 16 heads", "prefill dim 128"]
    command = [sys.executable, "benchmarks/compile_kernels.py", *(a for n in names for a in ("--only", n))]
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stdout + run.stderr
    lines = [line for line in run.stdout.splitlines() if " attend" in line]
    assert len(lines) == len(names)
    assert all("wgmma=0" not in line for line in lines), "a kernel does not use Hopper's matrix instructions"
