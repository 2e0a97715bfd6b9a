"""Fitted parameters as data: which set applies to a backend on a device, and what it rests on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from costmodel.machine import NO_CUDA, Machine, machine_of
from costmodel.parameters import Parameters
from costmodel.prediction import Evidence
from costmodel.priors import cpu_parameters, prior
from costmodel.regime import OTHER_KERNELS
from costmodel.transfer import MADE_OF, assembled, carried
from hwprofiles import load_profile

HALF_WIDTH: dict[Evidence, float] = {"calibrated": 0.15, "others": 0.6, "structure": 0.8, "measured": 0.05}
"""Relative half-width of the interval where no calibration gives one; those of `structure` are a statement of doubt."""

CPU_FACTOR = 3.2
"""Nine of ten of 98 recorded CPU calls lie within this factor of the estimate; a shared 2-core machine."""

OTHER_KERNEL_ELSEWHERE = frozenset({"trtllm_mha"})
"""Backends that run another kernel on another architecture: XQA on Hopper, generated kernels on Blackwell."""

SPLIT_DOUBT = 0.05
"""Share by which a split count must look faster than the library's own choice where no records say how much."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """Parameters of one kernel on one device with their interval."""

    parameters: Parameters
    evidence: Evidence
    intervals: Mapping[str, tuple[float, float]]
    """Regime to the ends of the 90 % interval over the estimate; `all` for the others."""
    workloads: frozenset[str] = frozenset()
    """Keys of the workloads that were fitted on."""
    split_doubt: float = SPLIT_DOUBT
    """Share by which a split count must look faster than the library's own choice before it is asked for."""

    def interval(self, *groups: str) -> tuple[float, float]:
        """Ends of the 90 % interval over the estimate: the widest of the groups that the call belongs to.

        Args:
            groups: As `costmodel.regime.regimes_of` names them.
        """
        found = [self.intervals[name] for name in map(self._known, groups) if name in self.intervals]
        return max(found, key=lambda ends: ends[1]) if found else self.intervals["all"]

    def _known(self, group: str) -> str:
        return OTHER_KERNELS if group.startswith("kernel:") and group not in self.intervals else group


def resolve(backend: str, variant: str, machine: Machine) -> Resolved:
    """Give the parameters of a kernel variant: fitted to this device, else carried over, else by structure."""
    key = (backend, variant)
    found = machine.resolved.get(key)
    if found is None:
        found = machine.resolved[key] = _resolve(backend, variant, machine)
    return found


def _resolve(backend: str, variant: str, machine: Machine) -> Resolved:
    if machine.kind == "cpu":
        evidence: Evidence = "others" if machine.measured else "structure"
        return Resolved(cpu_parameters(machine, variant), evidence, {"all": (1 / CPU_FACTOR, CPU_FACTOR)})
    own = _load(machine.profile_id, backend)
    if own and variant in own["variants"]:
        return _fitted(own, variant)
    loop, job = MADE_OF.get((backend, variant), ((backend, variant), None))
    for device in _devices():
        fitted = _fitted_elsewhere(device, loop, machine)
        frame = _fitted_elsewhere(device, job, machine) if job else None
        if fitted is not None:
            moved = carried(
                assembled(fitted, frame) if frame else fitted, loop, machine_of(load_profile(device)), machine
            )
            return _plain(moved, "structure" if machine.capability == NO_CUDA else "others")
    return _plain(prior(backend, variant, machine), "structure")


def _fitted_elsewhere(device: str, kernel: tuple[str, str], machine: Machine) -> Parameters | None:
    backend, variant = kernel
    data = _load(device, backend)
    if data is None or variant not in data["variants"]:
        return None
    if backend in OTHER_KERNEL_ELSEWHERE and data["family"] != machine.family:
        return None
    return _parameters(data["variants"][variant])


def doubt(evidence: Evidence) -> tuple[float, float]:
    """Ends of the 90 % interval over the estimate where no calibration gives them."""
    half = HALF_WIDTH[evidence]
    return 1 / (1 + half), 1 + half


def _plain(parameters: Parameters, evidence: Evidence) -> Resolved:
    return Resolved(parameters, evidence, {"all": doubt(evidence)})


def _fitted(backend: dict[str, Any], variant: str) -> Resolved:
    data = backend["variants"][variant]
    intervals = {regime: (low, high) for regime, (low, high) in data["intervals"].items()}
    margin = backend.get("split_doubt", SPLIT_DOUBT)
    return Resolved(_parameters(data), "calibrated", intervals, frozenset(data["workloads"]), margin)


def _parameters(data: dict[str, Any]) -> Parameters:
    return Parameters(**data["parameters"], factors=data.get("factors", {}))


@lru_cache(maxsize=1)
def _devices() -> tuple[str, ...]:
    folder = files("costmodel") / "calibrations"
    return tuple(sorted(entry.name for entry in folder.iterdir() if entry.is_dir())) if folder.is_dir() else ()


@lru_cache(maxsize=256)
def _load(device: str, backend: str) -> dict[str, Any] | None:
    file = files("costmodel") / "calibrations" / device / f"{backend}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
