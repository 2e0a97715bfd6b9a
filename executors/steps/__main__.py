"""Record whole steps and their parts: `python -m executors.steps run --models DIR --out DIR --budget-seconds 100`."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from costmodel import load_model
from executors.environment import Environment, detect
from executors.failures import device_is_lost, text_of
from executors.steps import records
from executors.steps.cases import ModelCases, find
from executors.steps.measure import StepBench
from executors.steps.shape import StackShape, stack_model
from hwprofiles import load_profile

say = partial(print, flush=True)
SMOKE_LAYERS = 2
CALIBRATIONS = Path(__file__).parents[2] / "costmodel" / "calibrations"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 done, 1 a check failed, 2 wrong usage."""
    options = _parser().parse_args(arguments)
    try:
        return COMMANDS[options.command](options)
    except (OSError, ValueError) as error:
        say(f"executors.steps: {error}", file=sys.stderr)
        return 2


def check(options: argparse.Namespace) -> int:
    """Compare two layers of every model with the reference, on every backend that its cases name."""
    wrong = 0
    for cases in find(options.only):
        bench = StepBench(_shape(options, cases, SMOKE_LAYERS), detect(options.device))
        seen: set[tuple[str, str]] = set()
        for case in cases.cases:
            key = (case.backend, case.batch().phase)
            if key in seen or case.batch().total_kv > options.largest_check:
                continue
            seen.add(key)
            try:
                record = bench.checked(case)
            except Exception as error:
                wrong += 1
                say(f"{cases.model} {case.spec} {case.backend}: {text_of(error)[:300]}")
                if device_is_lost(options.device):
                    return 1
                continue
            right = (record.max_error or 0.0) <= (record.tolerance or 0.0)
            wrong += not right
            say(
                f"{'right' if right else 'WRONG'} {cases.model} {case.spec} {case.backend}: "
                f"error {record.max_error}, tolerance {record.tolerance}, {record.latency_us} us"
            )
            records.append(options.out / "checks" / "steps.jsonl", record)
    return int(wrong > 0)


def run(options: argparse.Namespace) -> int:
    """Measure steps and parts, each model within its share of the budget."""
    chosen = find(options.only)
    environment = detect(options.device)
    end = time.monotonic() + options.budget_seconds
    known: set[tuple[object, ...]] = set()
    for index, cases in enumerate(chosen):
        left = end - time.monotonic()
        share = left * len(cases.cases) / sum(len(c.cases) for c in chosen[index:])
        if left > 0:
            _run_model(options, cases, environment, _Left(time.monotonic() + share, known))
    return 0


def pack(options: argparse.Namespace) -> int:
    """Write the measured steps and parts of a folder as the packaged files."""
    for stem, lines in (("steps", records.read_steps(options.models)), ("parts", records.read_parts(options.models))):
        records.pack(lines, options.out / f"{stem}.jsonl.xz")
        say(f"{len(lines)} {stem} to {options.out}")
    return 0


def fit(options: argparse.Namespace) -> int:
    """Fit the packaged parts of a device and write its calibration file."""
    from executors.steps.calibrate import FITTED_MODELS, calibration  # needs scipy

    profile = load_profile(options.gpu)
    steps = [r for r in records.read_steps() if r.model in FITTED_MODELS and r.outcome == "measured"]
    shaped = [(r, StackShape(stack_model(load_model(options.models / r.model), r.layers), r.tp)) for r in steps]
    command = f"python -m executors.steps fit --gpu {options.gpu}"
    text = calibration(records.read_parts(), shaped, profile, command)
    file = CALIBRATIONS / profile.id / "step.toml"
    file.write_text(text, encoding="utf-8")
    say(text, f"written to {file}")
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {"check": check, "run": run, "pack": pack, "fit": fit}


@dataclass(frozen=True, slots=True)
class _Left:
    """What a model may still use, and what need not be measured again."""

    end: float
    known: set[tuple[object, ...]]


def _run_model(options: argparse.Namespace, cases: ModelCases, environment: Environment, left: "_Left") -> None:
    started, end = time.monotonic(), left.end
    bench = StepBench(_shape(options, cases, options.layers or cases.layers), environment)
    say(f"[{cases.model}] weights in {time.monotonic() - started:.1f} s")
    part_end = started + (end - started) * options.parts_share
    for tokens in cases.tokens:
        if time.monotonic() > part_end:
            say(f"[{cases.model}] parts from {tokens} tokens on left out")
            break
        for part in bench.parts(tokens, left.known):
            records.append(options.out / "parts.jsonl", part)
    bench.release()
    say(f"[{cases.model}] parts after {time.monotonic() - started:.1f} s")
    for case in cases.cases:
        if time.monotonic() > end:
            say(f"[{cases.model}] left out from {case.spec} {case.backend} on")
            break
        try:
            record = bench.step(case)
        except Exception as error:
            record = bench.failed(case, text_of(error))
            if device_is_lost(options.device):
                records.append(options.out / "steps.jsonl", record)
                raise
        records.append(options.out / "steps.jsonl", record)
        what = (
            record.reason
            or f"{record.latency_us} us, attention {record.attention_us} us a layer, eager {record.eager_us}"
        )
        say(f"[{cases.model}] {case.spec} {case.backend}: {what} ({time.monotonic() - started:.1f} s)")


def _shape(options: argparse.Namespace, cases: ModelCases, layers: int | None) -> StackShape:
    return StackShape(stack_model(load_model(options.models / cases.model), layers), cases.tp)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m executors.steps", description=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--models", type=Path, default=Path("examples/models"), help="pack: the folder to read")
    parser.add_argument("--only", action="append", default=[], help="a model; may be repeated")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--layers", type=int, help="fewer layers than the model has")
    parser.add_argument("--budget-seconds", type=float, default=150.0)
    parser.add_argument("--parts-share", type=float, default=0.4, help="of a model's time that its parts may take")
    parser.add_argument("--largest-check", type=int, default=150_000, help="KV tokens of a checked batch")
    parser.add_argument("--gpu", default="h200", help="fit: the device")
    parser.add_argument("--out", type=Path, default=Path("results/steps"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
