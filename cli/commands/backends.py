"""`attnroof backends`: which of SGLang's backend names run a model on a device, and why not."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.errors import AnswerIsNo, WrongInput
from cli.options import GpuOption, JsonOption, KvDtypeOption, ModelOption, TpOption
from cli.output import print_table, stdout_console, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel import Model
    from costmodel.compat import Judgement, Options, Row
    from hwprofiles import Profile

MARKS = {"compatible": "✓", "rewritten": "~", "unknown": "?", "incompatible": "✗"}
ORDER = ("compatible", "rewritten", "unknown", "incompatible")


def backends(
    model: ModelOption,
    gpu: GpuOption,
    tp: TpOption = 1,
    page_size: Annotated[
        int | None, typer.Option("--page-size", min=1, max=1 << 16, help="Tokens in one page.")
    ] = None,
    kv_cache_dtype: KvDtypeOption = "auto",
    spec_topk: Annotated[int | None, typer.Option("--spec-topk", min=1, help="Speculative topk; none without.")] = None,
    deterministic: Annotated[bool, typer.Option("--deterministic", help="Judge for deterministic inference.")] = False,
    sglang: Annotated[str | None, typer.Option("--sglang", help="SGLang release, such as 0.5.22.")] = None,
    cuda: Annotated[float, typer.Option("--cuda", min=9.0, max=99.0, help="CUDA toolkit version.")] = 13.0,
    cuda_graph: Annotated[bool, typer.Option("--cuda-graph/--disable-cuda-graph", help="CUDA graphs.")] = True,
    max_running_requests: Annotated[
        int | None, typer.Option("--max-running-requests", min=1, help="Largest decode batch, to check workspaces.")
    ] = None,
    draft_model: Annotated[
        str | None, typer.Option("--draft-model", help="Config of the speculative draft model, for the draft rows.")
    ] = None,
    pair: Annotated[
        str | None, typer.Option("--pair", help="PREFILL,DECODE: whether these two can serve together.")
    ] = None,
    why: Annotated[str | None, typer.Option("--why", help="All reasons for one backend name.")] = None,
    json: JsonOption = False,
) -> None:
    """Say for each of SGLang's 24 backend names whether it runs, why not, and with which settings."""
    from costmodel import load_model
    from costmodel.compat import Options, judge
    from costmodel.compat.versions import CURRENT
    from hwprofiles import load_profile

    loaded, profile = load_model(model), load_profile(gpu)
    options = Options(
        tp=tp,
        page_size=page_size,
        kv_cache_dtype=kv_cache_dtype,
        spec_topk=spec_topk,
        deterministic=deterministic,
        cuda=cuda,
        sglang=CURRENT if sglang is None else sglang,
        cuda_graph=cuda_graph,
        max_requests=max_running_requests,
    )
    if pair is not None:
        show_pair(loaded, profile, options, pair, json)
        return
    judgement = judge(loaded, profile, options, draft_model=load_model(draft_model) if draft_model else None)
    default = sglang_default(loaded, profile, options)
    rows = [*judgement.rows, *judgement.extra]
    if why is not None:
        rows = of_backend(rows, why)
    if json:
        write_json(judgement_json(judgement, default, rows))
    elif why is not None:
        print_why(loaded, rows, why)
    else:
        print_judgement(loaded, judgement, default)
    if not running(judgement.rows):
        raise AnswerIsNo(f"none of the names is known to serve {loaded.name} on {profile.name}; --why NAME says why")


def show_pair(model: "Model", profile: "Profile", options: "Options", pair: str, json: bool) -> None:
    """Print whether a prefill and a decode backend can serve together; the answer may be no."""
    from costmodel import UnknownBackend
    from costmodel.compat import backend_names, judge_pair

    names = tuple(name.strip() for name in pair.split(","))
    if len(names) != 2:
        raise WrongInput(f"--pair {pair!r}: give two names, PREFILL,DECODE, such as fa3,flashmla")
    for name in names:
        if name not in backend_names():
            raise UnknownBackend(name, backend_names())
    found = judge_pair(model, profile, *names, options)
    if json:
        fields = ("prefill", "decode", "page_size")
        write_json(
            {name: getattr(found, name) for name in fields}
            | {"compatible": not found.reasons, "reasons": list(found.reasons), "notes": list(found.notes)}
        )
    else:
        console = stdout_console()
        page = f"page size {found.page_size}" if found.page_size else "any page size"
        console.print(f"prefill {names[0]}, decode {names[1]}: {page}", markup=False)
        for line in (*found.reasons, *(f"note: {note}" for note in found.notes)):
            console.print(f"    {line}", markup=False)
    if found.reasons:
        raise AnswerIsNo(f"{names[0]} for prefill and {names[1]} for decode cannot serve {model.name} together here")


def of_backend(rows: "Sequence[Row]", name: str) -> "list[Row]":
    """Give the rows of one name; a name that is not there is wrong input."""
    from costmodel import UnknownBackend

    found = [row for row in rows if row.backend == name]
    if not found:
        raise UnknownBackend(name, {row.backend for row in rows})
    return found


def running(rows: "Sequence[Row]") -> list[str]:
    """The names that serve prefill or decode of every layer group, as known."""
    names: list[str] = []
    for name in dict.fromkeys(row.backend for row in rows):
        mine = [row for row in rows if row.backend == name]
        for phase in ("extend", "decode"):
            if all(row.verdict in ("compatible", "rewritten") for row in mine if row.phase == phase):
                names.append(name)
                break
    return names


def sglang_default(model: "Model", profile: "Profile", options: "Options") -> dict[str, str | None]:
    """What SGLang takes when no backend is named."""
    from costmodel.sglang import nearest_version, sglang_resolve

    args = ["--tp-size", str(options.tp)]
    if options.page_size is not None:
        args += ["--page-size", str(options.page_size)]
    if options.kv_cache_dtype != "auto":
        args += ["--kv-cache-dtype", options.kv_cache_dtype]
    if options.spec_topk is not None:
        steps, drafts = ("3", "4") if options.spec_topk == 1 else ("3", str(4 * options.spec_topk))
        args += ["--speculative-algorithm", "EAGLE", "--speculative-num-steps", steps]
        args += ["--speculative-eagle-topk", str(options.spec_topk), "--speculative-num-draft-tokens", drafts]
    if options.deterministic:
        args += ["--enable-deterministic-inference"]
    decision = sglang_resolve(model, profile, args, sglang=nearest_version(options.sglang))
    return {
        "prefill": decision.prefill,
        "decode": decision.decode,
        "refused": decision.refused,
        "rules_of": decision.sglang,
    }


def judgement_json(judgement: "Judgement", default: dict[str, str | None], rows: "Sequence[Row]") -> dict[str, Any]:
    """The verdicts as JSON."""
    extra = {row.backend for row in judgement.extra}
    return {
        "model": judgement.model,
        "device": judgement.device,
        "sglang_version": judgement.sglang_version,
        "sglang_default": default,
        "backends": [row_json(row) for row in rows if row.backend not in extra],
        "extra": [row_json(row) for row in rows if row.backend in extra],
        "warnings": list(judgement.warnings),
    }


def row_json(row: "Row") -> dict[str, Any]:
    """One verdict as JSON."""
    return {
        "backend": row.backend,
        "alias_of": row.alias_of,
        "phase": row.phase,
        "layer_group": row.layer_group,
        "verdict": row.verdict,
        "reasons": list(row.reasons),
        "notes": list(row.notes),
        "settings": dict(row.settings),
        "instead": list(row.instead),
    }


def worst(rows: "Sequence[Row]") -> "Row":
    """The row with the worst verdict, the first of them."""
    return max(rows, key=lambda row: ORDER.index(row.verdict))


def cell(rows: "Sequence[Row]") -> str:
    """One phase of one name: the verdict over all layer groups, and one mark a group where they differ."""
    marks = [MARKS[row.verdict] for row in rows]
    overall = MARKS[worst(rows).verdict]
    return overall if len(set(marks)) == 1 else f"{overall} ({''.join(marks)})"


def first_reason(model: "Model", rows: "Sequence[Row]") -> str:
    """The reason that matters first, with the phase and layer group it is about where others fare better."""
    decode = [row for row in rows if row.phase == "decode"]
    row = worst(decode) if worst(decode).reasons else worst(rows)
    if not row.reasons:
        return row.notes[0] if row.notes else ""
    where = ""
    if any(r.verdict != row.verdict for r in rows if r.layer_group == row.layer_group):
        where = f"{row.phase}: "
    if any(r.verdict != row.verdict for r in rows if r.phase == row.phase):
        where += f"{group_words(model, row.layer_group)}: "
    return where + row.reasons[0]


def group_words(model: "Model", index: int) -> str:
    """A layer group in a few words."""
    a = model.layer_groups[index].attention
    reach = f", window {a.sliding_window}" if a.sliding_window else ""
    return f"group {index} (head dim {a.head_dim}{reach})"


def print_judgement(model: "Model", judgement: "Judgement", default: dict[str, str | None]) -> None:
    """Print one line a name: a mark for each phase and the first reason."""
    from rich.table import Table

    table = Table(
        title=f"{model.name} on {judgement.device}, SGLang {judgement.sglang_version}: ✓ runs, ~ runs with changes, "
        "? not known, ✗ does not run",
        title_justify="left",
    )
    table.add_column("backend", no_wrap=True)
    for phase in ("extend", "decode", "verify", "draft"):
        table.add_column(phase, justify="center", no_wrap=True)
    table.add_column("first reason", overflow="fold")
    for rows in by_backend(judgement.rows):
        name = rows[0].backend + (f" = {rows[0].alias_of}" if rows[0].alias_of else "")
        cells = [cell([row for row in rows if row.phase == phase]) for phase in ("extend", "decode", "verify", "draft")]
        table.add_row(name, *cells, first_reason(model, rows))
    print_table(table)
    console = stdout_console()
    refused = f" and is refused ({default['refused']})" if default.get("refused") else ""
    rules = "" if default["rules_of"] == judgement.sglang_version else f" (by the rules of {default['rules_of']})"
    console.print(f"SGLang's default{rules}: prefill {default['prefill']}, decode {default['decode']}{refused}")
    for line in remarks(model, judgement):
        console.print(line, markup=False)


def by_backend(rows: "Sequence[Row]") -> "list[list[Row]]":
    """Rows by name: those that run first, then by name."""
    names = dict.fromkeys(row.backend for row in rows)
    grouped = [[row for row in rows if row.backend == name] for name in names]
    return sorted(grouped, key=lambda rows: (min(ORDER.index(row.verdict) for row in rows), rows[0].backend))


def remarks(model: "Model", judgement: "Judgement") -> list[str]:
    """What to know beside the table."""
    lines = [f"warning: {warning}" for warning in judgement.warnings]
    if len(model.layer_groups) > 1:
        lines.append("a backend serves all layer groups of a model: a mark is the worst of its groups")
    if model.hybrid_linear:
        lines.append("the linear layers are not judged here; they have flags of their own (--linear-attn-backend)")
    if model.multimodal:
        lines.append(
            "vision and audio towers are not judged here; they have a flag of their own (--mm-attention-backend)"
        )
    return lines


def print_why(model: "Model", rows: "Sequence[Row]", name: str) -> None:
    """Print every reason and note of one name, phases and groups with the same answer together."""
    console = stdout_console()
    alias = rows[0].alias_of
    console.print(f"{name}" + (f" (= {alias})" if alias else ""), markup=False)
    answers: dict[tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]], list[Row]] = {}
    for row in rows:
        answers.setdefault((row.verdict, row.reasons, row.notes, row.instead), []).append(row)
    for (verdict, reasons, notes, instead), alike in answers.items():
        console.print(f"{MARKS[verdict]} {verdict}: {places(model, alike)}", markup=False)
        for line in (*reasons, *(f"note: {note}" for note in notes)):
            console.print(f"    {line}", markup=False)
        if instead:
            console.print(f"    runs here instead: {', '.join(instead)}", markup=False)


def places(model: "Model", rows: "Sequence[Row]") -> str:
    """Where an answer holds: phases, and layer groups where not all of them."""
    by_group: dict[int, list[str]] = {}
    for row in rows:
        by_group.setdefault(row.layer_group, []).append(row.phase)
    if len(by_group) == len(model.layer_groups) and len({tuple(phases) for phases in by_group.values()}) == 1:
        return ", ".join(by_group[rows[0].layer_group])
    return "; ".join(f"{', '.join(phases)} of {group_words(model, index)}" for index, phases in by_group.items())
