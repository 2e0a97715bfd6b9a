"""The fused element-wise kernels, under Triton's interpreter in a process of its own."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_fused_kernels_give_what_pytorch_gives():
    pytest.importorskip("triton")
    command = [sys.executable, "tests/executors/steps/interpret_elementwise.py", str(random.randrange(1000))]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr[-2000:]
    assert run.stdout.count("agrees") == 15
