"""`attnroof ingest`: a benchmark's results beside what was predicted for them, and why they differ."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.errors import AnswerIsNo, WrongInput
from cli.options import GpuOption, JsonOption, KvDtypeOption, ModelOption, TpOption
from cli.output import print_table, stdout_console, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from costmodel.serving import Asked, StepModel
    from costmodel.serving.compare import Compared, Comparison
    from costmodel.serving.policy import Policy
    from costmodel.serving.results import BenchResult
    from costmodel.serving.server_facts import ServerFacts

LARGEST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Ingested:
    """One run beside its prediction."""

    result: "BenchResult"
    facts: "ServerFacts"
    prefill: str
    decode: str
    comparison: "Comparison"
    explanation: tuple[str, ...]


FilesArgument = Annotated[list[str], typer.Argument(help="Results of sglang.bench_serving or vllm bench serve.")]
LogOption = Annotated[str | None, typer.Option("--log", help="The server's log: says which backend ran.")]
ArgsOption = Annotated[str | None, typer.Option("--server-args", help="The server's launch arguments, in one string.")]


def ingest(
    files: FilesArgument,
    model: ModelOption,
    gpu: GpuOption,
    tp: TpOption = 1,
    kv_cache_dtype: KvDtypeOption = "auto",
    log: LogOption = None,
    server_args: ArgsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare measured TTFT, TPOT and throughput with the predicted ones."""
    from costmodel import load_model
    from costmodel.serving import Asked, Parallel
    from costmodel.serving.results import read_results
    from hwprofiles import load_profile

    given = server_facts(log, server_args)
    loaded, profile = load_model(model), load_profile(gpu)
    rows = []
    for file in files:
        for result in read_results(lines_of(file), file):
            facts = given or result.server or nothing_known(result.engine)
            kv = facts.kv_cache_dtype or kv_cache_dtype
            asked = Asked(loaded, profile, Parallel(facts.tp or tp), facts.page_size, kv)
            rows.append(compared(asked, result, facts))
    if as_json:
        write_json([ingested_json(row) for row in rows])
    else:
        for row in rows:
            print_ingested(row)


def server_facts(log: str | None, arguments: str | None) -> "ServerFacts | None":
    """Read what the options tell about the server: its log, else its arguments."""
    from costmodel.serving.server_facts import facts_of_arguments, facts_of_log

    if log is not None:
        found = facts_of_log(lines_of(log))
        if found is None:
            raise WrongInput(f"{log} names neither an attention backend nor server arguments; is it a server's log?")
        return found
    if arguments is None:
        return None
    try:
        words = shlex.split(arguments)
    except ValueError as error:
        raise WrongInput(f"--server-args {arguments!r} cannot be split into words: {error}") from None
    found = facts_of_arguments(words)
    if found is None:
        raise WrongInput(f"--server-args {arguments!r} names no attention option, such as --attention-backend fa3")
    return found


def nothing_known(engine: str) -> "ServerFacts":
    """What is known of a server that told nothing."""
    from costmodel.serving.server_facts import ServerFacts

    need = ", which need not be vLLM's" if engine == "vllm" else ""
    return ServerFacts(f"nothing tells: SGLang's own choice is assumed{need}")


def compared(asked: "Asked", result: "BenchResult", facts: "ServerFacts") -> Ingested:
    """Predict one run with the backends that ran, SGLang's own where nothing tells."""
    from costmodel import Incompatible
    from costmodel.serving import StepModel, default_pair
    from costmodel.serving.compare import compare, explain

    default = default_pair(asked)
    if isinstance(default, str):
        if facts.prefill is None or facts.decode is None:
            raise AnswerIsNo(f"SGLang refuses: {default}; give --server-args or --log to say what ran")
        prefill, decode, page = facts.prefill, facts.decode, facts.page_size or 1
    else:
        prefill, decode = facts.prefill or default.prefill, facts.decode or default.decode
        page = facts.page_size or default.page_size
    steps = StepModel(asked.deployment(prefill, decode, page))
    try:
        comparison = compare(steps, result, policy_for(steps, facts, result.engine))
    except Incompatible as error:
        raise AnswerIsNo(f"{result.where}: {error}; is --gpu the device that it ran on?") from None
    in_step = result.concurrency is not None and result.rate is None and not (result.spread or result.lengths)
    known = {"cuda_graph": facts.cuda_graph, "backend_known": facts.decode is not None, "in_step": in_step}
    explanation = explain(comparison, known, asked.model.num_layers)
    return Ingested(result, facts, prefill, decode, comparison, explanation)


def policy_for(steps: "StepModel", facts: "ServerFacts", engine: str) -> "Policy":
    """Give the scheduler's settings as the server had them; vLLM decodes inside prefill steps unless it says not to."""
    from costmodel.serving import memory_of
    from costmodel.serving.policy import policy_of

    policy = policy_of(memory_of(steps.deployment, steps.weights), facts.max_running_requests)
    return replace(
        policy,
        ignore_eos=True,
        chunked_prefill_size=facts.chunked_prefill_size or policy.chunked_prefill_size,
        mixed_chunk=engine == "vllm" if facts.mixed_chunk is None else facts.mixed_chunk,
    )


def lines_of(path: str) -> "Iterator[str]":
    """Read a file's lines."""
    file = Path(path)
    if not file.is_file():
        raise WrongInput(f"{path} is no file; give a benchmark's result file or a server's log")
    if file.stat().st_size > LARGEST_BYTES:
        raise WrongInput(f"{path} has {file.stat().st_size / 1e9:.1f} GB; results are read up to 1 GiB: split it")
    with file.open(encoding="utf-8", errors="replace") as lines:
        yield from lines


def ingested_json(row: Ingested) -> dict[str, Any]:
    """Give one run as JSON; times in milliseconds."""
    result = row.result
    return {
        "file": result.where,
        "engine": result.engine,
        "requests": result.completed,
        "isl": result.isl,
        "osl": result.osl,
        "concurrency": result.concurrency,
        "rate": result.rate,
        "prefill_backend": row.prefill,
        "decode_backend": row.decode,
        "backend_from": row.facts.source,
        "figures": [
            {
                "name": name,
                "measured": measured,
                "predicted": predicted,
                "low": low,
                "high": high,
                "error": figure.error,
                "inside": figure.inside,
            }
            for figure in row.comparison.figures
            for name, measured, predicted, low, high in [shown(figure)]
        ],
        "explanation": list(row.explanation),
    }


def shown(figure: "Compared") -> tuple[str, float, float, float, float]:
    """Give a figure's name with its unit, and its values in that unit."""
    if figure.name in ("TTFT", "TPOT"):
        values = (figure.measured * 1e3, figure.predicted * 1e3, figure.low * 1e3, figure.high * 1e3)
        return f"{figure.name.lower()}_ms", *values
    return "tokens_per_s", figure.measured, figure.predicted, figure.low, figure.high


def print_ingested(row: Ingested) -> None:
    """Print one run."""
    from rich.table import Table

    result, console = row.result, stdout_console()
    pair = " + ".join(dict.fromkeys((row.prefill, row.decode)))
    title = (
        f"{result.where}: {result.completed} requests of {result.isl:.0f} in, {result.osl:.0f} out ({result.engine})"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for name in ("measured", "predicted", "90 % interval", "error"):
        table.add_column(name, justify="right")
    for figure in row.comparison.figures:
        name, measured, predicted, low, high = shown(figure)
        mark = "" if figure.inside else " (outside)"
        table.add_row(
            name, f"{measured:.2f}", f"{predicted:.2f}", f"{low:.2f}-{high:.2f}{mark}", f"{100 * figure.error:+.1f} %"
        )
    print_table(table)
    how = row.facts.source if row.facts.decode is None else f"known from {row.facts.source}"
    console.print(f"ran with {pair} ({how})", markup=False, soft_wrap=True)
    for text in row.explanation:
        console.print(text, markup=False, soft_wrap=True)
