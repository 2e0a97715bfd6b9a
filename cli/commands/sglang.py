"""`attnroof sglang`: what SGLang will do with a launch line on a device, before a server is started."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.errors import AnswerIsNo
from cli.options import GpuOption, JsonOption, ModelOption
from cli.output import print_table, stdout_console, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.sglang import SglangDecision


def sglang(
    model: ModelOption,
    gpu: GpuOption,
    args: Annotated[list[str] | None, typer.Argument(help="Launch arguments, after --.")] = None,
    version: Annotated[str | None, typer.Option("--sglang", help="SGLang version; default the newest known.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what SGLang picks for these arguments, what it rewrites and why, or why it refuses."""
    from costmodel import load_model, sglang_resolve
    from costmodel.sglang import warnings_on
    from hwprofiles import load_profile

    loaded, profile = load_model(model), load_profile(gpu)
    decision = sglang_resolve(loaded, profile, args or [], version)
    warnings = warnings_on(decision, loaded, profile)
    if as_json:
        write_json({**decision_json(decision), "warnings": list(warnings)})
    else:
        print_decision(decision, profile.name, warnings)
    if decision.refused:
        raise AnswerIsNo(f"SGLang {decision.sglang} refuses this line ({decision.refused})")


def decision_json(decision: "SglangDecision") -> dict[str, Any]:
    """The decision as JSON."""
    return {
        "sglang_version": decision.sglang,
        "prefill": decision.prefill,
        "decode": decision.decode,
        "page_size": decision.page_size,
        "kv_cache_dtype": decision.kv_cache_dtype,
        "kv_pool_dtype": decision.kv_pool_dtype,
        "draft": decision.draft,
        "radix_cache": decision.radix_cache,
        "refused": decision.refused,
        "stage": decision.stage,
        "changed": [
            {
                "field": c.field,
                "before": c.before,
                "after": c.after,
                "why": c.why,
                "asked": c.asked,
                "source": c.source,
            }
            for c in decision.changed
        ],
        "notes": list(decision.notes),
    }


def print_decision(decision: "SglangDecision", device: str, warnings: "Sequence[str]" = ()) -> None:
    """Print the values, then what was changed, then remarks."""
    from rich.table import Table

    console = stdout_console()
    if decision.prefill is not None:
        table = Table(title=f"SGLang {decision.sglang} on {device}", title_justify="left", show_header=False)
        table.add_column()
        table.add_column(overflow="fold")
        for name, value in (
            ("prefill", decision.prefill),
            ("decode", decision.decode),
            ("draft", decision.draft),
            ("page size", decision.page_size),
            ("KV cache", f"{decision.kv_cache_dtype} (stored as {decision.kv_pool_dtype})"),
            ("prefix cache", "on" if decision.radix_cache else "off"),
        ):
            if value is not None:
                table.add_row(name, str(value))
        print_table(table)
    if decision.changed:
        table = Table(title="set by SGLang", title_justify="left")
        for column in ("option", "from", "to", "why"):
            table.add_column(column, overflow="fold")
        for change in decision.changed:
            before = "unset" if change.before is None else str(change.before)
            mark = " (asked otherwise)" if change.asked else ""
            table.add_row(change.field, before, str(change.after), change.why + mark)
        print_table(table)
    for warning in warnings:
        console.print(f"SGLang accepts this line, but {warning}", markup=False)
    for note in decision.notes:
        console.print(f"note: {note}", markup=False)
