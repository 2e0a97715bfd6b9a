"""Tables as values: cells that carry what they sort by and what they are filtered by."""

from dataclasses import dataclass, field

from cli.report.charts import Tags


@dataclass(frozen=True, slots=True)
class Column:
    """One column; numbers stand to the right."""

    name: str
    number: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its text, and the number it sorts by where that is not the text."""

    text: str
    order: float | None = None
    colour: str | None = None
    """Name of the palette for a dot before the text."""
    bar: float | None = None
    """Length of a bar behind the text, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row and what it is filtered by."""

    cells: tuple[Cell, ...]
    tags: Tags = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DataTable:
    """A table with a caption."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]


def number(value: float | None, text: str) -> Cell:
    """A cell that sorts by its number."""
    return Cell("–" if value is None else text, value)
