"""Count simulated requests a minute on one core, and the memory that they take.

    python benchmarks/simulate.py [--requests N] [--model CONFIG] [--gpu NAME]

Requests of 512 + 128 tokens, 64 at a time, lengths drawn within half of that around it.
"""

import argparse
import resource
import time
from pathlib import Path

from costmodel import load_model
from costmodel.serving import Asked, StepModel, default_pair, memory_of
from costmodel.serving.arrivals import ClosedLoop, Lengths, synthetic
from costmodel.serving.lookup import StepLookup
from costmodel.serving.policy import policy_of
from costmodel.serving.simulate import simulate
from hwprofiles import load_profile

MODEL = Path(__file__).parents[1] / "examples" / "models" / "Llama-3.1-8B"
RUNNING, LENGTHS = 64, Lengths(512, 128, spread=0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--model", default=str(MODEL))
    parser.add_argument("--gpu", default="h200")
    options = parser.parse_args()
    asked = Asked(load_model(options.model), load_profile(options.gpu))
    pair = default_pair(asked)
    if isinstance(pair, str):
        raise SystemExit(f"SGLang refuses: {pair}")
    steps = StepModel(asked.deployment(pair.prefill, pair.decode, pair.page_size))
    memory = memory_of(steps.deployment, steps.weights)
    print("requests  simulated s  wall s  requests/minute  decode steps  us/step  peak MiB")
    for count in (options.requests // 10, options.requests):
        started = time.process_time()
        arrivals = ClosedLoop(synthetic(LENGTHS, count, seed=0), RUNNING)
        result = simulate(StepLookup(steps, memory), policy_of(memory), arrivals)
        seconds = time.process_time() - started
        steps_made = result.prefill_steps + result.decode_steps
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{count:8}  {result.seconds:11.1f}  {seconds:6.2f}  {count / seconds * 60:15,.0f}"
            f"  {result.decode_steps:12}  {seconds / steps_made * 1e6:7.1f}  {peak:8.0f}"
        )


if __name__ == "__main__":
    main()
