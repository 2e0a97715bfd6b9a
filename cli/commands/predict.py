"""`attnroof predict`: what every backend would take on a device, without the device."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli.errors import AnswerIsNo, WrongInput
from cli.options import GpuOption, JsonOption, KvDtypeOption, ModelOption, PageSizeOption, TpOption

if TYPE_CHECKING:
    from costmodel import Attention, Batch, Knobs, KnobValue, LayerGroup, Ranked
    from hwprofiles import Profile

BatchSpecOption = Annotated[
    str | None,
    typer.Option("--batch-spec", help="(<n>)q<len>[k][s<len>[k]] joined by _, for example 8q1s4k or 2q2k_32q1s1k."),
]
PhaseOption = Annotated[str | None, typer.Option("--phase", help="extend, decode, verify or mixed; else by length.")]
BackendOption = Annotated[list[str] | None, typer.Option("--backend", help="Only this backend; may be repeated.")]
SweepOption = Annotated[bool, typer.Option("--sweep", help="The fastest backend over a grid of decode batches.")]
KnobOption = Annotated[list[str] | None, typer.Option("--knob", help="K=V of the backend named by --backend.")]


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
    as_json: JsonOption = False,
) -> None:
    """Estimate one layer's attention call per backend, with the reason; fastest first."""
    from cli.estimates import estimate_json
    from cli.output import write_json
    from costmodel import form_for, group_per_rank, load_model, parse_batch_spec
    from hwprofiles import load_profile

    profile = load_profile(gpu)
    groups = [group_per_rank(g, tp, kv_cache_dtype) for g in load_model(model).layer_groups]
    if sweep:
        print_sweep(groups, profile, page_size, backend, as_json=as_json)
        return
    if batch_spec is None:
        raise WrongInput("--batch-spec is missing: give the batch, such as 8q1s4k, or --sweep for a grid of decodes")
    knobs = parse_knobs(knob or [])
    if knobs and not backend:
        raise WrongInput("--knob needs --backend: knobs belong to one backend")
    batches = [parse_batch_spec(batch_spec, page_size=page_size, phase=phase, layers=g.layers) for g in groups]
    check_fit(groups, batches, profile)
    ranked = [
        estimates(form_for(g.attention, b.phase), b, profile, backend, knobs)
        for g, b in zip(groups, batches, strict=True)
    ]
    if as_json:
        write_json(
            [
                estimate_json(row, b.phase, i)
                for i, (b, rows) in enumerate(zip(batches, ranked, strict=True))
                for row in rows
            ]
        )
    else:
        for index, (group, batch, rows) in enumerate(zip(groups, batches, ranked, strict=True)):
            print_group(index, group, batch, rows, profile)
    if not any(row.prediction for rows in ranked for row in rows):
        raise AnswerIsNo("no backend can run this workload on that device; the reasons are in the table")


def print_sweep(
    groups: "list[LayerGroup]", profile: "Profile", page_size: int, backends: list[str] | None, *, as_json: bool
) -> None:
    """Print the fastest backend over a grid of decode batches, one table a layer group."""
    from dataclasses import asdict

    from cli.output import print_table, write_json
    from cli.sweep_table import fastest, sweep_table
    from costmodel.emulators import EMULATORS

    grids = [fastest(group.attention, profile, page_size, backends or list(EMULATORS)) for group in groups]
    if not any(grids):
        raise AnswerIsNo("no backend can run decode batches of this model on that device")
    if as_json:
        cells = [{"layer_group": i, **asdict(cell)} for i, grid in enumerate(grids) for cell in grid]
        write_json([{**cell, "latency_us": cell.pop("seconds") * 1e6} for cell in cells])
        return
    for i, (group, grid) in enumerate(zip(groups, grids, strict=True)):
        a = group.attention
        title = f"Layer group {i}: {a.family} {a.num_qo_heads}/{a.num_kv_heads} decode on {profile.name}, us a layer"
        print_table(sweep_table(title, grid))


def estimates(
    attention: "Attention", batch: "Batch", profile: "Profile", backends: list[str] | None, knobs: "Knobs"
) -> "list[Ranked]":
    """Rank all backends, or estimate the named ones with the given knobs."""
    from costmodel import Incompatible, Ranked, predict, rank

    if not backends:
        return rank(attention, batch, profile=profile)
    rows = []
    for name in backends:
        try:
            estimate = predict(attention, batch, backend=name, profile=profile, knobs=knobs)
        except Incompatible as error:
            rows.append(Ranked(name, knobs, None, error.reasons))
        else:
            rows.append(Ranked(name, knobs, estimate))
    return sorted(rows, key=lambda row: row.prediction.seconds if row.prediction else float("inf"))


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


def print_group(index: int, group: "LayerGroup", batch: "Batch", rows: "list[Ranked]", profile: "Profile") -> None:
    """Print one layer group's ranking, then why the fastest takes as long as it does."""
    from rich.table import Table

    from cli.output import print_table, stdout_console

    a = group.attention
    title = (
        f"Layer group {index}: {group.layers} layers, {a.family} {a.num_qo_heads}/{a.num_kv_heads} heads, "
        f"dim {a.head_dim}; {batch.phase}, {batch.size} requests, {batch.total_kv} KV tokens on {profile.name}"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("backend")
    table.add_column("knobs")
    for name in ("latency us", "90 % interval", "splits"):
        table.add_column(name, justify="right")
    table.add_column("bound")
    table.add_column("evidence")
    for row in rows:
        if row.prediction is not None:
            p = row.prediction
            knobs = " ".join(f"{k}={v}" for k, v in row.knobs.items()) or "default"
            interval = f"{p.low * 1e6:.1f}-{p.high * 1e6:.1f}"
            table.add_row(
                row.backend, knobs, f"{p.seconds * 1e6:.1f}", interval, str(p.num_splits), p.bound, p.evidence
            )
    print_table(table)
    console = stdout_console()
    if rows and rows[0].prediction:
        console.print(f"{rows[0].backend}: {rows[0].prediction.reason}")
    for row in rows:
        if row.prediction is None:
            console.print(f"cannot run: {row.backend}: {'; '.join(row.reasons)}", style="dim")
