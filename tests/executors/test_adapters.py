"""docs/adapters.md is what the adapters say."""

from pathlib import Path

import pytest

from executors.adapters import PROBES, adapters_markdown
from executors.registry import BACKENDS, get_backend

DOCUMENT = Path(__file__).parents[2] / "docs" / "adapters.md"


@pytest.fixture(scope="module")
def text() -> str:
    return adapters_markdown()


@pytest.mark.skipif(
    any(get_backend(name).implementation() is not None for name in ("fa3", "flashmla")),
    reason="the builds that are installed here decide what is refused",
)
def test_the_document_is_current(text: str) -> None:
    assert DOCUMENT.read_text("utf-8") == text, "run: python -m executors.adapters > docs/adapters.md"


def test_every_backend_is_in_it(text: str) -> None:
    assert all(f"`{name}`" in text for name in BACKENDS)


def test_every_kind_of_call_is_taken_by_some_adapter_on_an_h200(text: str) -> None:
    table = text.partition("## On NVIDIA H200")[2].partition("## On")[0]
    rows = [line.split(" | ")[1:] for line in table.splitlines() if line.startswith("| `")]
    assert all(any("●" in row[i] for row in rows) for i in range(len(PROBES)))
