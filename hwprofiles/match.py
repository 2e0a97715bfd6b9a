"""Which profile a device at hand has: by name, told apart by SM count and memory, else made on the spot."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hwprofiles.assemble import made_on_the_spot
from hwprofiles.loader import list_profiles
from hwprofiles.names import normalized
from hwprofiles.profile import Profile
from hwprofiles.seen import Seen

REPORTED_TOLERANCE = 0.02
"""Between two readings of the same memory: firmware and driver keep varying parts for themselves."""
NOMINAL_TOLERANCE = 0.12
"""Between the nominal size and a reading: ECC takes a sixteenth of GDDR6, the driver some more."""
PER_SM = ("matrix_flops_per_s", "vector_flops_per_s")


@dataclass(frozen=True, slots=True)
class Detected:
    """One device at hand with its profile."""

    seen: Seen
    profile: Profile
    from_file: bool
    """False for a profile made on the spot."""
    remarks: tuple[str, ...] = ()


def match(seen: Seen, profiles: Sequence[Profile] | None = None) -> Detected:
    """Find the profile of a device, or make one from its architecture and what the driver reports."""
    profiles = list_profiles() if profiles is None else profiles
    named = [p for p in profiles if normalized(seen.name) in {normalized(n) for n in p.driver_names}]
    if seen.partition:
        return _partition(seen, named or [p for p in profiles if _same_chip(p, seen)])
    fitting = [p for p in named if fits(p, seen)]
    if fitting:
        others = tuple(f"{other.id} fits {seen.device} as well: give --gpu" for other in fitting[1:])
        return Detected(seen, fitting[0], True, (*_remarks(seen, fitting[0]), *others))
    alike = [p for p in profiles if _same_chip(p, seen) and p.num_sms == seen.num_sms and _memory_fits(p, seen)]
    if len(alike) == 1 and (named or seen.vendor == "AMD"):
        told = f"{seen.name!r} with {_shape(seen)} is taken for {alike[0].name}, by chip, SM count and memory"
        return Detected(seen, alike[0], True, (told, *_remarks(seen, alike[0])))
    if named:
        return _variant(seen, named[0])
    return _unknown(seen)


def fits(profile: Profile, seen: Seen) -> bool:
    """Whether nothing the driver reports speaks against a profile."""
    same_sms = None in (profile.num_sms, seen.num_sms) or profile.num_sms == seen.num_sms
    return same_sms and _memory_fits(profile, seen)


def _memory_fits(profile: Profile, seen: Seen) -> bool:
    if seen.memory_bytes is None:
        return True
    if profile.memory_reported_bytes:
        return abs(seen.memory_bytes / profile.memory_reported_bytes - 1) <= REPORTED_TOLERANCE
    return profile.memory_bytes is None or abs(seen.memory_bytes / profile.memory_bytes - 1) <= NOMINAL_TOLERANCE


def _same_chip(profile: Profile, seen: Seen) -> bool:
    return profile.kind != "cpu" and seen.arch_target is not None and profile.arch_target == seen.arch_target


def _remarks(seen: Seen, profile: Profile) -> tuple[str, ...]:
    if seen.power_limit_w and profile.tdp_w and seen.power_limit_w < 0.95 * profile.tdp_w:
        return (
            f"power is capped at {seen.power_limit_w:.0f} W of {profile.tdp_w:.0f} W: "
            "'attnroof hw calibrate' measures what that leaves",
        )
    return ()


def _partition(seen: Seen, wholes: Sequence[Profile]) -> Detected:
    if not wholes:
        return _unknown(seen)
    detected = _variant(seen, wholes[0])
    remark = f"{seen.device} is a {seen.partition} part of a {wholes[0].name}; its share of bandwidth is not known"
    return Detected(seen, detected.profile, False, (remark,))


def _variant(seen: Seen, whole: Profile) -> Detected:
    """A profile like another, with the SM count and memory that the driver reports; rates go with the SMs."""
    sms = seen.num_sms or whole.num_sms
    share = sms / whole.num_sms if sms and whole.num_sms else 1.0
    changes: dict[str, Any] = {
        "id": f"{whole.id}-{_suffix(seen)}",
        "name": f"{seen.name} ({_shape(seen)})",
        "aliases": (),
        "driver_names": (),
        "num_sms": sms,
        "memory_bytes": seen.memory_bytes,
        "memory_reported_bytes": seen.memory_bytes,
        "memory_bytes_per_s": seen.memory_bytes_per_s,
        "measured": None,
        "confidence": "low",
        "notes": (f"Made on the spot: like {whole.id}, rates scaled by the number of {whole.sm_kind}s.",),
        "origins": whole.origins
        | {"num_sms": "measured", "memory_bytes": "measured", "memory_bytes_per_s": "derived"}
        | dict.fromkeys(PER_SM, "derived"),
    }
    for table in PER_SM:
        changes[table] = {dtype: rate * share for dtype, rate in getattr(whole, table).items()}
    remark = f"{seen.device} prints {seen.name!r} but has {_shape(seen)}, unlike {whole.name}: profile made on the spot"
    return Detected(seen, whole.model_copy(update=changes), False, (remark,))


def _unknown(seen: Seen) -> Detected:
    """A profile from the architecture's facts and the driver's numbers."""
    values: dict[str, Any] = {
        "id": f"local-{normalized(seen.name).replace(' ', '-')}",
        "name": seen.name,
        "vendor": seen.vendor,
        "kind": "gpu",
        "arch_target": seen.arch_target,
        "compute_capability": seen.compute_capability,
        "driver_names": [seen.name],
        "num_sms": seen.num_sms,
        "boost_clock_hz": seen.boost_clock_hz,
        "memory_bytes": seen.memory_bytes,
        "memory_bytes_per_s": seen.memory_bytes_per_s,
        "tdp_w": seen.power_limit_w,
        "confidence": "low",
        "notes": ["Made on the spot from the driver's numbers and the architecture's rates at the highest clock."],
    }
    profile = made_on_the_spot({k: v for k, v in values.items() if v is not None})
    remark = f"{seen.device} ({seen.name}) is in no profile file: profile made on the spot, see docs/profiles.md"
    return Detected(seen, profile, False, (remark,))


def _shape(seen: Seen) -> str:
    memory = "unknown memory" if seen.memory_bytes is None else f"{seen.memory_bytes / 2**30:.0f} GiB"
    return f"{seen.num_sms or 'an unknown number of'} SMs and {memory}"


def _suffix(seen: Seen) -> str:
    return (seen.partition or f"{seen.num_sms}sm-{(seen.memory_bytes or 0) >> 30}gib").lower().replace(" ", "-")
