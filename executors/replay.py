"""A measurer that answers from records: the same answers on every machine, without the device."""

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from costmodel import Attention, Batch, Record
from costmodel.knobs import resolve_knobs
from executors.environment import Environment
from executors.outcome import Accuracy, Candidate, Conditions, Failed, Measured, Outcome, Rejected
from executors.recordings import read_records
from hwprofiles import Profile

_MIB = 1 << 20
_Workload = tuple[Attention, Batch]
RUN_TO_RUN = 0.005
"""Scale of the Laplace law of one run's deviation, as a share: two runs are then apart by 0.57 % (median) and 1.6 %
(p90). An H200 that measured 279 candidates twice, half an hour apart, gave 0.53 % and 1.73 % (docs/gpu-runs.md)."""


class ReplayMeasurer:
    """Replays the records of one device; a candidate recorded twice has its last record.

    Each time that a candidate is measured, its samples have the recorded spread around a middle that is off by as much
    as two runs of a device differ.

    Args:
        records: What was recorded.
        spread: Scale of that difference, as a share of the latency; 0 answers with the recorded middle.

    Raises:
        ValueError: There are no records, or records of several devices.
    """

    def __init__(self, records: Iterable[Record], *, spread: float = RUN_TO_RUN) -> None:
        self._spread = spread
        self._runs: Counter[tuple[_Workload, str]] = Counter()
        self._rows: dict[_Workload, dict[str, tuple[Candidate, Record]]] = {}
        self._implementations: dict[str, tuple[str, str]] = {}
        self._last: Record | None = None
        for record in records:
            if self._last is not None and record.device.name != self._last.device.name:
                raise ValueError(f"records of several devices: {self._last.device.name}, {record.device.name}")
            self._last = record
            candidate = Candidate(record.backend, record.knobs)
            self._implementations[record.backend] = (record.implementation, record.implementation_version)
            rows = self._rows.setdefault((record.to_attention(), _one_layer(record.to_batch())), {})
            rows[candidate.key] = (candidate, record)
        if self._last is None:
            raise ValueError("no records to replay")

    @classmethod
    def load(cls, *paths: Path) -> "ReplayMeasurer":
        """Replay the records of files or folders."""
        return cls(read_records(paths).records)

    def environment(self) -> Environment:
        """The device that was recorded."""
        assert self._last is not None
        device = self._last.device
        return Environment(
            device="cuda:0" if device.cc else "cpu",
            name=device.name,
            cc=device.cc,
            sms=device.sms,
            memory_bytes=None if device.memory_mib is None else device.memory_mib * _MIB,
            driver=device.driver,
            torch=self._last.torch,
            cuda=self._last.cuda,
            source="replay",
        )

    def implementation(self, backend: str) -> tuple[str, str] | None:
        """Library and version behind the backend's last record."""
        return self._implementations.get(backend)

    def implementation_of(self, candidate: Candidate, attention: Attention, batch: Batch) -> tuple[str, str] | None:
        """Library and version behind the candidate's backend."""
        return self.implementation(candidate.backend)

    def workloads(self) -> tuple[_Workload, ...]:
        """What was recorded."""
        return tuple(self._rows)

    def candidates(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Candidate, ...]:
        """What was recorded for the workload and not rejected, each backend's default first."""
        rows = self._rows.get((attention, _one_layer(batch)), {}).values()
        found = [candidate for candidate, record in rows if record.outcome != "rejected"]
        order = {name: i for i, name in enumerate(dict.fromkeys(c.backend for c in found))}
        return tuple(sorted(found, key=lambda c: (order[c.backend], not _is_default(c))))

    def rejections(self, attention: Attention, batch: Batch, profile: Profile) -> Mapping[str, Rejected]:
        """Backends that were rejected, with the recorded reason."""
        rows = self._rows.get((attention, _one_layer(batch)), {}).values()
        return {c.backend: Rejected((r.reason or "",)) for c, r in rows if r.outcome == "rejected"}

    def measure(
        self,
        attention: Attention,
        batch: Batch,
        candidates: Sequence[Candidate],
        *,
        seed: int,
        repeats: int,
        deadline: float | None = None,
    ) -> Mapping[str, Outcome]:
        """Answer at once; what was never recorded is rejected."""
        workload = (attention, _one_layer(batch))
        rows = self._rows.get(workload, {})
        return {
            c.key: self._answer(workload, rows[c.key][1], c.key, seed, repeats) if c.key in rows else _UNKNOWN
            for c in candidates
        }

    def _answer(self, workload: _Workload, record: Record, key: str, seed: int, repeats: int) -> Outcome:
        self._runs[workload, key] += 1
        draw = random.Random(f"{seed} {key} {self._runs[workload, key]} {workload[1].kv_lens[:4]}")
        return _outcome(record, draw, repeats, self._spread)


_UNKNOWN = Rejected(("not among the records",))


def _one_layer(batch: Batch) -> Batch:
    return batch if batch.layers == 1 else replace(batch, layers=1)


def _is_default(candidate: Candidate) -> bool:
    try:
        defaults = resolve_knobs(candidate.backend, {})
    except ValueError:
        return False
    return all(defaults.get(name, value) == value for name, value in candidate.knobs.items())


def _outcome(record: Record, draw: random.Random, repeats: int, spread: float) -> Outcome:
    accuracy = Accuracy(record.max_error or 0.0, record.tolerance or 0.0, record.deterministic, record.checked or 1.0)
    if record.outcome == "rejected":
        return Rejected((record.reason or "",))
    if record.outcome != "measured" or record.latency_us is None:
        kind = "crashed" if record.outcome == "measured" else record.outcome
        return Failed(kind, record.reason or "", accuracy if record.tolerance is not None else None)
    return Measured(
        seconds=_samples(record, draw, repeats, spread),
        accuracy=accuracy,
        eager_seconds=_seconds(record.eager_us),
        plan_seconds=_seconds(record.plan_us),
        write_seconds=_seconds(record.write_us),
        compile_seconds=record.compile_s,
        cold=record.l2 == "cold",
        path=record.path,
        conditions=Conditions(
            sm_clock_hz=None if record.sm_clock_mhz is None else record.sm_clock_mhz * 1e6,
            power_w=record.power_w,
            temperature_c=record.temperature_c,
            throttle=record.throttle,
            busy=record.busy,
        ),
        sustained_seconds=_seconds(record.sustained_us),
        step_seconds=_seconds(record.step_us),
    )


def laplace(draw: random.Random, scale: float) -> float:
    """Draw from Laplace's law around 0."""
    return scale * (math.log(1 - draw.random()) - math.log(1 - draw.random()))


def _samples(record: Record, draw: random.Random, repeats: int, spread: float) -> tuple[float, ...]:
    """Samples with the recorded p10 and p90 around a middle that is off by a run's difference, in a drawn order."""
    middle = record.latency_us or 0.0
    low, high = record.p10_us or middle, record.p90_us or middle
    run = math.exp(laplace(draw, spread))
    samples = []
    for i in range(repeats):
        place = (i + 0.5) / repeats
        side = (middle - low) if place < 0.5 else (high - middle)
        samples.append(run * (middle + (place - 0.5) / 0.4 * side) / 1e6)
    draw.shuffle(samples)
    return tuple(samples)


def _seconds(us: float | None) -> float | None:
    return None if us is None else us / 1e6
