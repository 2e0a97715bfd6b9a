"""Count simulated requests a minute on one core with the memory they take, or set the closed form beside the simulator.

    python benchmarks/simulate.py [--requests N] [--closed-form] [--model CONFIG] [--gpu NAME]

Requests of 512 + 128 tokens, 64 at a time, lengths drawn within half of that around it.
"""

import argparse
import resource
import time
from pathlib import Path

from costmodel import load_model
from costmodel.serving import Asked, Load, Memory, StepModel, default_pair, memory_of, serve
from costmodel.serving.arrivals import ClosedLoop, Lengths, synthetic
from costmodel.serving.lookup import StepLookup
from costmodel.serving.policy import policy_of
from costmodel.serving.simulate import simulate
from hwprofiles import load_profile

MODEL = Path(__file__).parents[1] / "examples" / "models" / "Llama-3.1-8B"
RUNNING, LENGTHS = 64, Lengths(512, 128, spread=0.5)
CONCURRENCIES = (1, 8, 32, 64, 128, 256)


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
    heads = ("at a time", "TTFT ms: formula", "simulated (mean)", "(median)", "TPOT ms: formula", "simulated")
    print("  ".join((*heads, "tokens/s: formula", "simulated")))
    for concurrency in CONCURRENCIES:
        arrivals = ClosedLoop(synthetic(LENGTHS, 100 * concurrency, seed=0), concurrency)
        found = simulate(StepLookup(steps, memory), policy_of(memory), arrivals)
        rates = serve(steps, Load(LENGTHS.isl, LENGTHS.osl, concurrency=concurrency), memory).rates
        print(
            f"{concurrency:9}  {rates.ttft_seconds * 1e3:16.1f}  {found.ttft.mean * 1e3:16.1f}"
            f"  {found.ttft.p50 * 1e3:8.1f}  {rates.tpot_seconds * 1e3:16.2f}  {found.tpot.mean * 1e3:9.2f}"
            f"  {rates.tokens_per_s:17.0f}  {found.tokens_per_s:9.0f}"
        )


if __name__ == "__main__":
    main()
