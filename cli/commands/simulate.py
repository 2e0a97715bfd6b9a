"""`attnroof simulate`: continuous batching over synthetic arrivals or a trace, with percentiles and goodput."""

from typing import Annotated, Literal

import typer

from cli.errors import AnswerIsNo
from cli.options import GpuOption, JsonOption, KvDtypeOption, ModelOption, TpOption
from cli.output import write_json

TraceOption = Annotated[
    str | None, typer.Option("--trace", help="Azure or BurstGPT CSV, Mooncake JSONL, ShareGPT-like JSON.")
]
RpsOption = Annotated[float | None, typer.Option("--rps", help="Requests a second.")]
ConcurrencyOption = Annotated[int | None, typer.Option("--concurrency", min=1, help="Requests at all times.")]
CountOption = Annotated[int | None, typer.Option("--num-requests", min=1, help="Requests, of a trace too.")]
IslOption = Annotated[int | None, typer.Option("--isl", min=1, help="Input tokens of a request.")]
OslOption = Annotated[int | None, typer.Option("--osl", min=1, help="Output tokens of a request.")]
SpreadOption = Annotated[float, typer.Option("--spread", help="Half-width of --isl and --osl, as a share.")]
CvOption = Annotated[float, typer.Option("--cv", help="Variation of the gaps: 1 Poisson, 0 even, more is bursty.")]
CachedOption = Annotated[float, typer.Option("--prefix-share", help="Share of --isl in the prefix cache.")]
BackendOption = Annotated[str | None, typer.Option("--backend", help="Backend of both phases; SGLang's own if unset.")]
PrefillOption = Annotated[str | None, typer.Option("--prefill-backend", help="Backend of prefill alone.")]
DecodeOption = Annotated[str | None, typer.Option("--decode-backend", help="Backend of decode alone.")]
PageOption = Annotated[int | None, typer.Option("--page-size", min=1, help="Tokens in one KV page.")]
RunningOption = Annotated[int | None, typer.Option("--max-running-requests", min=1, help="As SGLang's option.")]
ChunkOption = Annotated[int | None, typer.Option("--chunked-prefill-size", min=1, help="As SGLang's option.")]
MixedOption = Annotated[bool, typer.Option("--enable-mixed-chunk", help="Decode inside prefill steps.")]
EosOption = Annotated[bool, typer.Option("--ignore-eos", help="Output lengths are known, as in benchmarks.")]
DraftOption = Annotated[int | None, typer.Option("--draft-tokens", min=2, help="Tokens of one verification.")]
AcceptOption = Annotated[
    float | None, typer.Option("--acceptance", help="Chance that a drafted token is accepted; 0.7 if unset.")
]
SloTtftOption = Annotated[float | None, typer.Option("--slo-ttft-ms", help="Longest time to the first token.")]
SloTpotOption = Annotated[float | None, typer.Option("--slo-tpot-ms", help="Longest time per output token.")]
UnitOption = Annotated[Literal["s", "ms"] | None, typer.Option("--time-unit", help="Of the trace's times.")]
SkipOption = Annotated[bool, typer.Option("--skip-bad-rows", help="Leave out rows that cannot be used.")]


def simulate(
    model: ModelOption,
    gpu: GpuOption,
    trace: TraceOption = None,
    rps: RpsOption = None,
    concurrency: ConcurrencyOption = None,
    num_requests: CountOption = None,
    isl: IslOption = None,
    osl: OslOption = None,
    spread: SpreadOption = 0.0,
    cv: CvOption = 1.0,
    prefix_share: CachedOption = 0.0,
    backend: BackendOption = None,
    prefill_backend: PrefillOption = None,
    decode_backend: DecodeOption = None,
    tp: TpOption = 1,
    page_size: PageOption = None,
    kv_cache_dtype: KvDtypeOption = "auto",
    max_running_requests: RunningOption = None,
    chunked_prefill_size: ChunkOption = None,
    enable_mixed_chunk: MixedOption = False,
    ignore_eos: EosOption = False,
    draft_tokens: DraftOption = None,
    acceptance: AcceptOption = None,
    slo_ttft_ms: SloTtftOption = None,
    slo_tpot_ms: SloTpotOption = None,
    time_unit: UnitOption = None,
    skip_bad_rows: SkipOption = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Draws arrivals and lengths.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Simulate a server over a stream of requests."""
    from cli.simulation import Run, Server, Traffic, print_result, result_json
    from costmodel import load_model
    from costmodel.serving import Asked, Parallel, Slo
    from hwprofiles import load_profile

    slo = Slo(_seconds(slo_ttft_ms), _seconds(slo_tpot_ms))
    asked = Asked(load_model(model), load_profile(gpu), Parallel(tp), page_size, kv_cache_dtype)
    traffic = Traffic(
        trace, rps, concurrency, num_requests, isl, osl, spread, cv, prefix_share, time_unit, skip_bad_rows
    )
    server = Server(
        prefill=prefill_backend or backend,
        decode=decode_backend or backend,
        max_running_requests=max_running_requests,
        chunked_prefill_size=chunked_prefill_size,
        mixed_chunk=enable_mixed_chunk,
        ignore_eos=ignore_eos,
        draft_tokens=draft_tokens,
        acceptance=acceptance,
    )
    run = Run(asked, server, traffic, seed)
    result = run.simulate((slo.ttft_seconds, slo.tpot_seconds))
    if as_json:
        write_json(result_json(result, run))
    elif result.requests:
        print_result(result, run)
    if not result.requests:
        limit, shortest = run.policy.limit(), result.shortest_rejected
        raise AnswerIsNo(f"all {result.rejected} requests are longer than {limit}: the shortest has {shortest}")


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds * 1e-3
