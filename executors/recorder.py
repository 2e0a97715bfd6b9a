"""Recording: outcomes become records, appended whole to a file of JSON lines."""

import fcntl
import os
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, assert_never

from costmodel import Attention, Batch, Record
from costmodel.record import RecordedBatch
from executors.environment import Environment
from executors.outcome import Accuracy, Candidate, Failed, Measured, Outcome, Rejected

UNKNOWN = ("unknown", "unknown")
"""Implementation and version of a backend that names neither."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What was measured, and where: all that the records of one group share."""

    attention: Attention
    batch: Batch
    environment: Environment


def to_record(
    workload: Workload, candidate: Candidate, outcome: Outcome, implementation: tuple[str, str] | None
) -> Record:
    """Turn one outcome into a record, stamped with the time now (UTC).

    Args:
        workload: Layer, batch and environment.
        candidate: Backend and knobs.
        outcome: How the run ended.
        implementation: Library and version behind the backend.
    """
    library, version = implementation or UNKNOWN
    batch, environment = workload.batch, workload.environment
    return Record(
        attention=_changed_fields(workload.attention),
        batch=RecordedBatch(**asdict(batch)),
        backend=candidate.backend,
        implementation=library,
        implementation_version=version,
        knobs=dict(candidate.knobs),
        device=environment.recorded(),
        torch=environment.torch,
        cuda=environment.cuda,
        time=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **_outcome_fields(outcome),
    )


def append_records(path: Path, records: Iterable[Record]) -> None:
    """Append lines in one write under a lock, after whatever a killed writer left behind.

    Raises:
        OSError: The file cannot be written.
    """
    text = "".join(record.to_line() + "\n" for record in records)
    if not text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = file.seek(0, os.SEEK_END)
        if size:
            file.seek(size - 1)
            if file.read(1) != b"\n":
                text = "\n" + text
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def _changed_fields(attention: Attention) -> dict[str, Any]:
    """Fields that differ from their default, and the three that have none."""
    return {f.name: getattr(attention, f.name) for f in fields(attention) if getattr(attention, f.name) != f.default}


def _outcome_fields(outcome: Outcome) -> Mapping[str, Any]:
    match outcome:
        case Measured():
            return _measured_fields(outcome)
        case Rejected(reasons):
            return {"outcome": "rejected", "reason": "; ".join(reasons)}
        case Failed(kind, message, accuracy):
            return {"outcome": kind, "reason": message, **(_accuracy_fields(accuracy) if accuracy else {})}
        case _:
            assert_never(outcome)


def _measured_fields(outcome: Measured) -> dict[str, Any]:
    conditions = outcome.conditions
    ordered = sorted(outcome.seconds)
    return {
        "outcome": "measured",
        "latency_us": _us(statistics.median(ordered)),
        "p10_us": _us(_quantile(ordered, 0.1)),
        "p90_us": _us(_quantile(ordered, 0.9)),
        "repeats": len(ordered),
        "eager_us": _us(outcome.eager_seconds),
        "plan_us": _us(outcome.plan_seconds),
        "write_us": _us(outcome.write_seconds),
        "sustained_us": _us(outcome.sustained_seconds),
        "step_us": _us(outcome.step_seconds),
        "compile_s": _rounded(outcome.compile_seconds),
        "l2": "cold" if outcome.cold else "warm",
        "path": outcome.path,
        "sm_clock_mhz": None if conditions.sm_clock_hz is None else round(conditions.sm_clock_hz / 1e6),
        "power_w": _rounded(conditions.power_w),
        "temperature_c": conditions.temperature_c,
        "throttle": conditions.throttle,
        "busy": conditions.busy,
        **_accuracy_fields(outcome.accuracy),
    }


def _accuracy_fields(accuracy: Accuracy) -> dict[str, Any]:
    return {
        "max_error": _rounded(accuracy.max_error),
        "tolerance": _rounded(accuracy.tolerance),
        "deterministic": accuracy.deterministic,
        "checked": None if accuracy.checked == 1.0 else _rounded(accuracy.checked),
    }


def _quantile(ordered: list[float], share: float) -> float:
    """Quantile by linear interpolation between order statistics."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _us(seconds: float | None) -> float | None:
    return None if seconds is None else _rounded(seconds * 1e6)


def _rounded(value: float | None) -> float | None:
    """Five significant digits; NaN, which JSON lacks, becomes None."""
    return None if value is None or value != value else float(f"{value:.5g}")
