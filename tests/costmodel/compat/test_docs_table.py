"""docs/backends.md is what the data says."""

from pathlib import Path

from costmodel.compat import backend_names
from costmodel.compat.matrix import matrix_markdown

DOCUMENT = Path(__file__).parents[3] / "docs" / "backends.md"


def test_the_document_is_current() -> None:
    assert DOCUMENT.read_text("utf-8") == matrix_markdown(), "run: python -m costmodel.compat.matrix > docs/backends.md"


def test_every_name_has_a_row_of_cells() -> None:
    rows = [line for line in matrix_markdown().split("## By what")[0].splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == list(backend_names())
    assert all(cell.strip() for row in rows for cell in row.strip("|").split("|"))
