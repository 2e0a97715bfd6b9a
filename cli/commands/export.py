"""`attnroof export`: a saved configuration for others to read."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cli.errors import AnswerIsNo, WrongInput
from cli.options import JsonOption
from cli.output import stderr_console, stdout_console, write_json

if TYPE_CHECKING:
    from tuner.configuration import Configuration
    from tuner.export_launch import Launch
    from tuner.reduce import Reduced
    from tuner.traffic import Traffic

Format = Literal["json", "sglang", "vllm", "attune"]


def export(
    config: Annotated[str, typer.Option("--config", help="A configuration that `attnroof tune` saved.")],
    format: Annotated[Format, typer.Option("--format", help="json, sglang, vllm or attune.")] = "json",
    isl: Annotated[int | None, typer.Option("--isl", min=1, help="Input tokens of a request.")] = None,
    osl: Annotated[int | None, typer.Option("--osl", min=1, help="Output tokens of a request.")] = None,
    concurrency: Annotated[int | None, typer.Option("--concurrency", min=1, help="Requests at a time.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print a configuration as JSON, as an SGLang or vLLM launch line, or in Attune's schema."""
    from costmodel import LaunchRefused
    from tuner.configuration import dumps, read
    from tuner.export_attune import attune_document, attune_file_name
    from tuner.export_launch import launch
    from tuner.reduce import NothingReachable

    configuration = read(Path(config))
    traffic = given_traffic(isl, osl, concurrency)
    if format == "json":
        sys.stdout.write(dumps(configuration))
    elif format == "attune":
        write_json(attune_document(configuration))
        stderr_console().print(
            f"Attune looks for it as {attune_file_name(configuration)}", markup=False, soft_wrap=True
        )
    else:
        try:
            found = launch(configuration, format, traffic)
        except (LaunchRefused, NothingReachable) as error:
            raise AnswerIsNo(str(error)) from None
        write_json(launch_json(found)) if as_json else print_launch(configuration, found)


def given_traffic(isl: int | None, osl: int | None, concurrency: int | None) -> "Traffic | None":
    """The traffic, if one was given; all three numbers belong together."""
    from tuner.traffic import Traffic

    if isl is None and osl is None and concurrency is None:
        return None
    if isl is None or osl is None or concurrency is None:
        raise WrongInput("--isl, --osl and --concurrency describe a traffic together: give all three or none")
    return Traffic(isl, osl, concurrency)


def launch_json(found: "Launch") -> dict[str, Any]:
    """The launch line as JSON."""
    sides = {"prefill": found.pair.prefill, "decode": found.pair.decode}
    return {
        "engine": found.plan.engine,
        "version": found.plan.version,
        "flags": list(found.plan.flags),
        "env": dict(found.plan.env),
        "line": found.plan.shell(),
        "loss": found.pair.loss,
        "weighted": "evenly" if found.pair.evenly else "by the traffic",
        **{name: None if side is None else side_json(side) for name, side in sides.items()},
        "side_effects": list(found.plan.side_effects),
        "not_expressed": list(found.plan.not_expressed),
        "notes": list(found.notes),
    }


def side_json(side: "Reduced") -> dict[str, Any]:
    """One side of the pair as JSON."""
    return {
        "backend": side.choice.backend,
        "knobs": dict(side.choice.knobs),
        "rows": side.rows,
        "estimated": side.estimated,
        "missing": side.missing,
        "loss": side.loss,
        "loss_to_sglang": side.loss_to_sglang,
    }


def print_launch(configuration: "Configuration", found: "Launch") -> None:
    """Print the line first, alone on its own, then what it loses and changes."""
    from cli.launch_line import launch_line

    console = stdout_console()
    line = launch_line(found.plan, configuration.provenance.model or "MODEL")
    console.print(line, markup=False, soft_wrap=True)
    weighting = "each row counted alike" if found.pair.evenly else "over the given traffic"
    console.print(f"loses {100 * found.pair.loss:.1f} % against the table, {weighting}", markup=False)
    for name, side in (("prefill", found.pair.prefill), ("decode", found.pair.decode)):
        if side is not None:
            text = f"{name}: {side.choice.backend}, {100 * side.loss:.1f} % over the best of each row"
            console.print(f"{text}, {100 * side.loss_to_sglang:.1f} % over the best that SGLang reaches", markup=False)
    for text in (*found.plan.side_effects, *(f"not expressed: {t}" for t in found.plan.not_expressed), *found.notes):
        console.print(f"note: {text}", markup=False, soft_wrap=True)
