"""`rank`: every backend with the knobs worth trying, fastest first, then those that cannot run and why."""

from collections.abc import Collection, Iterator

from costmodel.attention import Attention
from costmodel.batch import Batch
from costmodel.call import Call
from costmodel.cascade import cascade_reasons, estimate_shared
from costmodel.deterministic import deterministic_knobs, deterministic_reasons
from costmodel.emulators import EMULATORS, Emulator, emulator_of
from costmodel.errors import Incompatible
from costmodel.knobs import resolve_knobs
from costmodel.library import library_reasons
from costmodel.machine import machine_of
from costmodel.mla_form import served_form
from costmodel.predict import check_memory
from costmodel.prediction import Knobs, Ranked
from costmodel.splits import MODE_KNOB, SPLIT_KNOB, choose_splits
from hwprofiles import Profile


def rank(
    attention: Attention,
    batch: Batch,
    *,
    profile: Profile,
    backends: Collection[str] | None = None,
    deterministic: bool = False,
) -> list[Ranked]:
    """Estimate all backends and the knobs worth trying.

    Args:
        attention: Heads, dims, masks and dtypes of the layer on this rank.
        batch: Requests and their lengths.
        profile: The device.
        backends: Only these; None means all.
        deterministic: As SGLang calls the backends in deterministic inference.

    Returns:
        Estimates, fastest first; then the backends that cannot run, with reasons.

    Raises:
        UnknownBackend: One of `backends` is no backend's name.
        ValueError: The batch does not fit the device's memory.
        MissingValue: The profile lacks a value that the estimates need.
    """
    asked = EMULATORS.keys() if backends is None else {emulator_of(name).name for name in backends}
    machine = machine_of(profile)
    call = Call(attention, batch, machine, {})
    check_memory(call)
    rows: list[Ranked] = []
    rejected: list[Ranked] = []
    for name, emulator in EMULATORS.items():
        if name not in asked:
            continue
        reasons = library_reasons(name, attention, batch, profile)
        if deterministic:
            reasons += deterministic_reasons(name, attention, machine)
        if reasons:
            rejected.append(Ranked(name, {}, None, reasons))
            continue
        worth = candidates(emulator, call.with_knobs(resolve_knobs(name, None)))
        for knobs in [deterministic_knobs(name, batch)] if deterministic else worth:
            own = call.with_knobs(resolve_knobs(name, knobs))
            try:
                rows.append(Ranked(name, knobs, estimate_shared(name, emulator, own)))
            except Incompatible as error:
                rejected.append(Ranked(name, knobs, None, error.reasons))
    rows.sort(key=lambda row: row.prediction.seconds if row.prediction else float("inf"))
    return rows + rejected


def rank_as_served(
    attention: Attention, batch: Batch, *, profile: Profile, deterministic: bool = False, captured: bool = False
) -> list[Ranked]:
    """Rank with dense MLA in the form that SGLang runs with each backend; arguments and errors as for `rank`.

    Args:
        attention: The layer on this rank; MLA on the latent.
        batch: Requests and their lengths.
        profile: The device.
        deterministic: As SGLang calls the backends in deterministic inference.
        captured: Prefill runs in a CUDA graph.
    """
    forms: dict[Attention, list[str]] = {}
    for name in EMULATORS:
        form = served_form(attention, batch, name, profile=profile, deterministic=deterministic, captured=captured)
        forms.setdefault(form, []).append(name)
    rows = [
        row
        for form, names in forms.items()
        for row in rank(form, batch, profile=profile, backends=names, deterministic=deterministic)
    ]
    return sorted(rows, key=lambda row: row.prediction.seconds if row.prediction else float("inf"))


def worth_splitting(emulator: Emulator, call: Call) -> bool:
    """Whether the split count can matter: decode, or too few query tiles to fill the device."""
    if emulator.name == "triton":
        return call.batch.phase == "decode"
    return call.batch.phase == "decode" or emulator.plan(call).unit_count < call.machine.sms


def candidates(emulator: Emulator, call: Call) -> Iterator[Knobs]:
    """Name the knob settings worth estimating: the default first, then the best split count where it is worth it."""
    yield {}
    if call.batch.shared_prefix and not cascade_reasons(emulator.name, call):
        yield {"cascade": True}
        if emulator.name == "flashinfer" and call.machine.capability == (9, 0):
            yield {"cascade": True, "kernel": "fa2"}
    decode = call.batch.phase == "decode"
    latent = call.attention.is_latent
    if emulator.name == "flashinfer" and call.machine.kind == "gpu":
        if latent or not decode:
            if call.machine.capability == (9, 0):
                yield {"kernel": "fa2"}
                yield {"kernel": "fa3"}
        else:
            yield {"use_tensor_cores": True}
            yield {"use_tensor_cores": False}
    if emulator.name not in SPLIT_KNOB or not worth_splitting(emulator, call):
        return
    choice = choose_splits(emulator, call, quick=True)
    if choice is not None and choice.worth_asking:
        knob = SPLIT_KNOB[emulator.name]
        mode = MODE_KNOB.get(emulator.name)
        yield {knob: choice.best, **({mode[0]: mode[1]} if mode else {})}
