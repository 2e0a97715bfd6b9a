"""`attnroof validate`: does a saved configuration still hold on this device."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.errors import AnswerIsNo
from cli.options import JsonOption
from cli.output import print_table, stderr_console, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.validation import Checked

ConfigOption = Annotated[str, typer.Option("--config", help="A configuration that `attnroof tune` saved.")]


def validate(
    config: ConfigOption,
    device: Annotated[str | None, typer.Option("--device", help="cuda:0 or cpu; the first GPU, else the CPU.")] = None,
    rows: Annotated[int | None, typer.Option("--rows", min=1, help="Rows to check; all if not given.")] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=3, max=1000, help="Repeats of each candidate.")] = 9,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Draws inputs, order and rows.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Measure the winners again; exit 1 where one lost by more than the noise."""
    from executors.isolated import IsolatedMeasurer
    from tuner.configuration import read
    from tuner.setup import device_profile, first_device
    from tuner.validation import check_device, sample_rows, validate_row

    configuration = read(Path(config))
    device = device or first_device()
    say = stderr_console()
    checked = []
    with IsolatedMeasurer(device) as measurer:
        check_device(configuration, measurer)
        profile = device_profile(device, calibrated=False)
        for row in sample_rows(configuration, rows, seed):
            checked.append(validate_row(configuration, row, measurer, profile, seed=seed, repeats=repeats))
            say.print(f"{row.phase} {row.spec}: {checked[-1].finding}", markup=False)
    if not checked:
        raise AnswerIsNo(f"{config} holds no measured row: there is nothing to validate; run attnroof tune")
    write_json(checked_json(checked)) if as_json else print_checked(checked)
    lost = [c for c in checked if c.finding in ("lost", "gone")]
    if lost:
        raise AnswerIsNo(f"{len(lost)} of {len(checked)} winners do not hold: " + "; ".join(c.text for c in lost))
    unsteady = [c for c in checked if c.finding == "unsteady"]
    if len(unsteady) == len(checked):
        raise AnswerIsNo(f"nothing can be said while the machine is busy or unsteady: {unsteady[0].text}")
    if unsteady:
        say.print(f"{len(unsteady)} of {len(checked)} rows could not be judged: the machine was busy or unsteady")


def checked_json(checked: "Sequence[Checked]") -> list[dict[str, Any]]:
    """The findings as JSON."""
    return [
        {
            "phase": c.row.phase,
            "key": c.row.key,
            "spec": c.row.spec,
            "finding": c.finding,
            "best": c.row.best.candidate.key,
            "saved_us": c.row.best.measured_us,
            "now_us": c.now_us,
            "text": c.text,
        }
        for c in checked
    ]


def print_checked(checked: "Sequence[Checked]") -> None:
    """Print one line per row."""
    from rich.table import Table

    table = Table(title="saved winners, measured again", title_justify="left")
    table.add_column("workload", no_wrap=True)
    table.add_column("finding", no_wrap=True)
    table.add_column("saved us", justify="right")
    table.add_column("now us", justify="right")
    table.add_column("what was found", overflow="fold")
    for c in checked:
        now = c.now_us.get(c.row.best.candidate.key)
        saved = f"{c.row.best.measured_us or 0:.1f}"
        table.add_row(f"{c.row.phase} {c.row.spec}", c.finding, saved, "-" if now is None else f"{now:.1f}", c.text)
    print_table(table)
