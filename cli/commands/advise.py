"""`attnroof advise`: which prefill and decode backends serve a load best, by how much, and whether it is real."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.errors import AnswerIsNo, WrongInput
from cli.options import GpuOption, JsonOption, KvDtypeOption, ModelOption, TpOption
from cli.output import stderr_console, write_json

if TYPE_CHECKING:
    from costmodel.serving import Advice, Load

DEFAULT_CONCURRENCY = 16

IslOption = Annotated[int, typer.Option("--isl", min=1, help="Input tokens of a request.")]
OslOption = Annotated[int, typer.Option("--osl", min=1, help="Output tokens of a request.")]
ConcurrencyOption = Annotated[int | None, typer.Option("--concurrency", min=1, help="Requests at all times.")]
RateOption = Annotated[float | None, typer.Option("--rate", help="Requests a second, instead of --concurrency.")]
CachedOption = Annotated[int, typer.Option("--cached", min=0, help="Input tokens that the prefix cache holds.")]
EpOption = Annotated[int, typer.Option("--ep", min=1, help="Expert-parallel size inside --tp.")]
GoalOption = Annotated[
    Literal["ttft", "tpot", "throughput"] | None,
    typer.Option("--goal", help="What counts; throughput if unset, with --rate tpot."),
]
SloTtftOption = Annotated[float | None, typer.Option("--slo-ttft-ms", help="Longest time to the first token.")]
SloTpotOption = Annotated[float | None, typer.Option("--slo-tpot-ms", help="Longest time per output token.")]
ServerPageOption = Annotated[int | None, typer.Option("--page-size", min=1, help="Tokens in one KV page.")]
EmitOption = Annotated[
    Literal["sglang", "vllm", "json"] | None, typer.Option("--emit", help="Only the recommended launch line, or JSON.")
]


def advise(
    model: ModelOption,
    gpu: GpuOption,
    tp: TpOption = 1,
    ep: EpOption = 1,
    isl: IslOption = 1024,
    osl: OslOption = 256,
    concurrency: ConcurrencyOption = None,
    rate: RateOption = None,
    cached: CachedOption = 0,
    goal: GoalOption = None,
    slo_ttft_ms: SloTtftOption = None,
    slo_tpot_ms: SloTpotOption = None,
    page_size: ServerPageOption = None,
    kv_cache_dtype: KvDtypeOption = "auto",
    emit: EmitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rank the pairs of backends for a steady load; SGLang's own choice beside them."""
    from cli.advice import advice_json
    from cli.advice_tables import print_advice
    from cli.recorded import read_recorded
    from costmodel import Incompatible, load_model
    from costmodel.serving import Asked, Parallel, Slo
    from costmodel.serving import advise as rank_pairs
    from hwprofiles import load_profile

    load = given_load(isl, osl, concurrency, rate, cached)
    slo = Slo(_seconds(slo_ttft_ms), _seconds(slo_tpot_ms))
    asked = Asked(load_model(model), load_profile(gpu), Parallel(tp, ep), page_size, kv_cache_dtype)
    recorded = read_recorded(asked.profile)
    try:
        advice = rank_pairs(asked, load, goal or usual_goal(load), slo, recorded.seconds)
    except Incompatible as error:
        raise AnswerIsNo(
            "\n  ".join(
                (f"no pair runs {asked.model.name} on {asked.profile.name} and can be predicted:", *error.reasons)
            )
        ) from None
    if as_json or emit == "json":
        write_json(advice_json(advice, asked, recorded, model))
    elif emit is not None:
        print_line(advice, model, emit)
    else:
        print_advice(advice, asked, recorded, model)
    if all(choice.missed for choice in advice.choices):
        raise AnswerIsNo(f"no pair keeps the SLO: {advice.choices[0].name}: {'; '.join(advice.choices[0].missed)}")


def usual_goal(load: "Load") -> Literal["tpot", "throughput"]:
    """Give what counts where nobody says; at a rate of arrivals the throughput of all pairs is the same."""
    return "throughput" if load.rate is None else "tpot"


def given_load(isl: int, osl: int, concurrency: int | None, rate: float | None, cached: int = 0) -> "Load":
    """Make the load of the options."""
    from costmodel.serving import Load

    if concurrency is not None and rate is not None:
        raise WrongInput("--concurrency and --rate exclude each other: give one of them")
    assumed = concurrency is None and rate is None
    load = Load(isl, osl, DEFAULT_CONCURRENCY if assumed else concurrency, rate, cached)
    if assumed:
        stderr_console().print(f"no --concurrency or --rate: {DEFAULT_CONCURRENCY} requests at all times are assumed")
    return load


def print_line(advice: "Advice", model: str, engine: str) -> None:
    """Print the launch line of the recommended pair alone."""
    from cli.advice import launch_plan
    from cli.launch_line import launch_line

    plan = launch_plan(advice, engine)
    typer.echo(launch_line(plan, model))
    for text in (*plan.side_effects, *(f"not expressed: {text}" for text in plan.not_expressed)):
        stderr_console().print(f"note: {text}", markup=False, soft_wrap=True)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds * 1e-3
