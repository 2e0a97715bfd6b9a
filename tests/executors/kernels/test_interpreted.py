"""Every branch of the kernels against float64, under Triton's interpreter."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

from tests.executors.kernels.cases import CASES

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """Run the cases in one process of their own: the interpreter has to be chosen before Triton is imported."""
    command = [sys.executable, "-W", "ignore::RuntimeWarning", "-m", "tests.executors.kernels.interpret"]
    run = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, timeout=280
    )
    assert run.returncode == 0, run.stderr[-4000:]
    found: dict[str, Any] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_float64(results: dict[str, Any], name: str) -> None:
    found = results[name]
    assert found["error"] <= found["tolerance"], found["path"]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("decode", "kv-major"),
        ("decode-page-1", "gather"),
        ("decode-page-4-split", "3 splits"),
        ("decode-row-major", "row-major"),
        ("extend-fresh", "tma fresh"),
        ("extend-pages", "tma page"),
        ("extend-gather", "gather"),
    ],
)
def test_cases_reach_the_path_they_are_for(results: dict[str, Any], name: str, path: str) -> None:
    assert path in results[name]["path"]
