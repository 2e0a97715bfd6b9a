"""Tune the attention shapes that many models share, one after the other in one process: the packaged configurations.

    python benchmarks/popular_shapes.py --device cuda:0 --seconds 1 --out configs
    python benchmarks/popular_shapes.py --device h200 --simulate --seconds 2 --out configs     # a rehearsal anywhere

Each shape is what `attnroof tune --model MODEL --tp N --page-size P --kv-cache-dtype D` tunes. The worker process
is started once, and the kernels that the model proposes first are compiled in parallel before any time is taken.
"""

import argparse
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from costmodel import Attention, Batch
from executors.isolated import IsolatedMeasurer
from executors.measurer import Measurer
from executors.outcome import Candidate
from executors.registry import backend_names
from executors.simulated import SimulatedMeasurer
from executors.sweeps.sets import Workload
from executors.sweeps.warm import warm
from hwprofiles import Profile, detect_profile, load_profile
from tuner.budget import Budget
from tuner.events import Event, Note
from tuner.job import Asked, Job, prepare_job
from tuner.plan import plan_run
from tuner.setup import Options, make_provenance
from tuner.tune import NothingRuns, tune

MODELS, HERE = Path("examples/models"), Path("benchmarks/models")
GROUPED = ("1q1s4k", "16q1s4k", "64q1s4k", "256q1s2k", "8q1s32k", "q2k", "q2ks16k", "16q4s4k")
LEFT_OUT = ("flex_attention",)
"""Compiles for longer than a shape has."""
LATENT = ("1q1s4k", "16q1s4k", "64q1s4k", "128q1s8k", "8q1s32k", "q512s4k", "16q2s4k")


@dataclass(frozen=True)
class Shape:
    model: str
    tp: int = 1
    page_size: int = 1
    kv_dtype: str = "auto"
    specs: tuple[str, ...] = GROUPED
    folder: Path = MODELS

    def asked(self, buckets: bool) -> Asked:
        specs = () if buckets else self.specs
        return Asked(str(self.folder / self.model), specs, self.tp, self.page_size, self.kv_dtype)

    def __str__(self) -> str:
        return f"{self.model} tp{self.tp} page {self.page_size} kv {self.kv_dtype}"


SHAPES = (
    Shape("Llama-3.1-8B", kv_dtype="fp8_e4m3"),
    Shape("Llama-3.1-70B", 8, kv_dtype="fp8_e4m3"),
    Shape("gpt-oss-120b"),
    *(Shape("DeepSeek-V3", tp, 64, specs=LATENT) for tp in (1, 2, 8)),
    *(Shape("Llama-3.1-8B", tp) for tp in (1, 2, 4, 8)),
    *(Shape("Llama-3.1-70B", tp) for tp in (1, 2, 4, 8)),
    *(Shape(model, folder=HERE) for model in ("Qwen2.5-7B", "Qwen2.5-14B")),
    Shape("Llama-3.1-70B", 2, kv_dtype="fp8_e4m3"),
    Shape("Llama-3.1-8B", page_size=64),
    Shape("gemma-4-26B-A4B"),
)
"""GQA 32/8 and 64/8 at TP 1 to 8, 28/4, 40/8; MLA with 128, 64 and 16 heads; windows, sinks, fp8 KV, pages of 64."""


def main() -> int:
    options = _parser().parse_args()
    started = time.monotonic()
    profile = load_profile(options.device) if options.simulate else detect_profile(options.device)
    shapes = SHAPES[options.start :][: options.limit]
    with _measurer(options, profile) as measurer:
        say(started, f"worker ready: {measurer.environment().name}")
        jobs = [_job(shape, options, measurer, profile) for shape in shapes]
        say(started, f"{sum(len(job.request.workloads) for job in jobs)} workloads of {len(jobs)} shapes")
        if options.warm_seconds:
            say(started, _warm(jobs, options))
        for shape, job in zip(shapes, jobs, strict=True):
            command = shlex.join(["python", *sys.argv])
            provenance = make_provenance(_options(options), measurer.environment(), command, job.model, shape.tp)
            try:
                result = tune(
                    job.request,
                    job.tools,
                    Budget(seconds=options.seconds * len(job.request.workloads)),
                    options.out,
                    provenance,
                )
            except NothingRuns as error:
                say(started, f"{shape}: {error}")
                continue
            say(started, f"{shape}: {len(result.rows)} rows, {result.trials} trials, {result.seconds:.1f} s")
    say(started, "done")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help="with --simulate a profile's name")
    parser.add_argument("--simulate", action="store_true", help="answer from the cost model")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each workload")
    parser.add_argument("--warm-seconds", type=float, default=0.0, help="for compiling beforehand, in all")
    parser.add_argument("--workers", type=int, default=14, help="processes that compile")
    parser.add_argument("--storage", help="SQLAlchemy URL of the studies; in memory (/dev/shm) it costs least")
    parser.add_argument("--buckets", action="store_true", help="the tuner's own batches instead of a fixed list")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    return parser


class Near:
    """Of the project's own kernels, offers only points that differ from the default in one knob: a tenth of them."""

    def candidates(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Candidate, ...]:
        found: list[Candidate] = []
        for candidate in super().candidates(attention, batch, profile):  # type: ignore[misc]
            first = next((c for c in found if c.backend == candidate.backend), candidate)
            if candidate.backend != "attnroof_triton" or _changes(first, candidate) <= 1:
                found.append(candidate)
        return tuple(found)


class NearLive(Near, IsolatedMeasurer):
    """Measures on the device."""


class NearSimulated(Near, SimulatedMeasurer):
    """Answers from the cost model."""


def _changes(first: Candidate, other: Candidate) -> int:
    return sum(first.knobs[name] != value for name, value in other.knobs.items())


@contextmanager
def _measurer(options: argparse.Namespace, profile: Profile) -> Iterator[Measurer]:
    if options.simulate:
        yield NearSimulated(profile)
        return
    with NearLive(options.device, [name for name in backend_names() if name not in LEFT_OUT]) as measurer:
        yield measurer


def _options(options: argparse.Namespace) -> Options:
    return Options(options.device, options.out, options.storage, seed=options.seed)


def _job(shape: Shape, options: argparse.Namespace, measurer: Measurer, profile: Profile) -> Job:
    return prepare_job(shape.asked(options.buckets), _options(options), measurer, profile, _observe)


def _warm(jobs: Sequence[Job], options: argparse.Namespace) -> str:
    """Compile what each search runs first."""
    planned = [p for job in jobs for p in plan_run(job.request, job.tools)]
    for job in jobs:
        job.tools.cost.compiled()
    tasks = [(Workload(p.workload.attention, p.workload.batch, 0), p.first) for p in planned]
    return warm(tasks, options.device, workers=options.workers, seconds=options.warm_seconds)


def _observe(event: Event) -> None:
    if isinstance(event, Note):
        print(event.text, flush=True)


def say(started: float, text: str) -> None:
    print(f"{time.monotonic() - started:6.1f} s  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
