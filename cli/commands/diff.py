"""`attnroof diff`: what changed between two configurations or two sets of records."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.errors import AnswerIsNo, WrongInput
from cli.options import JsonOption
from cli.output import print_table, stdout_console, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.compare import Contents, Difference


def diff(
    a: Annotated[str, typer.Argument(help="Before: a configuration, a file of records, or a folder.")],
    b: Annotated[str, typer.Argument(help="After: the same kind.")],
    fail_on_slower: Annotated[bool, typer.Option("--fail-on-slower", help="Exit 1 where something is slower.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Say which calls became slower or faster by more than the noise, and which winners changed."""
    from tuner.compare import compare, read_contents

    before, after = read_contents(Path(a)), read_contents(Path(b))
    differences = compare(before, after)
    if as_json:
        write_json(diff_json(before, after, differences))
    else:
        print_differences(before, after, differences)
    if differences and all(d.ratio is None for d in differences):
        raise WrongInput(f"nothing was compared: no call is in both {a} and {b}")
    slower = [d for d in differences if d.change == "slower"]
    if fail_on_slower and slower:
        raise AnswerIsNo(f"{len(slower)} calls are slower; the worst: {slower[0].key} x {slower[0].ratio:.2f}")


def diff_json(before: "Contents", after: "Contents", differences: "Sequence[Difference]") -> dict[str, Any]:
    """The comparison as JSON."""
    return {
        "a": {"device": before.device, "calls": len(before.sides), "damaged_lines": before.damaged},
        "b": {"device": after.device, "calls": len(after.sides), "damaged_lines": after.damaged},
        "summary": summary(differences),
        "differences": [
            {
                "key": d.key,
                "change": d.change,
                "ratio": d.ratio,
                "a_us": d.a.latency_us if d.a else None,
                "b_us": d.b.latency_us if d.b else None,
                "a_version": d.a.version if d.a else None,
                "b_version": d.b.version if d.b else None,
                "a_winner": d.a.winner if d.a else None,
                "b_winner": d.b.winner if d.b else None,
            }
            for d in differences
        ],
    }


def summary(differences: "Sequence[Difference]") -> dict[str, int]:
    """Count the kinds of change."""
    kinds = ("slower", "faster", "same", "only_a", "only_b")
    counts = {kind: sum(d.change == kind for d in differences) for kind in kinds}
    return {**counts, "winner_changed": sum(d.winner_changed for d in differences)}


def print_differences(before: "Contents", after: "Contents", differences: "Sequence[Difference]") -> None:
    """Print what changed; what stayed the same is only counted."""
    from rich.table import Table

    console = stdout_console()
    if before.device != after.device:
        console.print(f"different devices: {before.device} and {after.device}", markup=False)
    changed = [d for d in differences if d.change in ("slower", "faster") or d.winner_changed]
    if changed:
        table = Table(title="changed by more than the noise", title_justify="left")
        table.add_column("call", overflow="fold")
        for name in ("a us", "b us", "b / a"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("what", overflow="fold")
        for d in changed:
            assert d.a is not None
            assert d.b is not None
            winner = f"; winner {d.a.winner} -> {d.b.winner}" if d.winner_changed else ""
            times = (f"{d.a.latency_us:.1f}", f"{d.b.latency_us:.1f}", f"{d.ratio:.3f}")
            table.add_row(d.key, *times, d.change + winner)
        print_table(table)
    console.print(", ".join(f"{n} {kind}" for kind, n in summary(differences).items()), markup=False)
    damaged = before.damaged + after.damaged
    if damaged:
        console.print(f"{damaged} damaged lines were skipped", markup=False)
