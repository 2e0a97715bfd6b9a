"""Count simulated requests a minute on one core with the memory they take, or set the closed form beside the simulator.

    python benchmarks/simulate.py [--requests N] [--closed-form] [--model CONFIG] [--gpu NAME]

Requests of 512 + 128 tokens, 64 at a time, lengths drawn within half of that around it.
"""

import argparse
import resource
import time
from pathlib import Path

from costmodel import load_model
from costmodel.serving import Asked, Load, Memory, Rates, StepModel, default_pair, memory_of, serve
from costmodel.serving.arrivals import ClosedLoop, Lengths, OpenLoop, synthetic
from costmodel.serving.lookup import StepLookup
from costmodel.serving.outcome import Simulated
from costmodel.serving.policy import policy_of
from costmodel.serving.simulate import simulate
from hwprofiles import load_profile

MODEL = Path(__file__).parents[1] / "examples" / "models" / "Llama-3.1-8B"
RUNNING, LENGTHS = 64, Lengths(512, 128, spread=0.5)
CONCURRENCIES = (1, 8, 32, 64, 128, 256)
SHARES, RATE_REQUESTS = (0.1, 0.3, 0.5, 0.7, 0.85), 8000
WARM_UP, ROUNDS = 40, 80
"""Requests for each that runs at a time, before the steady state is looked at and while it is."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--closed-form", action="store_true")
    parser.add_argument("--model", default=str(MODEL))
    parser.add_argument("--gpu", default="h200")
    options = parser.parse_args()
    asked = Asked(load_model(options.model), load_profile(options.gpu))
    pair = default_pair(asked)
    if isinstance(pair, str):
        raise SystemExit(f"SGLang refuses: {pair}")
    steps = StepModel(asked.deployment(pair.prefill, pair.decode, pair.page_size))
    memory = memory_of(steps.deployment, steps.weights)
    if options.closed_form:
        compare(steps, memory)
    else:
        count(steps, memory, options.requests)


def count(steps: StepModel, memory: Memory, requests: int) -> None:
    print("requests  simulated s   cpu s  requests/minute  decode steps  us/step  peak MiB")
    for number in (requests // 10, requests):
        started = time.process_time()
        arrivals = ClosedLoop(synthetic(LENGTHS, number, seed=0), RUNNING)
        result = simulate(StepLookup(steps, memory), policy_of(memory), arrivals)
        seconds = time.process_time() - started
        made = result.prefill_steps + result.decode_steps
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{number:8}  {result.seconds:11.1f}  {seconds:6.2f}  {number / seconds * 60:15,.0f}"
            f"  {result.decode_steps:12}  {seconds / made * 1e6:7.1f}  {peak:8.0f}"
        )


def compare(steps: StepModel, memory: Memory) -> None:
    print("                    TTFT ms                     TPOT ms              tokens/s")
    print("load             formula  steady  from start  formula  steady  formula  steady")
    lookup = StepLookup(steps, memory)
    for concurrency in CONCURRENCIES:
        rates = serve(steps, Load(LENGTHS.isl, LENGTHS.osl, concurrency=concurrency), memory).rates
        some, more = (closed(lookup, memory, concurrency, rounds) for rounds in (WARM_UP, WARM_UP + ROUNDS))
        ttft, tpot = (
            (m.mean * more.requests - s.mean * some.requests) / (more.requests - some.requests)
            for m, s in ((more.ttft, some.ttft), (more.tpot, some.tpot))
        )
        tokens = (more.output_tokens - some.output_tokens) / (more.seconds - some.seconds)
        row(f"{concurrency} at a time", rates, (ttft, more.ttft.mean, tpot, tokens))
    most = serve(steps, Load(LENGTHS.isl, LENGTHS.osl, concurrency=CONCURRENCIES[-1]), memory).rates.requests_per_s
    for share in SHARES:
        rate = share * most
        rates = serve(steps, Load(LENGTHS.isl, LENGTHS.osl, rate=rate), memory).rates
        arrivals = OpenLoop(synthetic(LENGTHS, RATE_REQUESTS, seed=0, rate=rate))
        found = simulate(lookup, policy_of(memory), arrivals)
        row(f"{rate:.1f} a second", rates, (found.ttft.mean, None, found.tpot.mean, found.tokens_per_s))


def closed(lookup: StepLookup, memory: Memory, concurrency: int, rounds: int) -> Simulated:
    """All requests of the closed loop start together; what follows later is the steady state."""
    arrivals = ClosedLoop(synthetic(LENGTHS, rounds * concurrency, seed=0), concurrency)
    return simulate(lookup, policy_of(memory), arrivals)


def row(name: str, rates: Rates, simulated: tuple[float, float | None, float, float]) -> None:
    ttft, start, tpot, tokens = simulated
    started = "" if start is None else f"{start * 1e3:.1f}"
    print(
        f"{name:15}  {rates.ttft_seconds * 1e3:7.1f}  {ttft * 1e3:6.1f}  {started:>10}"
        f"  {rates.tpot_seconds * 1e3:7.2f}  {tpot * 1e3:6.2f}  {rates.tokens_per_s:7.0f}  {tokens:6.0f}"
    )


if __name__ == "__main__":
    main()
