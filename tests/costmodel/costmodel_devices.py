"""Devices for the tests of the cost model, as the library loads them."""

from functools import cache

from costmodel.machine import Machine, machine_of
from hwprofiles import Profile, load_profile


@cache
def device(name: str = "h200") -> Profile:
    """A profile, loaded once."""
    return load_profile(name)


def machine(name: str = "h200") -> Machine:
    """Its machine."""
    return machine_of(device(name))
