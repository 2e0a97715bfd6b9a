"""The validity rule: which results of another environment may stand beside this one's."""

import re

from costmodel.record import RecordedDevice
from hwprofiles import ProfileError, load_profile


def same_implementation(old: tuple[str, str], new: tuple[str, str]) -> bool:
    """Whether two versions of a library count as the same: name, major and minor agree; a patch does not matter."""
    return old[0] == new[0] and _major_minor(old[1]) == _major_minor(new[1])


def device_differences(old: RecordedDevice, new: RecordedDevice) -> list[str]:
    """Say what makes results of one device another's: SM architecture, SM count, or plainly another product.

    Driver and memory size do not; a name that differs only in how the driver writes it does not either.
    """
    found = []
    if old.cc != new.cc:
        found.append(f"SM architecture {old.cc} instead of {new.cc}")
    if old.sms != new.sms:
        found.append(f"{old.sms} SMs instead of {new.sms}")
    if old.name != new.name and _product(old.name) != _product(new.name):
        found.append(f"{old.name} instead of {new.name}")
    return found


def _product(name: str) -> str:
    try:
        return load_profile(name).id
    except ProfileError:
        return name


def _major_minor(version: str) -> tuple[str, ...]:
    return tuple(re.split(r"[.\-+]", version)[:2])
