"""Hardware profiles: what each accelerator is, and what was measured on the one at hand."""

from hwprofiles.errors import MissingValue, PartitionedDevice, ProfileError, UnknownProfile
from hwprofiles.features import Features
from hwprofiles.loader import list_profiles, load_profile
from hwprofiles.measured import Measured
from hwprofiles.profile import Profile

__all__ = [
    "Features",
    "Measured",
    "MissingValue",
    "PartitionedDevice",
    "Profile",
    "ProfileError",
    "UnknownProfile",
    "list_profiles",
    "load_profile",
]
