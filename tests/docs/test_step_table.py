"""The table of whole steps in the documentation is the one that the packaged records give."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_documented_table_is_current() -> None:
    run = subprocess.run(
        [sys.executable, "-c", "import sys; sys.path.insert(0, 'benchmarks'); import steps; "
         "sys.exit(steps.with_table(steps.DOCUMENT.read_text()) != steps.DOCUMENT.read_text())"],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, "run python benchmarks/steps.py --write" + run.stderr[-500:]
