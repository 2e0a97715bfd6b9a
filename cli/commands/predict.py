"""`attnroof predict`: what every backend would take on a device, without the device."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cli.errors import AnswerIsNo, WrongInput
from cli.options import GpuOption, JsonOption, KvDtypeOption, ModelOption, PageSizeOption, TpOption

if TYPE_CHECKING:
    from costmodel import Batch, KnobValue, LayerGroup, Ranked
    from hwprofiles import Profile


class MlaForm(StrEnum):
    """Values of `--mla-form`."""

    AUTO = "auto"
    ABSORBED = "absorbed"
    EXPANDED = "expanded"


BatchSpecOption = Annotated[
    str | None,
    typer.Option("--batch-spec", help="(<n>)q<len>[k][s<len>[k]] joined by _, for example 8q1s4k or 2q2k_32q1s1k."),
]
PhaseOption = Annotated[str | None, typer.Option("--phase", help="extend, decode, verify or mixed; else by length.")]
BackendOption = Annotated[list[str] | None, typer.Option("--backend", help="Only this backend; may be repeated.")]
SweepOption = Annotated[bool, typer.Option("--sweep", help="The fastest backend over a grid of decode batches.")]
KnobOption = Annotated[list[str] | None, typer.Option("--knob", help="K=V of the backend named by --backend.")]
SharedPrefixOption = Annotated[
    int, typer.Option("--shared-prefix", min=0, help="First tokens that all requests share, on the same pages.")
]
DeterministicOption = Annotated[
    bool, typer.Option("--deterministic", help="As SGLang calls backends with --enable-deterministic-inference.")
]
MlaFormOption = Annotated[
    MlaForm,
    typer.Option(
        "--mla-form",
        help="Form of MLA in prefill; auto: as SGLang per backend and cached tokens, outside CUDA graphs "
        "(in one, up to 8,192 new tokens, it is absorbed).",
    ),
]


def predict(
    model: ModelOption,
    gpu: GpuOption,
    batch_spec: BatchSpecOption = None,
    phase: PhaseOption = None,
    backend: BackendOption = None,
    knob: KnobOption = None,
    tp: TpOption = 1,
    page_size: PageSizeOption = 1,
    kv_cache_dtype: KvDtypeOption = "auto",
    sweep: SweepOption = False,
    shared_prefix: SharedPrefixOption = 0,
    deterministic: DeterministicOption = False,
    mla_form: MlaFormOption = MlaForm.AUTO,
    as_json: JsonOption = False,
) -> None:
    """Estimate one layer's attention call per backend, with the reason; fastest first."""
    from dataclasses import replace

    from cli.asked import Asked, best_free, estimates
    from cli.estimates import estimate_json
    from cli.output import write_json
    from costmodel import group_per_rank, load_model, parse_batch_spec
    from hwprofiles import load_profile

    profile, read = load_profile(gpu), load_model(model)
    groups = [group_per_rank(g, tp, kv_cache_dtype) for g in read.layer_groups]
    if sweep:
        print_sweep(groups, profile, page_size, backend, as_json=as_json)
        return
    if batch_spec is None:
        raise WrongInput("--batch-spec is missing: give the batch, such as 8q1s4k, or --sweep for a grid of decodes")
    knobs = parse_knobs(knob or [])
    if knobs and not backend:
        raise WrongInput("--knob needs --backend: knobs belong to one backend")
    plain = [parse_batch_spec(batch_spec, page_size=page_size, phase=phase, layers=g.layers) for g in groups]
    batches = [replace(batch, shared_prefix=shared_prefix) for batch in plain]
    check_fit(groups, batches, profile)
    asked = Asked(tuple(backend or ()), knobs, deterministic, mla_form.value, read.context_length)
    pairs = list(zip(groups, batches, strict=True))
    ranked = [estimates(g.attention, b, profile, asked) for g, b in pairs]
    free = [best_free(g.attention, b, profile, asked) if deterministic else {} for g, b in pairs]
    if as_json:
        rows_of = enumerate(zip(batches, ranked, free, strict=True))
        write_json(
            [
                {**estimate_json(row, b.phase, i), **free_json(row, best, deterministic=deterministic)}
                for i, (b, rows, best) in rows_of
                for row in rows
            ]
        )
    else:
        for index, (group, batch) in enumerate(pairs):
            print_group(index, group, batch, ranked[index], profile, free[index])
    if not any(row.prediction for rows in ranked for row in rows):
        raise AnswerIsNo("no backend can run this workload on that device; the reasons are in the table")


def print_sweep(
    groups: "list[LayerGroup]", profile: "Profile", page_size: int, backends: list[str] | None, *, as_json: bool
) -> None:
    """Print the fastest backend over a grid of decode batches, one table a layer group."""
    from dataclasses import asdict

    from cli.output import stdout_console, write_json
    from cli.sweep_picture import sweep_picture
    from cli.sweep_table import fastest, styles_of, sweep_table, winners_first
    from costmodel.emulators import EMULATORS

    grids = [fastest(group.attention, profile, page_size, backends or list(EMULATORS)) for group in groups]
    if not any(grids):
        raise AnswerIsNo("no backend can run decode batches of this model on that device")
    if as_json:
        cells = [{"layer_group": i, **asdict(cell)} for i, grid in enumerate(grids) for cell in grid]
        write_json([{**cell, "latency_us": cell.pop("seconds") * 1e6} for cell in cells])
        return
    console = stdout_console()
    for i, (group, grid) in enumerate(zip(groups, grids, strict=True)):
        a = group.attention
        names = winners_first(grid, backends or list(EMULATORS))
        styles = styles_of(names)
        title = f"Layer group {i}: {a.family} {a.num_qo_heads}/{a.num_kv_heads} decode on {profile.name}, us a layer"
        console.print(sweep_table(title, grid, styles))
        console.print(sweep_picture(a, profile, page_size, names, styles=styles, width=console.width))


def free_json(row: "Ranked", free: "dict[str, float]", *, deterministic: bool) -> dict[str, float | None]:
    """Give the best latency of a row's backend where nothing has to be deterministic; nothing outside that mode."""
    if not deterministic:
        return {}
    seconds = free.get(row.backend)
    return {"free_latency_us": None if seconds is None else seconds * 1e6}


def parse_knobs(texts: list[str]) -> "dict[str, KnobValue]":
    """Read `K=V` options; V becomes a whole number, true/false, or stays text."""
    knobs: dict[str, KnobValue] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name or not value:
            raise WrongInput(f"--knob {text!r}: write K=V, for example num_splits=8")
        lowered = value.lower()
        if lowered in ("true", "false"):
            knobs[name] = lowered == "true"
        else:
            knobs[name] = int(value) if value.lstrip("-").isdecimal() else value
    return knobs


def check_fit(groups: "list[LayerGroup]", batches: "list[Batch]", profile: "Profile") -> None:
    """Check that the KV cache of all layers fits the device's memory; weights are not counted."""
    from costmodel.bound import bytes_text
    from costmodel.predict import kv_cache_bytes

    needed = sum(kv_cache_bytes(g.attention, b) for g, b in zip(groups, batches, strict=True))
    memory = profile.require("memory_bytes")
    if needed > memory:
        raise WrongInput(
            f"the KV cache of this batch takes {bytes_text(needed)} over all layers of a rank, {profile.name} has "
            f"{bytes_text(memory)}: {bytes_text(needed - memory)} too much; use fewer or shorter requests"
        )


def print_group(
    index: int,
    group: "LayerGroup",
    batch: "Batch",
    rows: "list[Ranked]",
    profile: "Profile",
    free: "dict[str, float]",
) -> None:
    """Print one layer group's ranking, then why the fastest takes as long as it does."""
    from cli.output import print_table, stdout_console
    from cli.predict_table import cascade_verdict, predict_table

    a = group.attention
    shared = f", {batch.shared_prefix} of them shared" if batch.shared_prefix else ""
    title = (
        f"Layer group {index}: {group.layers} layers, {a.family} {a.num_qo_heads}/{a.num_kv_heads} heads, "
        f"dim {a.head_dim}; {batch.phase}, {batch.size} requests, {batch.total_kv} KV tokens{shared} on {profile.name}"
    )
    print_table(predict_table(title, rows, free))
    console = stdout_console()
    noted = [row for row in rows if row.prediction and row.prediction.notes]
    for row in rows[:1] if rows[:1] == noted[:1] else rows[:1] + noted[:1]:
        if row.prediction:
            console.print("; ".join((f"{row.backend}: {row.prediction.reason}", *row.prediction.notes)))
    if batch.shared_prefix and (verdict := cascade_verdict(rows)):
        console.print(verdict)
    for row in rows:
        if row.prediction is None:
            console.print(f"cannot run: {row.backend}: {'; '.join(row.reasons)}", style="dim")
