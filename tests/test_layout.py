"""Promises about the tree itself: small files, a short README, data that names its sources."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("hwprofiles", "costmodel", "executors", "tuner", "cli")


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    return [ROOT / name for name in listed if name and (ROOT / name).exists()]


def test_no_source_file_exceeds_400_lines() -> None:
    long = {
        str(p.relative_to(ROOT)): n
        for p in tracked("*.py")
        if p.relative_to(ROOT).parts[0] in PACKAGES and (n := len(p.read_text().splitlines())) > 400
    }
    assert long == {}


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_checkout_stays_small_enough_to_travel_to_a_gpu_host() -> None:
    total = sum(p.stat().st_size for p in tracked("*"))
    assert total < 12 * 2**20


def test_root_holds_the_named_packages_only() -> None:
    folders = {p.relative_to(ROOT).parts[0] for p in tracked("*.py")}
    assert folders <= {*PACKAGES, "tests", "benchmarks"}
