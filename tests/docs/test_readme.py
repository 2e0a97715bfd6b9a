"""The README's figures are those that the shipped records, configurations and model give."""

import pytest
from readme import BLOCKS, README, block


@pytest.mark.parametrize("name", BLOCKS)
def test_generated_part_is_current(name, monkeypatch):
    monkeypatch.chdir(README.parent)
    found = block(name).search(README.read_text(encoding="utf-8"))
    assert found is not None
    assert found[2].rstrip("\n") == BLOCKS[name](), "run python tests/docs/refresh_readme.py"
