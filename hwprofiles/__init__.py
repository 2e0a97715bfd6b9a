"""Hardware profiles: what each accelerator is, and what was measured on the one at hand."""

from hwprofiles.detect import detect_devices, detect_profile
from hwprofiles.errors import MissingValue, PartitionedDevice, ProfileError, UnknownProfile
from hwprofiles.features import Features
from hwprofiles.library import cache_home, calibrated_here
from hwprofiles.loader import list_profiles, load_profile
from hwprofiles.match import Detected
from hwprofiles.measured import Measured
from hwprofiles.profile import Profile

__all__ = [
    "Detected",
    "Features",
    "Measured",
    "MissingValue",
    "PartitionedDevice",
    "Profile",
    "ProfileError",
    "UnknownProfile",
    "cache_home",
    "calibrated_here",
    "detect_devices",
    "detect_profile",
    "list_profiles",
    "load_profile",
]
