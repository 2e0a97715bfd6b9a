"""`attnroof explain`: one workload on one backend: tiles, waves, splits over SMs, in words and as a picture."""

from typing import TYPE_CHECKING

from cli.commands.predict import (
    BackendOption,
    BatchSpecOption,
    KnobOption,
    PhaseOption,
    parse_knobs,
)
from cli.errors import AnswerIsNo, WrongInput
from cli.options import GpuOption, JsonOption, KvDtypeOption, ModelOption, PageSizeOption, TpOption

if TYPE_CHECKING:
    from rich.console import Console

    from costmodel.explain import Explanation

BAR = 48
SPLIT_ROWS = 24


def explain(
    model: ModelOption,
    gpu: GpuOption,
    batch_spec: BatchSpecOption = None,
    phase: PhaseOption = None,
    backend: BackendOption = None,
    knob: KnobOption = None,
    tp: TpOption = 1,
    page_size: PageSizeOption = 1,
    kv_cache_dtype: KvDtypeOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Show what a kernel does with one workload; the fastest backend where none is named."""
    from cli.estimates import estimate_json
    from cli.output import stdout_console, write_json
    from cli.score_matrix import score_matrix_json, score_matrix_words
    from costmodel import (
        Incompatible,
        Ranked,
        group_per_rank,
        load_model,
        parse_batch_spec,
        rank_as_served,
        served_form,
    )
    from costmodel.explain import explain as take_apart
    from costmodel.machine import machine_of
    from costmodel.score_matrix import stored_scores
    from hwprofiles import load_profile

    if batch_spec is None:
        raise WrongInput("--batch-spec is missing: give the batch, for example 8q1s4k")
    profile, knobs = load_profile(gpu), parse_knobs(knob or [])
    if knobs and not backend:
        raise WrongInput("--knob needs --backend: knobs belong to one backend")
    documents = []
    for index, group in enumerate(group_per_rank(g, tp, kv_cache_dtype) for g in load_model(model).layer_groups):
        batch = parse_batch_spec(batch_spec, page_size=page_size, phase=phase, layers=group.layers)
        best = None if backend else rank_as_served(group.attention, batch, profile=profile)[0]
        if best and not best.prediction:
            raise AnswerIsNo("no backend can run this workload on that device; `attnroof predict` lists the reasons")
        for name in [best.backend] if best else backend or []:
            attention = served_form(group.attention, batch, name, profile=profile)
            stored = stored_scores(attention, batch, machine_of(profile))
            try:
                found = take_apart(attention, batch, backend=name, profile=profile, knobs=best.knobs if best else knobs)
            except Incompatible as error:
                raise AnswerIsNo(str(error)) from None
            row = estimate_json(Ranked(name, found.prediction.knobs, found.prediction), batch.phase, index)
            documents.append({**row, **schedule_json(found), "stored_scores": score_matrix_json(stored)})
            if not as_json:
                stdout_console().print(f"Layer group {index}: {group.layers} layers", style="bold")
                draw(stdout_console(), found, score_matrix_words(stored))
    if as_json:
        write_json(documents)


def schedule_json(found: "Explanation") -> dict[str, object]:
    """Give tiles, slots, loads and split counts as JSON."""
    plan, splits = found.plan, found.splits
    return {
        "tile": {"rows": plan.tile.rows, "keys": plan.tile.keys},
        "jobs": [{"count": count, "tiles": tiles} for count, tiles in plan.jobs],
        "slots": found.slots,
        "slot_loads": [{"tiles": load, "slots": width} for load, width in found.loads],
        "split_us": {str(count): seconds * 1e6 for count, seconds in splits.seconds.items()} if splits else {},
        "split_plateau": list(splits.plateau) if splits else [],
    }


def draw(console: "Console", found: "Explanation", scores: str) -> None:
    """Print one explanation; `scores` says what storing the score matrix would take."""
    from cli.wave_picture import wave_lines

    p, plan = found.prediction, found.plan
    console.print(f"{p.backend}: {p.seconds * 1e6:.1f} us (90 %: {p.low * 1e6:.1f} to {p.high * 1e6:.1f}), {p.bound}")
    console.print(f"  {p.reason}")
    console.print(
        f"  a tile is {plan.tile.rows} query rows x {plan.tile.keys} keys; {plan.job_count} CTAs with "
        f"{plan.total_tiles:.0f} tiles run on {found.slots} slots: {p.waves:.2f} waves"
    )
    console.print(scores)
    console.print("Where the time goes")
    for part, seconds in p.breakdown.items():
        if seconds > 0:
            console.print(f"  {part:9}{bar(seconds / p.seconds)} {seconds * 1e6:8.1f} us")
    console.print(f"What the slots do over time (each CTA's start and end counts as {found.job_tiles:.1f} tiles)")
    for line in wave_lines(found):
        console.print(line, markup=False)
    busy = sum(width for _, width in found.loads)
    if busy < found.slots:
        console.print(f"  {found.slots - busy:5} slots without work")
    if found.splits is not None and len(found.splits.seconds) > 1:
        plateau = ", ".join(str(count) for count in found.splits.plateau)
        console.print(f"Split count: best {found.splits.best}; within 1 %: {plateau}")
        slowest = max(found.splits.seconds.values())
        for count, seconds in list(found.splits.seconds.items())[:SPLIT_ROWS]:
            console.print(f"  {count:5} splits {bar(seconds / slowest)} {seconds * 1e6:8.1f} us")


def bar(share: float) -> str:
    """Give a bar of at most `BAR` characters."""
    return ("█" * max(1, round(share * BAR))).ljust(BAR)
