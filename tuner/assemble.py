"""From what was predicted and measured to a row of the configuration."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from costmodel import Prediction
from executors.outcome import Candidate
from tuner.noise import timing
from tuner.reachable import OWN_BACKENDS
from tuner.row import Choice, Counts, Row, Status, Tried
from tuner.session import Known
from tuner.space import Space
from tuner.spec import spec_of
from tuner.unmeasured import choose_unmeasured
from tuner.verdict import Times, Verdict, decide
from tuner.workload import Workload

Implementation = Callable[[Candidate], tuple[str, str] | None]


@dataclass(frozen=True, slots=True)
class Findings:
    """All that is known about one workload when its search ends."""

    space: Space
    predictions: Mapping[str, Prediction | None]
    known: Mapping[str, Known]
    times: Times
    """Repeats that decide, by candidate."""
    skipped: int
    complete: bool
    """Whether the search ended by itself, not by the budget."""
    implementation: Implementation
    notes: tuple[str, ...] = ()
    rejections: Mapping[str, str] | None = None


def assemble(workload: Workload, found: Findings) -> Row:
    """Build the row."""
    space, point = found.space, workload.point
    reachable = [c for c in space.candidates if c.key in space.reachable]
    default = space.default
    verdict = decide(space.candidates, default, found.times)
    libraries = [c for c in space.candidates if c.backend not in OWN_BACKENDS]
    others = decide(libraries, default, found.times)
    sglang = decide(reachable, default if default in reachable else None, found.times)
    best = verdict.best if verdict else _unmeasured(space.candidates, found) or default
    ours = sglang.best if sglang else _unmeasured(reachable, found)
    pick = _Picker(found)
    notes = [*found.notes]
    if verdict and verdict.unsteady:
        notes.append(f"unstable: {verdict.unsteady}")
    notes += dict.fromkeys(text for k in found.known.values() for text in k.disturbed)
    failures = {k.candidate.key: f"{k.outcome}: {k.reason}" for k in found.known.values() if k.outcome != "measured"}
    return Row(
        phase=point.phase,
        batch_size=point.batch_size,
        q_len=point.q_len,
        kv_len=point.kv_len,
        max_kv_len=point.max_kv_len,
        topk=point.topk,
        spec=spec_of(workload.batch),
        layers=workload.layers,
        best=pick(best),
        best_sglang=pick(ours) if ours else None,
        runner_up=pick(verdict.runner_up) if verdict and verdict.runner_up else None,
        sglang_default=pick(default) if default in reachable else None,
        gain=_gain(others, default, found.times),
        own_gain=_gain(verdict, default, found.times) if best.backend in OWN_BACKENDS else None,
        noise=_noise(verdict, best, found.times),
        status=_status(verdict, found),
        counts=_counts(found),
        tried={key: _tried(found, key) for key in sorted(found.times, key=lambda k: timing(found.times[k]).seconds)},
        notes=tuple(notes),
        failures={**failures, **(found.rejections or {})},
    )


class _Picker:
    """Turns a candidate into a choice with its times."""

    def __init__(self, found: Findings) -> None:
        self._found = found

    def __call__(self, candidate: Candidate) -> Choice:
        found, key = self._found, candidate.key
        prediction = found.predictions.get(key)
        times = found.times.get(key)
        spread = timing(times) if times else None
        known = found.known.get(key)
        name, version = found.implementation(candidate) or ("unknown", "unknown")
        return Choice(
            backend=candidate.backend,
            implementation=name,
            implementation_version=version,
            knobs=dict(candidate.knobs),
            sglang=candidate.key in found.space.reachable,
            predicted_us=_us(prediction.seconds) if prediction else None,
            low_us=_us(prediction.low) if prediction else None,
            high_us=_us(prediction.high) if prediction else None,
            measured_us=_us(spread.seconds) if spread else None,
            p10_us=_us(spread.p10) if spread else None,
            p90_us=_us(spread.p90) if spread else None,
            repeats=spread.repeats if spread else 0,
            plan_us=_us(known.plan_seconds) if known else None,
            eager_us=_us(known.eager_seconds) if known else None,
        )


def _tried(found: Findings, key: str) -> Tried:
    prediction = found.predictions.get(key)
    predicted = None if prediction is None else 1e6 * prediction.seconds
    return Tried(measured_us=1e6 * timing(found.times[key]).seconds, predicted_us=predicted)


def _unmeasured(candidates: Sequence[Candidate], found: Findings) -> Candidate | None:
    """The predicted choice; the default, or the first where it is not among them, when those that ran all failed."""
    default = found.space.default
    if not candidates:
        return None
    default = default if default in candidates else candidates[0]
    return default if found.known else choose_unmeasured(candidates, default, found.predictions)


def _gain(verdict: Verdict | None, default: Candidate, times: Times) -> float | None:
    if verdict is None or not times.get(default.key):
        return None
    if verdict.gain is None:
        return 1.0 if verdict.best.key == default.key else None
    return 1 / verdict.gain.seconds


def _noise(verdict: Verdict | None, best: Candidate, times: Times) -> float | None:
    if verdict is None:
        return None
    spread = verdict.gain or timing(times[best.key])
    return None if spread.repeats < 2 else spread.noise


def _status(verdict: Verdict | None, found: Findings) -> Status:
    if verdict is None:
        return "untuned" if found.known else "predicted"
    if verdict.unsteady:
        return "unstable"
    failed = any(k.outcome in ("oom", "timeout", "crashed") for k in found.known.values())
    return "partial" if failed or not found.complete else "measured"


def _counts(found: Findings) -> Counts:
    total = len(found.space)
    measured = sum(k.outcome == "measured" for k in found.known.values())
    failed = len(found.known) - measured
    left = total - measured - failed - found.skipped
    return Counts(candidates=total, measured=measured, failed=failed, skipped=found.skipped, left=max(0, left))


def _us(seconds: float | None) -> float | None:
    return None if seconds is None else 1e6 * seconds
