"""How few measurements find the best candidate, replayed on recorded exhaustive sweeps, without a GPU.

    python benchmarks/replay.py                  # attnroof now, beside what is kept of random search and Optuna's TPE
    python benchmarks/replay.py --keep           # run those where records changed: half an hour on 2 cores for all
    python benchmarks/replay.py --least 30       # the split sweeps alone
    python benchmarks/replay.py --correlations   # how far errors of estimates go together

An evaluation is one candidate measured once. Each measurement is the recorded time, off by as much as two runs of the
device differ; a method's choice is what looked best to it, and counts with its recorded time. The default, which a
tuning run always measures too, is not counted for any method. The model was fitted to a part of the same records.

The score is the field's (Willemsen et al., A methodology for comparing optimization algorithms for auto-tuning, 2024):
0 is random search without repeats, 1 the best from the first evaluation on; averaged over the evaluations that random
search needs for 95 % of the way from the median candidate to the best, then over the workloads.
"""

import argparse
import itertools
import math
import multiprocessing
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import replay_kept
from replay_cases import Case, load_cases
from replay_kept import Kept
from replay_methods import LEAST_SLOWER, METHODS, STEPS, TPE_ONCE, Done, run, unmeasured

from costmodel import Attention, Batch
from costmodel.accuracy import rows_of
from executors.outcome import Candidate
from executors.recordings import PACKAGED, read_records
from hwprofiles import load_profile
from tuner.beliefs import Z90, distance

LEAST = 4
REPEATS = 100
WITHOUT_MODEL = tuple(name for name in METHODS if name != "attnroof")
BASELINES = (*WITHOUT_MODEL, TPE_ONCE)
BLOCK = 32
SEEDS = 3
"""Of attnroof, whose choices only the noise of a run changes."""


@dataclass(frozen=True)
class Score:
    """One method over all workloads."""

    method: str
    quality: dict[int, float]
    """Evaluations to geometric mean of best time over found time."""
    evaluations: float
    """Mean evaluations until one is within 1 % of the best."""
    score: float
    slower: int
    """Workloads where the choice after three and the default is more than 2 % slower than the default."""
    worst: float
    """Largest time of such a choice over that of the default."""


def main() -> int:
    options = _parser().parse_args()
    started = time.monotonic()
    cases = list(load_cases(options.records, options.least))
    if not cases:
        sys.exit("no recorded workload has so many candidates")
    if options.correlations:
        for line in correlations(cases):
            print(line)
        return 0
    if options.keep:
        keep(cases, options.processes)
    for line in report(cases, options.processes):
        print(line)
    print(f"{time.monotonic() - started:.0f} s")
    return 0


def keep(cases: Sequence[Case], processes: int) -> None:
    """Run the searches without a model where nothing is kept for the workload, saved after each block."""
    current = {c.fingerprint: c for c in cases}
    kept = {key: k for key, k in replay_kept.load().items() if k.case in current and k.method in BASELINES}
    missing = [c for _, c in sorted(current.items()) if any((c.fingerprint, n, REPEATS) not in kept for n in BASELINES)]
    for start in range(0, len(missing), BLOCK):
        block = missing[start : start + BLOCK]
        for method in WITHOUT_MODEL:
            for case, done in zip(block, replay([(c, method, range(REPEATS)) for c in block], processes), strict=True):
                kept |= {(case.fingerprint, n, REPEATS): Kept(case.fingerprint, n, REPEATS, d) for n, d in done.items()}
        replay_kept.save(kept.values())
        print(f"{start + len(block)} of {len(missing)} workloads replayed", flush=True)


def report(cases: Sequence[Case], processes: int = 1) -> list[str]:
    """The table with what stands below it, over the workloads for which every search has a result."""
    kept = replay_kept.load()
    for name in BASELINES:
        cases = replay_kept.covered(cases, name, REPEATS, kept)
    if not cases:
        raise ValueError("nothing is kept for these workloads: python benchmarks/replay.py --keep")
    found = replay([(case, "attnroof", range(SEEDS)) for case in cases], processes)
    ours = score("attnroof", [done["attnroof"] for done in found])
    scores = [ours, *(score(name, [kept[c.fingerprint, name, REPEATS].done for c in cases]) for name in BASELINES)]
    again, once = (s.evaluations / ours.evaluations for s in scores[-2:])
    sizes = sorted(len(c.space) for c in cases)
    known = fitted_workloads()
    fresh = [done["attnroof"] for case, done in zip(cases, found, strict=True) if case.key not in known]
    unseen = score("attnroof", fresh)
    return [
        *markdown(cases, scores),
        "",
        f"Best time over found time on {len(cases)} recorded workloads of {sizes[0]} to {sizes[-1]} candidates, random "
        f"search and TPE {REPEATS} times each (`python benchmarks/replay.py`; score: 0 is random search, "
        "1 the best at once; median over workloads). An evaluation is one candidate measured once; the default, which "
        "a tuning run measures too, counts for nobody. "
        f"TPE alone needs {again:.1f} × as many, {once:.1f} × where a candidate that it draws "
        f"again does not count. On the {len(fresh)} workloads that the model was not fitted on, attnroof reaches "
        f"{', '.join(f'{100 * unseen.quality[k]:.1f}' for k in STEPS)} % and needs {unseen.evaluations:.1f}.",
        "With no measurement the default stays unless the predicted gain exceeds its uncertainty: "
        f"{compare(cases, [unmeasured(c) for c in cases])} (the fastest estimate outright: "
        f"{compare(cases, [fastest(c) for c in cases])}; after three measurements: "
        f"{ours.slower}, {100 * (ours.worst - 1):.1f} %).",
    ]


def fitted_workloads() -> frozenset[tuple[Attention, Batch]]:
    """Workloads of which some record was fitted on."""
    rows = rows_of(read_records(PACKAGED).records, load_profile("h200"))
    return frozenset((r.attention, replace(r.batch, layers=1)) for r in rows if r.fitted)


def replay(tasks: Sequence[tuple[Case, str, range]], processes: int) -> list[dict[str, Done]]:
    """Replay methods on workloads."""
    if processes <= 1:
        return list(itertools.starmap(run, tasks))
    with multiprocessing.Pool(processes) as pool:
        return pool.starmap(run, tasks, chunksize=4)


def score(method: str, done: Sequence[Done]) -> Score:
    """Average a method over workloads."""
    return Score(
        method,
        {k: _quality(done, k) for k in STEPS if k in done[0].losses},
        statistics.fmean(d.evaluations for d in done),
        statistics.median(d.score for d in done if d.score is not None),
        sum(d.slower > 1 + LEAST_SLOWER for d in done),
        max(d.slower for d in done),
    )


def _quality(done: Sequence[Done], count: int) -> float:
    return math.exp(-statistics.fmean(d.losses[count] for d in done))


def markdown(cases: Sequence[Case], scores: Sequence[Score]) -> list[str]:
    """The table of the README."""
    head = [f"{k} measured" for k in STEPS]
    lines = [
        "| best time over found time, after | " + " | ".join(head) + " | evaluations to 99 % | score |",
        "|--|" + "--:|" * (len(STEPS) + 2),
    ]
    for s in scores:
        cells = [f"{100 * s.quality[k]:.1f} %" if k in s.quality else "" for k in STEPS]
        lines.append(f"| {s.method} | " + " | ".join(cells) + f" | {s.evaluations:.1f} | {s.score:.2f} |")
    default = math.exp(statistics.fmean(math.log(c.best / c.seconds[c.space.default.key]) for c in cases))
    lines.append(f"| SGLang's default backend | {100 * default:.1f} % | " + " | ".join([""] * 5) + " |")
    return lines


def fastest(case: Case) -> Candidate:
    """The candidate with the least predicted time."""
    known = {c.key: p.seconds for c in case.space.candidates if (p := case.predictions[c.key]) is not None}
    return min(case.space.candidates, key=lambda c: known.get(c.key, math.inf))


def compare(cases: Sequence[Case], choices: Sequence[Candidate]) -> str:
    """Quality of choices, and how often they are slower than the default."""
    pairs = [(c, c.seconds[choice.key]) for c, choice in zip(cases, choices, strict=True)]
    quality = math.exp(statistics.fmean(math.log(c.best / seconds) for c, seconds in pairs))
    ratios = [seconds / c.seconds[c.space.default.key] for c, seconds in pairs]
    slower = sum(r > 1 + LEAST_SLOWER for r in ratios)
    return (
        f"{100 * quality:.1f} %, more than {100 * LEAST_SLOWER:.0f} % slower than the default in {slower} of them, "
        f"at worst {100 * (max(ratios) - 1):.1f} %"
    )


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
    out = []
    for candidate in case.space.candidates:
        p = case.predictions[candidate.key]
        if p is not None:
            z = math.log(case.seconds[candidate.key] / p.seconds) / (math.log(p.high / p.low) / (2 * Z90))
            out.append((candidate, max(-4.0, min(4.0, z))))
    return out


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, default=PACKAGED)
    parser.add_argument("--least", type=int, default=LEAST, help="candidates a workload must have")
    parser.add_argument("--keep", action="store_true", help="replay random search and TPE where records changed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--correlations", action="store_true", help="how much errors of predictions are shared")
    return parser


if __name__ == "__main__":
    sys.exit(main())
