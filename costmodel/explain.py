"""What a kernel does with a workload, as values to show: tiles, jobs, the load of every slot, and where time goes."""

from collections.abc import Mapping
from dataclasses import dataclass

from costmodel.attention import Attention
from costmodel.batch import Batch
from costmodel.calibration import resolve
from costmodel.call import Call
from costmodel.emulators import emulator_of
from costmodel.errors import Incompatible
from costmodel.estimate import estimate
from costmodel.knobs import resolve_knobs
from costmodel.library import library_reasons
from costmodel.machine import machine_of
from costmodel.plan import Plan
from costmodel.prediction import KnobValue, Prediction
from costmodel.splits import SplitChoice, choose_splits
from costmodel.timing import job_cost, plan_loads
from hwprofiles import Profile


@dataclass(frozen=True, slots=True)
class Explanation:
    """One workload on one backend, taken apart."""

    prediction: Prediction
    plan: Plan
    slots: int
    """CTAs that the device holds at once."""
    loads: tuple[tuple[float, int], ...]
    """`(KV tiles, slots)`: what each slot works through, lightest first; slots without work left out."""
    job_tiles: float
    """Fixed cost of a job, in tiles, contained in `loads`."""
    splits: SplitChoice | None
    """The split counts and their times, where the backend has that knob."""


def explain(
    attention: Attention,
    batch: Batch,
    *,
    backend: str,
    profile: Profile,
    knobs: Mapping[str, KnobValue] | None = None,
) -> Explanation:
    """Take one call apart; arguments and errors are those of `predict`."""
    emulator = emulator_of(backend)
    call = Call(attention, batch, machine_of(profile), resolve_knobs(emulator.name, knobs))
    reasons = library_reasons(emulator.name, attention, batch, profile)
    if reasons:
        raise Incompatible(backend, reasons)
    plan = emulator.plan(call)
    fixed = job_cost(plan, resolve(emulator.name, plan.variant, call.machine).parameters)
    return Explanation(
        prediction=estimate(backend, emulator, call),
        plan=plan,
        slots=call.machine.sms * plan.slots_per_sm,
        loads=tuple(plan_loads(plan, call.machine, fixed)),
        job_tiles=fixed,
        splits=choose_splits(emulator, call) if plan.splittable else None,
    )
