"""One simulation from its options: the pair of backends, the stream of requests, the run and its output."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

from cli.errors import AnswerIsNo, WrongInput
from cli.output import print_table, stderr_console, stdout_console
from costmodel import Incompatible, UnknownBackend
from costmodel.compat import backend_names
from costmodel.serving import Asked, Pair, StepModel, default_pair, find_pairs, memory_of
from costmodel.serving.arrivals import ClosedLoop, Lengths, OpenLoop, respaced, synthetic
from costmodel.serving.histogram import Summary
from costmodel.serving.lookup import StepLookup
from costmodel.serving.outcome import Simulated
from costmodel.serving.policy import Policy, Speculation, policy_of
from costmodel.serving.request import Request
from costmodel.serving.simulate import simulate
from costmodel.serving.traces import LONGEST_LINE, Reading, read_trace

DEFAULT_REQUESTS = 10_000
DEFAULT_ACCEPTANCE = 0.7
POISSON = 1.0
"""Variation of the gaps of a Poisson process, the default."""
GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Server:
    """What the command line asks of the server."""

    prefill: str | None
    decode: str | None
    max_running_requests: int | None
    chunked_prefill_size: int | None
    mixed_chunk: bool
    ignore_eos: bool
    draft_tokens: int | None
    acceptance: float | None

    def __post_init__(self) -> None:
        """Check that the options go together."""
        if self.acceptance is not None and self.draft_tokens is None:
            raise WrongInput("--acceptance is that of drafted tokens: give --draft-tokens N or leave it out")

    @property
    def speculation(self) -> Speculation | None:
        """What drafts tokens; None where nothing does."""
        if self.draft_tokens is None:
            return None
        return Speculation(self.draft_tokens, DEFAULT_ACCEPTANCE if self.acceptance is None else self.acceptance)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the command line asks of the requests."""

    trace: str | None
    rps: float | None
    concurrency: int | None
    count: int | None
    isl: int | None
    osl: int | None
    spread: float
    cv: float
    prefix_share: float
    time_unit: Literal["s", "ms"] | None
    skip_bad_rows: bool

    def check(self) -> None:
        """Check that the options go together."""
        if self.rps is not None and self.concurrency is not None:
            raise WrongInput("--rps and --concurrency exclude each other: give one of them")
        if self.trace is not None:
            self._check_with_trace()
        elif self.isl is None or self.osl is None or (self.rps is None and self.concurrency is None):
            raise WrongInput("give --trace FILE, or --isl N and --osl N with one of --rps R and --concurrency N")
        elif self.time_unit is not None or self.skip_bad_rows:
            raise WrongInput(
                "--time-unit and --skip-bad-rows say how --trace FILE is read: give a trace or leave them out"
            )
        if self.cv != POISSON and self.rps is None:
            raise WrongInput("--cv spaces the arrivals of --rps R: give --rps or leave it out")

    def _check_with_trace(self) -> None:
        if self.isl is not None or self.osl is not None or self.spread:
            raise WrongInput("--trace brings its own lengths: leave out --isl, --osl and --spread")
        if self.prefix_share:
            raise WrongInput("--trace brings its own prefixes (hash_ids): leave out --prefix-share")

    @property
    def total(self) -> int | None:
        """Requests that will come, where that is known."""
        return self.count if self.trace is not None else self.count or DEFAULT_REQUESTS


@dataclass
class Run:
    """One simulation."""

    asked: Asked
    server: Server
    traffic: Traffic
    seed: int

    def __post_init__(self) -> None:
        """Check the traffic before anything is worked out."""
        self.traffic.check()
        self.has_slo = False
        self.reading = Reading(self.traffic.trace or "", self.traffic.time_unit, self.traffic.skip_bad_rows)

    @cached_property
    def pair(self) -> Pair:
        """The backends asked for, SGLang's own where none are."""
        default = default_pair(self.asked)
        if self.server.prefill is None and self.server.decode is None:
            if isinstance(default, str):
                raise AnswerIsNo(f"SGLang refuses: {default}; name a pair with --prefill-backend and --decode-backend")
            return default
        own = ("", "") if isinstance(default, str) else (default.prefill, default.decode)
        wanted = (self.server.prefill or own[0], self.server.decode or own[1])
        pairs = find_pairs(self.asked)
        found = next((pair for pair in pairs.run if (pair.prefill, pair.decode) == wanted), None)
        if found is not None:
            return found
        for name in (name for name in wanted if name and name not in backend_names()):
            raise UnknownBackend(name, backend_names())
        why = dict.fromkeys(r for name in (" + ".join(wanted), *wanted) for r in pairs.refused.get(name, ()))
        known = ", ".join(dict.fromkeys(pair.decode for pair in pairs.run))
        raise AnswerIsNo(
            f"{' + '.join(dict.fromkeys(wanted))} cannot serve: {'; '.join(why) or 'unknown'}; {known} can"
        )

    @cached_property
    def steps(self) -> StepModel:
        """Step times of the pair."""
        return StepModel(self.asked.deployment(self.pair.prefill, self.pair.decode, self.pair.page_size))

    @cached_property
    def policy(self) -> Policy:
        """What the scheduler may do."""
        server, memory = self.server, memory_of(self.steps.deployment, self.steps.weights)
        return replace(
            policy_of(memory, server.max_running_requests),
            chunked_prefill_size=server.chunked_prefill_size or memory.chunked_prefill_size,
            context_tokens=self.asked.model.context_length,
            mixed_chunk=server.mixed_chunk,
            ignore_eos=server.ignore_eos,
            speculation=server.speculation,
        )

    def simulate(self, slo: tuple[float | None, float | None]) -> Simulated:
        """Run it, with progress on stderr.

        Args:
            slo: Longest time to the first token and per further token, seconds; None is no limit.
        """
        self.has_slo = slo != (None, None)
        traffic, memory = self.traffic, memory_of(self.steps.deployment, self.steps.weights)
        with opened(traffic.trace) as lines, progress(traffic.total) as tell:
            requests = islice(self._requests(lines), traffic.total)
            stream = OpenLoop(requests) if traffic.concurrency is None else ClosedLoop(requests, traffic.concurrency)
            try:
                return simulate(StepLookup(self.steps, memory), self.policy, stream, slo, tell)
            except Incompatible as error:
                raise AnswerIsNo(str(error)) from None

    def _requests(self, lines: Iterator[str]) -> Iterator[Request]:
        traffic = self.traffic
        if traffic.trace is None:
            lengths = Lengths(traffic.isl or 0, traffic.osl or 0, traffic.spread, traffic.prefix_share)
            return synthetic(lengths, traffic.count or DEFAULT_REQUESTS, self.seed, traffic.rps, traffic.cv)
        requests = read_trace(lines, self.reading)
        if self.reading.untimed and traffic.rps is None and traffic.concurrency is None:
            raise WrongInput(f"{traffic.trace} has no arrival times: give --rps R or --concurrency N")
        return requests if traffic.rps is None else respaced(requests, traffic.rps, traffic.cv, self.seed)


def unpacked(path: Path) -> IO[str]:
    """Open a text file, packed by gzip or not."""
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
    if packed:
        return gzip.open(path, "rt", encoding="utf-8", errors="replace", newline="")
    return path.open(encoding="utf-8", errors="replace", newline="")


@contextmanager
def opened(path: str | None) -> Iterator[Iterator[str]]:
    """Open a trace; without one there are no lines."""
    if path is None:
        yield iter(())
        return
    if not Path(path).is_file():
        raise WrongInput(f"{path} is no file; give a trace in one of the formats that --help names")
    with unpacked(Path(path)) as lines:
        yield iter(lambda: _piece(lines, path), "")


def _piece(lines: IO[str], path: str) -> str:
    """Give the next line, or a part of a very long one."""
    try:
        return lines.readline(LONGEST_LINE)
    except (EOFError, OSError, zlib.error) as error:
        raise WrongInput(f"{path} cannot be read to its end ({error}); is the file cut off?") from None


@contextmanager
def progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """Show finished requests on stderr while the block runs."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("requests"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = stderr_console()
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("requests", total=total)
        yield lambda done: bar.update(task, completed=done)


def result_json(result: Simulated, run: Run) -> dict[str, Any]:
    """Give the result as JSON; milliseconds."""
    tp = run.asked.parallel.tp
    times = {name: getattr(result, name) for name in ("ttft", "tpot", "itl", "e2e", "queue")}
    return {
        "model": run.asked.model.name,
        "device": run.asked.profile.id,
        "tp": tp,
        "prefill_backend": run.pair.prefill,
        "decode_backend": run.pair.decode,
        "page_size": run.policy.page_size,
        "kv_tokens": run.policy.kv_tokens,
        "seed": run.seed,
        "requests": result.requests,
        "rejected": result.rejected,
        "shortest_rejected": result.shortest_rejected,
        "seconds": result.seconds,
        "requests_per_s": result.requests_per_s,
        "tokens_per_s": result.tokens_per_s / tp,
        "goodput_requests_per_s": result.goodput,
        "good": result.good,
        **{f"{name}_ms": summary_json(summary) for name, summary in times.items()},
        "input_tokens": result.input_tokens,
        "output_tokens": result.output_tokens,
        "cached_tokens": result.cached_tokens,
        "prefill_steps": result.prefill_steps,
        "decode_steps": result.decode_steps,
        "preemptions": result.preemptions,
        "mean_running": result.mean_running,
        "peak_kv_tokens": result.peak_kv_tokens,
        "skipped_rows": run.reading.skipped,
        "first_skipped": run.reading.first_reason,
        "notes": list(run.reading.notes),
    }


def summary_json(summary: Summary) -> dict[str, float]:
    """Give a distribution as JSON."""
    names = ("mean", "p50", "p90", "p95", "p99")
    return {**{name: getattr(summary, name) * 1e3 for name in names}, "max": summary.largest * 1e3}


def print_result(result: Simulated, run: Run) -> None:
    """Print what happened, then the distributions."""
    from rich.table import Table

    console, tp = stdout_console(), run.asked.parallel.tp
    pair = " + ".join(dict.fromkeys((run.pair.prefill, run.pair.decode)))
    lines = [
        f"{run.asked.model.name} on {tp} x {run.asked.profile.name}, {pair}, page {run.policy.page_size}",
        f"{result.requests} requests in {result.seconds:.1f} s: {result.requests_per_s:.2f} requests/s, "
        f"{result.tokens_per_s / tp:.0f} output tokens/s a GPU"
        + (f"; {result.goodput:.2f} requests/s keep the SLO" if run.has_slo else ""),
        f"{result.mean_running:.1f} requests run on average; at most {result.peak_kv_tokens} of "
        f"{run.policy.kv_tokens} KV tokens in use; {result.preemptions} preemptions; {result.cached_tokens} input "
        "tokens from the prefix cache",
    ]
    if result.rejected:
        lines.append(
            f"{result.rejected} rejected as longer than {run.policy.limit()}, the shortest {result.shortest_rejected}"
        )
    if run.reading.skipped:
        lines.append(f"{run.reading.skipped} rows were left out, the first: {run.reading.first_reason}")
    for line in (*lines, *run.reading.notes):
        console.print(line, markup=False, soft_wrap=True)
    table = Table(title="milliseconds", title_justify="left")
    for name in ("", "mean", "p50", "p90", "p95", "p99", "max"):
        table.add_column(name, justify="right" if name else "left")
    for label, summary in (
        ("TTFT", result.ttft),
        ("TPOT", result.tpot),
        ("between tokens", result.itl),
        ("whole request", result.e2e),
        ("queue", result.queue),
    ):
        values = summary_json(summary).values()
        table.add_row(label, *(f"{value:.2f}" for value in values))
    print_table(table)
