"""`attnroof sglang`: what SGLang will do with a launch line on a device, before a server is started."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.errors import AnswerIsNo
from cli.options import GpuOption, JsonOption, ModelOption
from cli.output import print_table, stdout_console, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.sglang import Preference, SglangDecision


def sglang(
    model: ModelOption,
    gpu: GpuOption,
    args: Annotated[list[str] | None, typer.Argument(help="Launch arguments, after --.")] = None,
    version: Annotated[str | None, typer.Option("--sglang", help="SGLang version; default the newest known.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what SGLang picks for these arguments, what it rewrites and why, or why it refuses."""
    from costmodel import load_model, sglang_resolve
    from costmodel.sglang import preferred, warnings_on, without_attention_flags
    from hwprofiles import load_profile

    loaded, profile, line = load_model(model), load_profile(gpu), args or []
    decision = sglang_resolve(loaded, profile, line, version)
    warnings = warnings_on(decision, loaded, profile)
    ours = preferred(loaded, profile, line, decision)
    plain = without_attention_flags(line, decision.sglang)
    default = sglang_resolve(loaded, profile, plain, version) if decision.refused else None
    if as_json:
        write_json(
            {
                **decision_json(decision),
                "warnings": list(warnings),
                "default": decision_json(default) if default else None,
                "ours": preference_json(ours) if ours else None,
            }
        )
    else:
        print_decision(decision, profile.name, warnings)
        print_alternatives(ours, default)
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


def preference_json(ours: "Preference") -> dict[str, Any]:
    """The pair that the cost model would launch, as JSON; microseconds for all layers of one step."""
    theirs = ours.sglang_times
    return {
        "prefill": ours.prefill,
        "decode": ours.decode,
        "page_size": ours.plan.decision.page_size if ours.plan.decision else None,
        "flags": list(ours.plan.flags),
        "env": dict(ours.plan.env),
        "keeps_sglang": ours.keeps_sglang,
        "evidence": ours.evidence,
        "prefill_us": ours.times.extend[0] * 1e6,
        "decode_us": ours.times.decode[0] * 1e6,
        "sglang_prefill_us": theirs.extend[0] * 1e6 if theirs else None,
        "sglang_decode_us": theirs.decode[0] * 1e6 if theirs else None,
    }


def print_alternatives(ours: "Preference | None", default: "SglangDecision | None") -> None:
    """Print what SGLang would do without the attention flags of a refused line, and what we would launch."""
    from costmodel.sglang import WORKLOAD

    console = stdout_console()
    if default is not None and not default.refused:
        console.print(
            f"without its backend, page and KV flags SGLang would serve with prefill={default.prefill}, "
            f"decode={default.decode}, page {default.page_size}",
            markup=False,
        )
    if ours is None:
        return
    if ours.keeps_sglang:
        console.print(
            "we would keep SGLang's pick: nothing is predicted to be faster beyond the uncertainty", markup=False
        )
        if ours.times != ours.sglang_times:
            console.print(f"  nearest is prefill={ours.prefill}, decode={ours.decode}: {because(ours)}", markup=False)
    else:
        console.print(f"we would pick prefill={ours.prefill}, decode={ours.decode}: {because(ours)}", markup=False)
        console.print(f"  {ours.plan.shell()}", markup=False, soft_wrap=True)
    console.print(f"  ({WORKLOAD}; evidence: {ours.evidence})", markup=False)


def because(ours: "Preference") -> str:
    """Say why, in the order a user would ask."""
    times = f"decode {ours.times.decode[0] * 1e6:.0f} us, prefill {ours.times.extend[0] * 1e6:.0f} us"
    theirs = ours.sglang_times
    if theirs is None:
        return f"it starts here; predicted {times}"
    return f"predicted {times} against {theirs.decode[0] * 1e6:.0f} us and {theirs.extend[0] * 1e6:.0f} us"
