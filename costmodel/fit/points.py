"""Records as points to fit: what was measured, next to the plan that the emulator says was run."""

from collections.abc import Iterable
from dataclasses import dataclass

from costmodel.attention import Attention
from costmodel.batch import Batch
from costmodel.call import Call
from costmodel.emulators import Emulator, emulator_of
from costmodel.knobs import KNOBS, resolve_knobs
from costmodel.machine import Machine
from costmodel.parameters import Parameters
from costmodel.plan import Plan
from costmodel.prediction import KnobValue
from costmodel.record import Record
from costmodel.timing import Timing, job_cost, plan_loads, time_loads
from costmodel.workload import workload_key


@dataclass(slots=True)
class Point:
    """One measured call with its plan; schedules are kept by the fixed cost of a job."""

    call: Call
    emulator: Emulator
    plan: Plan
    seconds: float
    """Measured latency."""
    noise: float = 0.0
    """Relative spread of the repeats."""
    _loads: tuple[float, list[tuple[float, int]]] | None = None

    @property
    def workload(self) -> str:
        """Short key of attention and batch: rows that differ in knobs only share it."""
        return workload_key(self.call.attention, self.call.batch)

    def timing(self, p: Parameters) -> Timing:
        """Time the plan with the given parameters."""
        cost = job_cost(self.plan, p)
        if self._loads is None or self._loads[0] != cost:
            self._loads = (cost, plan_loads(self.plan, self.call.machine, cost))
        return time_loads(self.plan, self._loads[1], self.call.machine, p)


def make_point(
    attention: Attention, batch: Batch, machine: Machine, backend: str, knobs: dict[str, KnobValue], seconds: float
) -> Point:
    """Make a point from a call and its measured time."""
    emulator = emulator_of(backend)
    call = Call(attention, batch, machine, resolve_knobs(emulator.name, knobs))
    return Point(call, emulator, emulator.plan(call), seconds)


def points_of(records: Iterable[Record], machine: Machine) -> list[Point]:
    """Give the usable records of a device as points: measured, cold, not capped, of one launch, with known knobs."""
    points = []
    for record in records:
        if record.outcome != "measured" or record.latency_us is None or record.l2 != "cold":
            continue
        if record.is_sustained(machine.clock_hz):
            continue
        known = {spec.name for spec in KNOBS.get(record.backend, ())}
        knobs = {name: value for name, value in record.knobs.items() if name in known}
        point = make_point(
            record.to_attention(), record.to_batch(), machine, record.backend, knobs, record.latency_us * 1e-6
        )
        if point.plan.repeats > 1 or point.plan.after:
            continue
        if record.p10_us and record.p90_us:
            point.noise = (record.p90_us - record.p10_us) / record.latency_us
        points.append(point)
    return points
