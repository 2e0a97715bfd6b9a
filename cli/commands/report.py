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
    from cli.report.service import Traffic
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
    asked = None if model is None else asked_traffic(model, tp, (isl, osl, concurrency))
    source = read_source(config, records, gpu)
    first = None if shape is None else known_shape(shape, tuple(source.shapes))
    prepare_places(html, plots)
    service = service_of(source, asked, (isl, osl, concurrency))
    page = build(source, shlex.join(["attnroof", *sys.argv[1:]]), service)
    if first is not None:
        page = page.showing(first)
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


def prepare_places(html: Path | None, plots: Path | None) -> None:
    """Make the folders that will be written to, before the work rather than after it.

    Raises:
        WrongInput: One cannot be made, or the page is there and no file.
    """
    if html is not None and html.exists() and not html.is_file():
        raise WrongInput(f"--html {html} cannot be written: it is there and no file; name another")
    for option, path in (("--html", html), ("--plots", plots)):
        folder = path.parent if path is not None and path is html else path
        if folder is None:
            continue
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WrongInput(f"{option} {path} cannot be written: {error.strerror}") from None


def asked_traffic(model: str, tp: int, lengths: tuple[int, int, int]) -> "Traffic":
    """Read the model that `--model` names, and the load of `(isl, osl, concurrency)`."""
    from cli.report.service import Traffic
    from costmodel import load_model
    from costmodel.serving import Load

    return Traffic(load_model(model), Load(*lengths), tp)


def service_of(source: "Source", asked: "Traffic | None", lengths: tuple[int, int, int]) -> "Section":
    """Say what the backends mean for requests of `(isl, osl, concurrency)`; a configuration knows its own model."""
    from cli.recorded import read_recorded
    from cli.report.service import Traffic, service_section
    from costmodel.models.loader import read_model
    from costmodel.serving import Load

    load, traffic = Load(*lengths), asked
    if traffic is None and source.configurations and source.configurations[0].provenance.model_config_json:
        known = source.configurations[0].provenance
        traffic = Traffic(read_model(known.model_config_json, name=known.model or "model"), load, known.tensor_parallel)
    return service_section(source.profile, traffic, read_recorded(source.profile).seconds)


def write_page(page: "Page", path: Path) -> None:
    """Write the page as a whole.

    Raises:
        WrongInput: Plotly is missing, or the file cannot be written.
    """
    from cli.report.page import render
    from tuner.configuration import ConfigurationError, write_atomically

    try:
        text = render(page)
    except ImportError:
        raise WrongInput(NEEDS_PLOTS) from None
    try:
        write_atomically(path.resolve(), text)
    except ConfigurationError as error:
        raise WrongInput(f"--html: {error}") from None


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
