"""The page: sections, figures and tables as one HTML file that needs no network."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib.resources import files

from cli.report.charts import Chart, Tags
from cli.report.palette import css_variables
from cli.report.plotly_spec import plotly_spec
from cli.report.tables import DataTable, TableRow


@dataclass(frozen=True, slots=True)
class Section:
    """One section: a heading that says something, a sentence, charts and tables."""

    anchor: str
    title: str
    lead: str
    charts: tuple[Chart, ...] = ()
    tables: tuple[DataTable, ...] = ()
    note: str = ""
    """How to read it; folded away."""


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that the page shows."""

    device: str
    date: str
    answer: str
    why: str
    figures: tuple[tuple[str, str], ...]
    """Large numbers: `(number, what it is)`."""
    sections: tuple[Section, ...]
    shapes: tuple[str, ...]
    """Names to choose from, the one shown first in front."""
    phases: tuple[tuple[str, str], ...]
    backends: tuple[tuple[str, str], ...]
    """Backend and the name of its colour."""
    facts: tuple[tuple[str, str], ...] = field(default=())

    def showing(self, shape: str) -> "Page":
        """Give the same page with another shape first."""
        return replace(self, shapes=(shape, *(name for name in self.shapes if name != shape)))


def render(page: Page) -> str:
    """Write the page.

    Raises:
        ImportError: Plotly is not installed.
    """
    from plotly.offline import get_plotlyjs

    charts = [chart for section in page.sections for chart in section.charts]
    parts = {
        "title": escape(f"attnroof: {page.device}"),
        "device": escape(page.device),
        "date": escape(page.date),
        "answer": escape(page.answer),
        "why": escape(page.why),
        "figures": "".join(f"<div><dt>{escape(what)}</dt><dd>{escape(n)}</dd></div>" for n, what in page.figures),
        "filters": _filters(page),
        "sections": "".join(_section(section) for section in page.sections),
        "facts": "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in page.facts),
        "css": _asset("page.css").replace("/*light*/", css_variables(0)).replace("/*dark*/", css_variables(1)),
        "data": _script_json({"charts": [plotly_spec(chart) for chart in charts], "first": page.shapes[0]}),
        "plotly": get_plotlyjs(),
        "js": _asset("page.js"),
    }
    text = _asset("page.html")
    for name, value in parts.items():
        text = text.replace(f"<!--{name}-->", value, 1)
    return text


def _asset(name: str) -> str:
    return (files("cli.report") / "assets" / name).read_text(encoding="utf-8")


def _script_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("</", "<\\/")


def _filters(page: Page) -> str:
    shapes = "".join(f'<option value="{escape(name)}">{escape(name)}</option>' for name in page.shapes)
    phases = "".join(
        f'<button type="button" data-phase="{escape(phase)}" aria-pressed="{"true" if phase == "all" else "false"}">'
        f"{escape(name)}</button>"
        for phase, name in (("all", "all phases"), *page.phases)
    )
    backends = "".join(
        f'<button type="button" data-backend="{escape(name)}" aria-pressed="true">'
        f'<i style="--dot:var(--{escape(colour)})"></i>{escape(name)}</button>'
        for name, colour in page.backends
    )
    return (
        f'<label>Attention shape <select id="shape"><option value="all">All shapes</option>{shapes}</select></label>'
        f'<div class="segments" role="group" aria-label="Phase">{phases}</div>'
        f'<div class="chips" role="group" aria-label="Backends">{backends}</div>'
    )


def _section(section: Section) -> str:
    charts = "".join(_figure(chart) for chart in section.charts)
    by_shape = any("shape" in chart.tags for chart in section.charts)
    hint = '<p class="hint" hidden></p>' if by_shape else ""
    tables = "".join(_table(table) for table in section.tables)
    note = f"<details><summary>How to read it</summary><p>{escape(section.note)}</p></details>" if section.note else ""
    head = f'<h2>{escape(section.title)}</h2><p class="lead">{escape(section.lead)}</p>'
    return f'<section id="{escape(section.anchor)}">{head}{hint}{charts}{note}{tables}</section>'


def _figure(chart: Chart) -> str:
    return (
        f'<figure class="card" data-chart="{escape(chart.name)}"{_tags(chart.tags)} hidden>'
        f"<figcaption>{escape(chart.title)}</figcaption>"
        f'<div class="plot" role="img" aria-label="{escape(chart.alt)}"></div></figure>'
    )


def _table(table: DataTable) -> str:
    heads = "".join(
        f'<th scope="col"{" class=number" if column.number else ""} aria-sort="none">'
        f'<button type="button">{escape(column.name)}</button></th>'
        for column in table.columns
    )
    numbers = [column.number for column in table.columns]
    rows = "".join(_row(row, numbers) for row in table.rows)
    return (
        f'<div class="card table" tabindex="0" role="region" aria-label="{escape(table.caption)}">'
        f'<table id="{escape(table.name)}"><caption>{escape(table.caption)} <span class="count"></span></caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(row: TableRow, numbers: Sequence[bool]) -> str:
    cells = []
    for cell, number in zip(row.cells, numbers, strict=True):
        order = "" if cell.order is None else f' data-order="{cell.order:.9g}"'
        dot = f'<i style="--dot:var(--{escape(cell.colour)})"></i>' if cell.colour else ""
        bar = "" if cell.bar is None else f' style="--bar:{100 * cell.bar:.1f}%"'
        cells.append(f"<td{' class=number' if number else ''}{order}{bar}>{dot}{escape(cell.text)}</td>")
    return f"<tr{_tags(row.tags)}>{''.join(cells)}</tr>"


def _tags(tags: Tags) -> str:
    return "".join(
        f' data-{name}="{escape(value if isinstance(value, str) else "|".join(value))}"' for name, value in tags.items()
    )
