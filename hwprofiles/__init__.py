"""Hardware profiles: what each accelerator is, and what was measured on the one at hand."""

from hwprofiles.profile import Features, Measured, MissingValue, Profile, ProfileError

__all__ = ["Features", "Measured", "MissingValue", "Profile", "ProfileError"]
