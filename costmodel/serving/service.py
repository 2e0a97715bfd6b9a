"""Closed form for a steady load under SGLang's rule that prefill goes first: TTFT, TPOT and throughput."""

from collections.abc import Callable
from dataclasses import dataclass

from costmodel.bound import bytes_text
from costmodel.prediction import Evidence
from costmodel.serving.bursts import PrefillTime, first_token_at, left_behind, mean_first_token, mean_prefill
from costmodel.serving.load import Load
from costmodel.serving.memory import STATES_PER_REQUEST, DoesNotFit, Memory, captured_size
from costmodel.serving.step import Step, StepModel, weakest

ROUNDS = 40
"""Bisection steps for the number of running requests at a given rate."""
SETTLING = 4
"""Rounds after which the batch that a request sees and the step that it takes agree."""
MOST_BUSY = 0.999
"""Largest share of time in prefill that the formulas for a rate are used with."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What a request and the server see."""

    ttft_seconds: float
    tpot_seconds: float
    """Per output token after the first."""
    tokens_per_s: float
    """Output tokens a second and device."""
    requests_per_s: float
    """Of the whole server."""


@dataclass(frozen=True, slots=True)
class Service:
    """A steady state of one deployment."""

    rates: Rates
    best: Rates
    """With every part of both steps at the lower end of its interval."""
    worst: Rates
    fast_attention: Rates
    """Attention alone at the lower end; two pairs on one device differ in it alone."""
    slow_attention: Rates
    running: float
    """Requests that decode at a time."""
    prefill: Step
    """What makes the first token, of all requests that prefill together."""
    decode: Step
    memory: Memory
    evidence: Evidence
    """The weaker of the two attention calls."""


@dataclass(frozen=True, slots=True)
class _State:
    load: Load
    running: float
    chunks: float
    """Prefill chunks that one prompt fills."""
    pair: int
    """Prompts of the second prefill that was timed; 1 where no two fit a chunk."""
    devices: int


def serve(steps: StepModel, load: Load, memory: Memory) -> Service:
    """Work out the steady state.

    Decode steps advance all running requests by one token, and nothing decodes while a prompt is prefilled: a request
    sees osl - 1 decode steps and, with B requests running, B prefills between its arrival and its end.

    Args:
        steps: Step times of the deployment.
        load: The load.
        memory: What a rank holds.

    Raises:
        DoesNotFit: The load needs more KV or more time than there is; the message says how much more.
        Incompatible: A backend cannot run its phase.
        ValueError: Requests are longer than the model's context.
    """
    most = _most_running(load, memory, steps)
    running = float(load.concurrency) if load.concurrency is not None else _running_at(steps, load, memory, most)
    arriving = 1.0 + (running - 1.0) / max(1, load.osl - 1) if running > 1 else 1.0
    together = max(1, round(arriving))
    pair, chunks = _together(load, memory, together)
    state = _State(load, running, chunks, pair, steps.deployment.parallel.tp)
    alone, several = (prefill_of(steps, load, number, memory) for number in (1, pair))
    prefill = several if together > 1 and pair > 1 else alone
    seen = running
    if load.rate is not None and pair == 1:
        seen = min(float(most), _seen_at(steps, load, memory, running, alone.seconds))
    decode = _decode(steps, load, seen, memory)

    def rates(seconds: Callable[[Step], float]) -> Rates:
        return _rates(state, (seconds(alone), seconds(several)), seconds(decode))

    return Service(
        rates=rates(lambda step: step.seconds),
        best=rates(lambda step: step.low),
        worst=rates(lambda step: step.high),
        fast_attention=rates(lambda step: step.with_attention(step.attention.low)),
        slow_attention=rates(lambda step: step.with_attention(step.attention.high)),
        running=running,
        prefill=prefill,
        decode=decode,
        memory=memory,
        evidence=weakest({"prefill": prefill.attention, "decode": decode.attention}),
    )


def prefill_of(steps: StepModel, load: Load, requests: int, memory: Memory) -> Step:
    """Time the prefill of `requests` prompts; a prompt longer than a chunk takes several steps."""
    total = load.isl - load.cached
    first = min(total, memory.chunked_prefill_size)
    whole = steps.extend(requests, first, load.cached + first)
    for done in range(first, total, memory.chunked_prefill_size):
        tokens = min(total - done, memory.chunked_prefill_size)
        whole += steps.extend(requests, tokens, load.cached + done + tokens)
    return whole


def _together(load: Load, memory: Memory, wanted: int) -> tuple[int, float]:
    """Give how many prompts to time together, 1 where no two fit a chunk, and the chunks that one fills."""
    new = load.isl - load.cached
    fitting = memory.chunked_prefill_size // new
    return (max(2, min(wanted, fitting)) if fitting > 1 else 1), new / memory.chunked_prefill_size


def _decode(steps: StepModel, load: Load, running: float, memory: Memory) -> Step:
    batch = max(1, round(running))
    return steps.decode(batch, load.mean_kv_len, padded=captured_size(batch, memory.graph_batch))


def _rates(state: _State, prefills: tuple[float, float], decode: float) -> Rates:
    load, running, after = state.load, state.running, state.load.osl - 1
    prefill = PrefillTime.through(*prefills, state.pair, state.chunks)
    if load.concurrency is not None:
        each = mean_prefill(prefill, load.concurrency, after)
        requests = running / (after * decode + running * each)
        first = mean_first_token(prefill, load.concurrency, after)
        stay = running / requests
    else:
        requests = load.rate or 0.0
        waits = decode * min(1.0, running)
        busy = min(requests * prefill.share(requests * waits), MOST_BUSY)
        first = first_token_at(prefill, requests, waits, busy)
        stay = first + (after * decode + left_behind(prefill, first, busy)) / (1 - busy)
    per_token = max(0.0, stay - first) / after if after else 0.0
    return Rates(first, per_token, requests * load.osl / state.devices, requests)


def _running_at(steps: StepModel, load: Load, memory: Memory, most: int) -> float:
    """Find how many requests decode at a time when they arrive at `load.rate`."""
    rate = load.rate or 0.0
    pair, chunks = _together(load, memory, 1)
    alone, several = (prefill_of(steps, load, number, memory).seconds for number in (1, pair))
    prefill = PrefillTime.through(alone, several, pair, chunks)

    def served(running: float) -> float:
        decode = _decode(steps, load, running, memory).seconds
        return running / ((load.osl - 1) * decode + running * prefill.share(rate * decode))

    if served(most) <= rate:
        raise DoesNotFit(
            f"the load of {rate:g} requests/s is more than the server can serve: with the {most} requests that its "
            f"memory and limits let run at a time it finishes {served(most):.3g} a second, {rate / served(most):.2f} "
            "times too few; lower --rate, raise --tp, or add servers"
        )
    low, high = 0.0, float(most)
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if served(middle) < rate else (low, middle)
    return high


def _seen_at(steps: StepModel, load: Load, memory: Memory, running: float, each: float) -> float:
    """Give how many decode beside a request on average where prompts follow each other and so end in clumps.

    Prompts that arrive in a busy period of prefill decode together: of mean size m = 1 / (1 - busy), seen by its own
    members as m^2; other clumps start `rate` times a second of the time without prefill.
    """
    rate = load.rate or 0.0
    clump = 1.0 / (1.0 - min(rate * each, MOST_BUSY))
    for _ in range(SETTLING):
        decode = _decode(steps, load, running, memory).seconds
        running = clump * clump + rate * (load.osl - 1) * decode * clump
    return running


def _most_running(load: Load, memory: Memory, steps: StepModel) -> int:
    """Give how many requests can run at a time without preemption.

    Raises:
        DoesNotFit: Not one, or fewer than the load's concurrency.
    """
    context = steps.deployment.model.context_length
    if context is not None and load.length > context:
        raise ValueError(
            f"isl + osl = {load.length} tokens is above the model's context of {context}; use shorter requests"
        )
    each = memory.tokens_of(load.length)
    asked = load.concurrency or 1
    most = min(memory.kv_tokens // each, memory.max_running_requests)
    if most < asked:
        raise DoesNotFit(_too_many(load, memory, asked, most))
    return most


def _too_many(load: Load, memory: Memory, asked: int, most: int) -> str:
    each = memory.tokens_of(load.length)
    over = (asked * each - memory.kv_tokens) * memory.kv_bytes_per_token
    if over > 0:
        return (
            f"{asked} requests of {load.length} tokens need {asked * each} KV tokens on each rank and SGLang's "
            f"memory leaves {memory.kv_tokens}: {bytes_text(over)} too much; at most {most} run at a time: use fewer "
            "or shorter requests, a smaller --kv-cache-dtype, or raise --tp"
        )
    if memory.state_bytes_per_request:
        kept = STATES_PER_REQUEST * memory.state_bytes_per_request
        return (
            f"{asked} requests keep {bytes_text(asked * kept)} of recurrent states on each rank, {STATES_PER_REQUEST} "
            f"each: {bytes_text((asked - most) * kept)} too much; at most {most} run at a time: "
            "use fewer, or raise --tp"
        )
    return f"{asked} requests at a time are above SGLang's limit of {most}; use fewer"
