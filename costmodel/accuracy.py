"""Predicted against recorded: errors, coverage, and what a choice made without measuring would have lost."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.attention import Attention
from costmodel.batch import Batch, Phase
from costmodel.calibration import resolve
from costmodel.call import Call
from costmodel.emulators import emulator_of
from costmodel.errors import UnknownBackend
from costmodel.estimate import estimate, limit_seconds
from costmodel.knobs import KNOBS, resolve_knobs
from costmodel.machine import machine_of
from costmodel.prediction import KnobValue, Prediction
from costmodel.record import Record
from costmodel.regime import SHORT_SECONDS
from costmodel.workload import workload_key
from hwprofiles import Profile

GOOD_ERROR = 0.1


@dataclass(frozen=True, slots=True)
class Row:
    """One recorded call beside its estimate."""

    attention: Attention
    batch: Batch
    backend: str
    knobs: dict[str, KnobValue]
    measured: float
    """Recorded latency, seconds."""
    prediction: Prediction
    limit: float
    """Datasheet roofline: the longer of bytes over bandwidth and FLOPs over the peak, seconds."""
    noise: float
    """Relative spread of the repeats, p90 - p10 over the median."""
    fitted: bool
    """Whether the workload was among those that the parameters were fitted on."""
    split_doubt: float = 0.0
    """Share by which a split count must look faster than the library's own choice before it is asked for."""

    @property
    def phase(self) -> Phase:
        """Phase of the call."""
        return self.batch.phase

    @property
    def error(self) -> float:
        """Relative error of the estimate."""
        return self.prediction.seconds / self.measured - 1

    @property
    def covered(self) -> bool:
        """Whether the measurement lies in the 90 % interval."""
        return self.prediction.low <= self.measured <= self.prediction.high


@dataclass(frozen=True, slots=True)
class Summary:
    """Errors of a group of rows; shares, not per cent."""

    rows: int
    mean: float
    median: float
    p95: float
    within: float
    """Share of rows within 10 %."""
    weighted: float
    """Sum of absolute errors over the sum of measured time."""
    mean_short: float | None
    """Mean error of rows below 30 us."""
    mean_long: float | None
    """Mean error of the others."""
    coverage: float
    """Share of rows in their 90 % interval."""
    roofline: float
    """Mean error of the datasheet roofline."""
    two_constants: float
    """Mean error of floor + roofline / efficiency, fitted to these very rows."""
    noise: float
    """Median relative spread of the repeats."""


def rows_of(records: Iterable[Record], profile: Profile, *, sustained: bool = False) -> list[Row]:
    """Estimate every measured record of a device that the model can express.

    Args:
        records: Records of the device.
        profile: The device.
        sustained: Give those that were measured under the power cap, which are not what is estimated, instead of the
            others.
    """
    machine = machine_of(profile)
    rows = []
    for record in records:
        if record.outcome != "measured" or not record.latency_us or record.l2 != "cold":
            continue
        if record.is_sustained(machine.clock_hz) is not sustained:
            continue
        try:
            emulator = emulator_of(record.backend)
        except UnknownBackend:
            continue
        known = {spec.name for spec in KNOBS.get(emulator.name, ())}
        knobs = {k: v for k, v in record.knobs.items() if k in known}
        call = Call(record.to_attention(), record.to_batch(), machine, resolve_knobs(emulator.name, knobs))
        resolved = resolve(emulator.name, emulator.plan(call).variant, machine)
        spread = (record.p90_us - record.p10_us) / record.latency_us if record.p90_us and record.p10_us else 0.0
        rows.append(
            Row(
                attention=call.attention,
                batch=call.batch,
                backend=record.backend,
                knobs=knobs,
                measured=record.latency_us * 1e-6,
                prediction=estimate(record.backend, emulator, call),
                limit=limit_seconds(call),
                noise=spread,
                fitted=workload_key(call.attention, call.batch) in resolved.workloads,
                split_doubt=resolved.split_doubt,
            )
        )
    return rows


def summarize(rows: Sequence[Row]) -> Summary:
    """Summarize rows.

    Raises:
        ValueError: There are none.
    """
    if not rows:
        raise ValueError("no rows to summarize")
    measured = np.array([r.measured for r in rows])
    errors = np.abs([r.error for r in rows])
    limits = np.array([r.limit for r in rows])
    short = measured < SHORT_SECONDS
    return Summary(
        rows=len(rows),
        mean=float(errors.mean()),
        median=float(np.median(errors)),
        p95=float(np.quantile(errors, 0.95)),
        within=float((errors <= GOOD_ERROR).mean()),
        weighted=float((errors * measured).sum() / measured.sum()),
        mean_short=float(errors[short].mean()) if short.any() else None,
        mean_long=float(errors[~short].mean()) if (~short).any() else None,
        coverage=float(np.mean([r.covered for r in rows])),
        roofline=float(np.abs(limits / measured - 1).mean()),
        two_constants=float(np.abs(_two_constants(limits, measured) / measured - 1).mean()),
        noise=float(np.median([r.noise for r in rows])),
    )


def grouped(rows: Iterable[Row], key: Callable[[Row], tuple[str, ...]]) -> dict[tuple[str, ...], list[Row]]:
    """Group rows, keys sorted."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return dict(sorted(groups.items()))


def _two_constants(limits: NDArray[np.float64], measured: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fit floor + roofline / efficiency by least squares on relative errors."""
    design = np.stack([1 / measured, limits / measured], axis=1)
    floor, inverse = np.linalg.lstsq(design, np.ones(len(measured)), rcond=None)[0]
    return np.maximum(floor, 0.0) + limits * max(inverse, 0.0)
