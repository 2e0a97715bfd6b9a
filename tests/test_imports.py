"""Start-up stays light: what the command line imports, and that the import chain holds."""

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "triton", "optuna", "scipy", "matplotlib", "plotly", "sklearn", "flashinfer")


def modules_after(code: str) -> set[str]:
    program = f"{code}\nimport json, sys; sys.stderr.write('MODULES' + json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(run.stderr.split("MODULES", 1)[1]))


@pytest.mark.parametrize(
    "code",
    [
        "import cli.main",
        "import costmodel",
        "import hwprofiles",
        "import executors",
        "import costmodel, hwprofiles\n"
        "costmodel.predict(costmodel.Attention(32, 8, 128), costmodel.Batch.decode([4096] * 8, page_size=64),"
        " backend='fa3', profile=hwprofiles.load_profile('h200'))",
    ],
    ids=["cli", "costmodel", "hwprofiles", "executors", "predict"],
)
def test_light_packages_import_nothing_heavy(code: str) -> None:
    assert modules_after(code).isdisjoint(HEAVY)


def test_hwprofiles_needs_no_numpy() -> None:
    assert "numpy" not in modules_after("import hwprofiles; hwprofiles.load_profile('h200')")


def test_import_chain_holds() -> None:
    run = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
