"""Measured beside predicted: the same load simulated, and what explains the largest difference."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from costmodel.serving.arrivals import LARGEST_CV, SMALLEST_CV, ClosedLoop, Lengths, OpenLoop, synthetic
from costmodel.serving.load import Load
from costmodel.serving.lookup import StepLookup
from costmodel.serving.memory import memory_of
from costmodel.serving.policy import Policy, policy_of
from costmodel.serving.request import Request
from costmodel.serving.results import BenchResult
from costmodel.serving.service import serve
from costmodel.serving.simulate import simulate
from costmodel.serving.step import Step, StepModel

MOST_REQUESTS = 20_000
KERNELS_PER_LAYER = 12
"""Launches of one layer, for what it costs to run without CUDA graphs; an assumption."""
EAGER_LAUNCH_SECONDS = 8e-6


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure, measured and predicted, in base units."""

    name: str
    measured: float
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Predicted over measured, minus one."""
        return self.predicted / self.measured - 1

    @property
    def inside(self) -> bool:
        """Whether the measurement lies in the interval."""
        return self.low <= self.measured <= self.high


@dataclass(frozen=True, slots=True)
class Comparison:
    """All figures of one run."""

    figures: tuple[Compared, ...]
    decode: Step
    """A decode step of the run's average batch."""
    prefill: Step
    running: float

    @property
    def largest(self) -> Compared:
        """The figure that is furthest off, as a ratio."""
        return max(self.figures, key=lambda figure: abs(math.log(figure.predicted / figure.measured)))


def compare(steps: StepModel, result: BenchResult, policy: Policy | None = None) -> Comparison:
    """Simulate the run's load and set it beside what was measured.

    Args:
        steps: Step times of what ran.
        result: The run.
        policy: The scheduler's settings; None means SGLang's defaults.

    Raises:
        DoesNotFit: The weights do not fit the device.
        Incompatible: A backend cannot run its phase.
        ValueError: No simulated request finishes, or the file holds no figure to compare.
    """
    memory = memory_of(steps.deployment, steps.weights)
    settings = policy or replace(policy_of(memory), ignore_eos=True)
    lengths = Lengths(max(1, round(result.isl)), max(1, round(result.osl)), result.spread)
    stream = _requests(result, lengths)
    closed = result.concurrency is not None and result.rate is None
    arrivals = ClosedLoop(stream, result.concurrency or 1) if closed else OpenLoop(stream)
    found = simulate(StepLookup(steps, memory), settings, arrivals)
    if not found.requests:
        asked = f"requests of {lengths.isl} + {lengths.osl} tokens"
        raise ValueError(f"{result.where}: {asked} do not fit {settings.kv_tokens} KV tokens")
    running = max(1.0, found.mean_running)
    decode = steps.decode(round(running), lengths.isl + max(1, lengths.osl // 2))
    prefill = steps.extend(1, lengths.isl, lengths.isl)
    pairs = [
        ("TTFT", result.ttft_seconds, found.ttft.mean, (prefill.low / prefill.seconds, prefill.high / prefill.seconds)),
        ("TPOT", result.tpot_seconds, found.tpot.mean, (decode.low / decode.seconds, decode.high / decode.seconds)),
        (
            "output tokens/s",
            result.tokens_per_s,
            found.tokens_per_s,
            (decode.seconds / decode.high, decode.seconds / decode.low),
        ),
    ]
    equal = closed and not (result.spread or result.lengths)
    apart = _apart(steps, lengths, result.concurrency or 1) if equal else {}
    figures = []
    for name, measured, predicted, (low, high) in pairs:
        if measured and predicted:
            ends = (predicted, apart.get(name, predicted))
            figures.append(Compared(name, measured, predicted, min(ends) * low, max(ends) * high))
    if not figures:
        raise ValueError(f"{result.where}: neither TTFT, TPOT nor throughput is in it")
    return Comparison(tuple(figures), decode, prefill, running)


def _apart(steps: StepModel, lengths: Lengths, concurrency: int) -> Mapping[str, float]:
    """Give the figures of equal requests that came apart; simulated, they start and end together for ever."""
    try:
        load = Load(lengths.isl, lengths.osl, concurrency=concurrency)
        rates = serve(steps, load, memory_of(steps.deployment, steps.weights)).rates
    except ValueError:
        return {}
    server = rates.requests_per_s * lengths.osl
    return {"TTFT": rates.ttft_seconds, "TPOT": rates.tpot_seconds, "output tokens/s": server}


def _requests(result: BenchResult, lengths: Lengths) -> Iterator[Request]:
    """Give requests as the benchmark sent them, with their own lengths where the file has them."""
    count = min(result.completed, MOST_REQUESTS)
    cv = min(1 / math.sqrt(result.burstiness), LARGEST_CV)
    drawn = synthetic(lengths, count, seed=0, rate=result.rate, cv=cv if cv >= SMALLEST_CV else 0.0)
    if not result.lengths:
        yield from drawn
        return
    for request, (isl, osl) in zip(drawn, result.lengths, strict=False):
        yield Request(request.arrival, isl, osl)


def explain(comparison: Comparison, facts: Mapping[str, bool | None], layers: int) -> tuple[str, ...]:
    """Say what is behind the largest difference, the likeliest first.

    Args:
        comparison: The figures.
        facts: `cuda_graph`, `backend_known` and `in_step` (equal requests in a closed loop), as far as known.
        layers: Layers of the model.
    """
    figure = comparison.largest
    step = comparison.prefill if figure.name == "TTFT" else comparison.decode
    slower = (figure.measured > figure.predicted) == (figure.name != "output tokens/s")
    direction = "slower" if slower else "faster"
    off = f"{100 * abs(figure.error):.0f} % {'above' if figure.error > 0 else 'below'}"
    said = [f"{figure.name} is furthest off: predicted {off} what was measured; the server was {direction}"]
    doubtful = max(step.parts.items(), key=lambda item: item[1].high - item[1].low)
    name, part = doubtful
    span = f"{part.low * 1e3:.2f}-{part.high * 1e3:.2f} ms of {step.seconds * 1e3:.2f} ms, from {part.evidence}"
    if facts.get("in_step"):
        said.append("equal requests: the interval reaches from all in step, as simulated, to all apart")
    if figure.inside:
        said.append(f"the measurement lies within the interval; the most doubtful part of the step is {name} ({span})")
        return tuple(said)
    eager = layers * KERNELS_PER_LAYER * EAGER_LAUNCH_SECONDS
    if slower and facts.get("cuda_graph") is False:
        said.append(f"CUDA graphs were off: launching from Python takes about {eager * 1e3:.1f} ms a step (assumed)")
    if slower and facts.get("cuda_graph") is None:
        said.append(f"if CUDA graphs were off, launching alone would take about {eager * 1e3:.1f} ms a step (assumed)")
    if figure.name == "TTFT" and slower:
        said.append("a client's TTFT also holds tokenising, HTTP and the wait for the step under way")
    if figure.name == "TTFT" and not slower and facts.get("in_step"):
        said.append("equal requests in a closed loop prefill together here; a client's jitter spreads them further yet")
    if not facts.get("backend_known"):
        said.append("nothing tells which backend ran: give the server's log or its arguments")
    said.append(f"the most doubtful part of the step is {name} ({span})")
    return tuple(said)
