"""`attnroof report`: one page to look at, or pictures, from records or a tuned configuration."""

import shlex
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.commands.advise import IslOption, OslOption
from cli.errors import WrongInput
from cli.options import TpOption

if TYPE_CHECKING:
    from cli.report.page import Page, Section
    from cli.report.source import Source

NEEDS_PLOTS = "the report needs Plotly, its pictures matplotlib: pip install 'attnroof[plots]'"


def report(
    config: Annotated[Path | None, typer.Option("--config", help="A tuned configuration, or a folder of them.")] = None,
    records: Annotated[Path | None, typer.Option("--records", help="A file or folder of records.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="The page to write.")] = None,
    plots: Annotated[Path | None, typer.Option("--plots", help="Folder for each chart as PNG and SVG.")] = None,
    shape: Annotated[
        str | None, typer.Option("--shape", help="Shape shown first, such as 'GQA 32/8, head 128'.")
    ] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", help="Profile, where the device's own name has none.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="A config.json, to show what requests feel.")] = None,
    tp: TpOption = 1,
    isl: IslOption = 1024,
    osl: OslOption = 256,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Requests at all times.")] = 16,
) -> None:
    """Write what to use and why as one HTML file that needs no network; the packaged records if none are given."""
    from cli.output import stderr_console
    from cli.report.build import build

    if html is None and plots is None:
        raise WrongInput("--html is missing: name the page to write, for example --html report.html")
    source = read_source(config, records, gpu)
    service = service_of(source, model, tp, (isl, osl, concurrency))
    page = build(source, shlex.join(["attnroof", *sys.argv[1:]]), service)
    if shape is not None:
        page = page.showing(known_shape(shape, page.shapes))
    console = stderr_console()
    if html is not None:
        write_page(page, html)
        console.print(f"written to {html}", markup=False)
    if plots is not None:
        count = write_pictures(page, plots)
        console.print(f"{count} pictures written to {plots}", markup=False)


def read_source(config: Path | None, records: Path | None, gpu: str | None) -> "Source":
    """Read what the report is about."""
    from cli.report.source import from_configurations, from_records
    from executors.recordings import PACKAGED

    if config is not None and records is not None:
        raise WrongInput("--config and --records are two sources: give one")
    if config is not None:
        return from_configurations(config, gpu)
    return from_records(records or PACKAGED, gpu)


def known_shape(name: str, shapes: Sequence[str]) -> str:
    """Check a shape's name.

    Raises:
        WrongInput: There are no measurements of it; the message names the nearest.
    """
    if name not in shapes:
        near = get_close_matches(name, shapes, n=3, cutoff=0.3) or shapes[:3]
        raise WrongInput(f"--shape {name!r} was not measured; near it: {'; '.join(near)}")
    return name


def service_of(source: "Source", model: str | None, tp: int, lengths: tuple[int, int, int]) -> "Section":
    """Say what the backends mean for requests of `(isl, osl, concurrency)`; a configuration knows its own model."""
    from cli.recorded import read_recorded
    from cli.report.service import Traffic, service_section
    from costmodel import load_model
    from costmodel.models.loader import read_model
    from costmodel.serving import Load

    load = Load(*lengths)
    traffic = None
    if model is not None:
        traffic = Traffic(load_model(model), load, tp)
    elif source.configurations and source.configurations[0].provenance.model_config_json:
        known = source.configurations[0].provenance
        traffic = Traffic(read_model(known.model_config_json, name=known.model or "model"), load, known.tensor_parallel)
    return service_section(source.profile, traffic, read_recorded(source.profile).seconds)


def write_page(page: "Page", path: Path) -> None:
    """Write the page as a whole.

    Raises:
        WrongInput: Plotly is missing, or the file cannot be written.
    """
    from cli.report.page import render

    try:
        text = render(page)
    except ImportError:
        raise WrongInput(NEEDS_PLOTS) from None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise WrongInput(f"--html {path} cannot be written: {error.strerror}") from None


def write_pictures(page: "Page", folder: Path) -> int:
    """Write each chart that is shown first as PNG and SVG; give how many.

    Raises:
        WrongInput: matplotlib is missing, or the folder cannot be written.
    """
    from cli.report.pictures import write_charts

    charts = [chart for section in page.sections for chart in section.charts]
    shown = [c for c in charts if c.tags.get("shape", page.shapes[0]) == page.shapes[0]]
    try:
        return write_charts(shown, folder)
    except ImportError:
        raise WrongInput(NEEDS_PLOTS) from None
    except OSError as error:
        raise WrongInput(f"--plots {folder} cannot be written: {error.strerror}") from None
