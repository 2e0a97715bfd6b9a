"""How few measurements find the best candidate, replayed on recorded exhaustive sweeps, without a GPU.

    python benchmarks/replay.py                          # all recorded workloads with at least 4 candidates
    python benchmarks/replay.py --least 30               # the split sweeps
    python benchmarks/replay.py --tpe-repeats 100 --json replay.json

The search is the tuner's own strategy on the cost model's predictions; random search and Optuna's TPE draw from the
same candidates. Random search draws each once; TPE alone measures a repeated draw again. Quality is best time over
found time, as a geometric mean. The model was fitted to a part of the same records.
"""

import argparse
import itertools
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import optuna

from costmodel import Attention, Batch
from executors.outcome import Candidate, Measured
from executors.recordings import PACKAGED, read_records
from executors.replay import ReplayMeasurer
from hwprofiles import Profile, load_profile
from tuner.beliefs import Z90, distance
from tuner.cost import TrialCost
from tuner.noise import timing
from tuner.predictions import predict_all
from tuner.session import Known
from tuner.space import Space, pick_default
from tuner.spec import spec_of
from tuner.strategy import Guided, Plan
from tuner.workload import Workload

STEPS = (0, 1, 3, 8)
NEAR = 0.99
SGLANG_ON_HOPPER = ("fa3", "flashmla", "triton")
"""What SGLang chooses there by itself, first choice first."""
TIRELESS = Plan(first=1, group=1, horizon=1e15, chance=0.0)


@dataclass(frozen=True)
class Case:
    """One recorded workload with the time of every candidate."""

    workload: Workload
    space: Space
    seconds: dict[str, float]
    profile: Profile

    @property
    def best(self) -> float:
        return min(self.seconds.values())


@dataclass
class Replayed:
    """Stands in for a study: what was measured so far."""

    case: Case
    order: list[Candidate]

    def known(self) -> dict[str, Known]:
        return {c.key: Known(c, (self.case.seconds[c.key],), "measured", None, None) for c in self.order}

    def held(self) -> frozenset[str]:
        return frozenset(c.key for c in self.order)


@dataclass(frozen=True)
class Score:
    """One method over all cases."""

    method: str
    cases: int
    quality: dict[int, float]
    """Evaluations to geometric mean of best time over found time."""
    evaluations: float
    """Mean evaluations until 99 % of the best is found."""


def main() -> int:
    options = _parser().parse_args()
    started = time.monotonic()
    cases = list(load_cases(options.records, options.least, options.limit))
    if not cases:
        sys.exit("no recorded workload has so many candidates")
    if options.correlations:
        for line in correlations(cases):
            print(line)
        return 0
    sizes = [len(c.space) for c in cases]
    scores = [
        score("attnroof", cases, lambda case, seed: guided(case), 1),
        score("library default", cases, lambda case, seed: [case.space.default], 1),
        score("random", cases, shuffled, options.repeats),
    ]
    if options.tpe_repeats:
        scores.append(score("Optuna TPE", cases, tpe, options.tpe_repeats))
        free = partial(tpe, free_repeats=True)
        scores.append(score("Optuna TPE, repeats free", cases, free, options.tpe_repeats))
    print(f"{len(cases)} workloads, {min(sizes)} to {max(sizes)} candidates (median {statistics.median(sizes):.0f})")
    for line in markdown(scores):
        print(line)
    slower = [c for c in cases if c.seconds[guided(c)[0].key] > 1.02 * c.seconds[c.space.default.key]]
    print(f"predicted choice more than 2 % slower than the library's default: {len(slower)} of {len(cases)} workloads")
    print(f"{time.monotonic() - started:.0f} s")
    if options.json:
        options.json.write_text(json.dumps([asdict(s) for s in scores], indent=1))
    return 0


def load_cases(records: Path, least: int, limit: int | None) -> Iterator[Case]:
    """Read recorded workloads in which every candidate but failed ones has a time."""
    measurer = ReplayMeasurer(read_records(records).records)
    profile = load_profile(measurer.environment().name)
    for i, (attention, batch) in enumerate(measurer.workloads()):
        if limit is not None and i >= limit:
            return
        case = _case(measurer, attention, batch, profile)
        if case is not None and len(case.space) >= least:
            yield case


def _case(measurer: ReplayMeasurer, attention: Attention, batch: Batch, profile: Profile) -> Case | None:
    candidates = measurer.candidates(attention, batch, profile)
    outcomes = measurer.measure(attention, batch, candidates, seed=0, repeats=7)
    seconds = {key: timing(o.seconds).seconds for key, o in outcomes.items() if isinstance(o, Measured)}
    usable = tuple(c for c in candidates if c.key in seconds)
    if not usable:
        return None
    names = {c.backend: c.knobs.keys() for c in reversed(usable)}
    usable = tuple(c for c in usable if c.knobs.keys() == names[c.backend])
    space = Space(usable, pick_default(usable, SGLANG_ON_HOPPER))
    return Case(Workload(attention, batch, spec_of(batch)), space, {c.key: seconds[c.key] for c in usable}, profile)


_ORDERS: dict[int, list[Candidate]] = {}


def guided(case: Case) -> list[Candidate]:
    """The order in which the tuner measures."""
    known = _ORDERS.get(id(case))
    if known is not None:
        return known
    predictions = predict_all(case.workload, case.space.candidates, case.profile)
    strategy = Guided(case.space, predictions, TIRELESS, TrialCost("cuda", 7))
    study = Replayed(case, [strategy.ranking()[0]])
    while len(study.order) < len(case.space):
        chosen = strategy.choose(study)  # type: ignore[arg-type]
        if chosen is None:
            break
        study.order.append(chosen)
    _ORDERS[id(case)] = study.order
    return study.order


def shuffled(case: Case, seed: int) -> list[Candidate]:
    """A random order."""
    order = list(case.space.candidates)
    random.Random(seed).shuffle(order)
    return order


def tpe(case: Case, seed: int, *, free_repeats: bool = False) -> list[Candidate]:
    """Candidates in the order in which Optuna's TPE draws them; repeats left out where they are free."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    distributions = case.space.distributions()
    order: list[Candidate] = []
    for _ in range(5 * len(case.space)):
        trial = study.ask()
        backend = trial.suggest_categorical("backend", distributions["backend"].choices)
        params = {"backend": backend}
        for name, distribution in distributions.items():
            if name.startswith(f"{backend}."):
                params[name] = trial.suggest_categorical(name, distribution.choices)
        candidate = case.space.candidate(params)
        if candidate is None:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            continue
        study.tell(trial, case.seconds[candidate.key])
        if not free_repeats or candidate not in order:
            order.append(candidate)
        if case.seconds[candidate.key] <= case.best / NEAR and len(order) >= max(STEPS):
            break
    return [*order, *(c for c in case.space.candidates if c not in order)]


def score(method: str, cases: Sequence[Case], order_of: Callable[[Case, int], list[Candidate]], repeats: int) -> Score:
    """Average a method over cases and seeds."""
    logs: dict[int, list[float]] = {k: [] for k in STEPS}
    needed = []
    for case in cases:
        for seed in range(repeats):
            order = order_of(case, seed)
            found = [case.seconds[c.key] for c in order]
            for k in STEPS:
                seen = min(found[: max(1, k)])
                logs[k].append(math.log(case.best / seen))
            near = next((i + 1 for i, s in enumerate(_running(found)) if s <= case.best / NEAR), len(case.space))
            needed.append(near)
    quality = {k: math.exp(statistics.fmean(v)) for k, v in logs.items()}
    return Score(method, len(cases), quality, statistics.fmean(needed))


def correlations(cases: Sequence[Case]) -> Iterator[str]:
    """Correlation of the model's standardised log errors, between backends and by distance of the knobs."""
    sums: dict[str, float] = {}
    weights: dict[str, float] = {}
    squares = []
    for case in cases:
        errors = _errors(case)
        squares += [z * z for _, z in errors]
        pairs = list(itertools.combinations(errors, 2))
        for (a, x), (b, y) in pairs:
            same = a.backend == b.backend
            kind = (
                f"one backend, knobs {round(2 * distance(a.knobs, b.knobs)) / 2:.1f} apart" if same else "two backends"
            )
            sums[kind] = sums.get(kind, 0.0) + x * y / len(pairs)
            weights[kind] = weights.get(kind, 0.0) + 1 / len(pairs)
    variance = statistics.fmean(squares)
    yield f"variance of standardised errors {variance:.2f}"
    for kind in sorted(sums):
        yield f"{kind}: {sums[kind] / weights[kind] / variance:.2f}"


def _errors(case: Case) -> list[tuple[Candidate, float]]:
    predictions = predict_all(case.workload, case.space.candidates, case.profile)
    out = []
    for candidate in case.space.candidates:
        p = predictions[candidate.key]
        if p is not None:
            z = math.log(case.seconds[candidate.key] / p.seconds) / (math.log(p.high / p.low) / (2 * Z90))
            out.append((candidate, max(-4.0, min(4.0, z))))
    return out


def _running(values: Sequence[float]) -> list[float]:
    out: list[float] = []
    for value in values:
        out.append(min(value, out[-1]) if out else value)
    return out


def markdown(scores: Sequence[Score]) -> list[str]:
    """The table of the README."""
    head = [f"{k} measured" for k in STEPS]
    lines = ["| method | " + " | ".join(head) + " | evaluations to 99 % |", "|--|" + "--:|" * (len(STEPS) + 1)]
    for s in scores:
        cells = [f"{100 * s.quality[k]:.1f} %" for k in STEPS]
        if s.method not in ("attnroof", "library default"):
            cells[0] = "-"
        if s.method == "library default":
            cells = [cells[0], *["-"] * (len(STEPS) - 1)]
        evaluations = "-" if s.method == "library default" else f"{s.evaluations:.1f}"
        lines.append(f"| {s.method} | " + " | ".join(cells) + f" | {evaluations} |")
    return lines


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, default=PACKAGED)
    parser.add_argument("--least", type=int, default=4, help="candidates a workload must have")
    parser.add_argument("--limit", type=int, help="workloads looked at")
    parser.add_argument("--repeats", type=int, default=100, help="seeds of random search")
    parser.add_argument("--tpe-repeats", type=int, default=10, help="seeds of TPE; 0 leaves it out")
    parser.add_argument("--correlations", action="store_true", help="how much errors of predictions are shared")
    parser.add_argument("--json", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
