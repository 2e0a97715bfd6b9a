"""The table of backends: name, library, and the emulator that says what it launches."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from costmodel.backends import attnroof_triton, fa3, flashinfer, flashmla, flex_attention, torch_native, triton
from costmodel.backends.structural import STRUCTURES, plan_of
from costmodel.call import Call
from costmodel.errors import UnknownBackend
from costmodel.plan import Plan


@dataclass(frozen=True, slots=True)
class Emulator:
    """One backend as the cost model knows it."""

    name: str
    implementation: str
    implementation_version: str
    """Version whose policies are emulated."""
    plan: Callable[[Call], Plan]
    host_seconds: float = 30e-6
    """Python time of one eager call."""
    plan_seconds: float = 0.0
    """Host time to prepare a forward step, without requests."""
    plan_request_seconds: float = 0.0
    """Host time to prepare one more request."""


_SGLANG = "0.5.23"

EMULATORS: dict[str, Emulator] = {
    e.name: e
    for e in (
        Emulator("fa3", "flash_attn_interface", "3.0.0", fa3.plan, 25e-6, 20e-6),
        Emulator("flashinfer", "flashinfer", "0.6.13", flashinfer.plan, 25e-6, 80e-6, 1.5e-6),
        Emulator("triton", "sglang", _SGLANG, triton.plan, 80e-6, 60e-6),
        Emulator("flashmla", "flash_mla", "1.0.0", flashmla.plan, 20e-6, 15e-6),
        Emulator("torch_native", "torch", "2.13.0", torch_native.plan, 60e-6),
        Emulator("flex_attention", "torch", "2.13.0", flex_attention.plan, 60e-6),
        Emulator("attnroof_triton", "attnroof", "0.1.0", attnroof_triton.plan, 80e-6, 30e-6),
        *(Emulator(name, "sglang", _SGLANG, partial(plan_of, rows)) for name, rows in STRUCTURES.items()),
    )
}

ALIASES: dict[str, str] = {"nsa": "dsa", "compressed": "dsv4"}
"""SGLang's further names for the same backend."""


def implementation_of(backend: str) -> tuple[str, str]:
    """Give the library and the version whose policies are emulated.

    Raises:
        UnknownBackend: No backend of that name.
    """
    emulator = emulator_of(backend)
    return emulator.implementation, emulator.implementation_version


def emulator_of(backend: str) -> Emulator:
    """Give a backend's emulator; an alias gives its backend's.

    Raises:
        UnknownBackend: No backend of that name; the message lists the nearest.
    """
    found = EMULATORS.get(ALIASES.get(backend, backend))
    if found is None:
        raise UnknownBackend(backend, [*EMULATORS, *ALIASES])
    return found
