"""What can be wrong with a profile, each with what to do next."""

from collections.abc import Sequence


class ProfileError(ValueError):
    """A profile cannot be read or does not hold together."""


class MissingValue(ProfileError):
    """A value that a model needs is not in the profile."""

    def __init__(self, profile_id: str, field: str) -> None:
        self.profile_id = profile_id
        self.field = field
        super().__init__(
            f"profile {profile_id!r} has no confirmed {field}; measure it with 'attnroof hw calibrate' on that device, "
            f'or supply it in a file of your own: extends = "{profile_id}", {field} = <value in base units> '
            "(see docs/profiles.md)"
        )


class UnknownProfile(ProfileError):
    """No profile has this id, driver name or alias."""

    def __init__(self, name: str, nearest: Sequence[str] = (), hint: str = "") -> None:
        self.name = name
        self.nearest = tuple(nearest)
        if nearest:
            hint = f"nearest: {', '.join(nearest)}"
        super().__init__(
            f"no hardware profile is called {_cut(name)!r}{f'; {hint}' if hint else ''} ('attnroof hw list' shows all)"
        )


def _cut(name: str) -> str:
    return name if len(name) <= 80 else name[:77] + "..."


class PartitionedDevice(ProfileError):
    """The name is that of a slice of a device, which has no profile of its own."""

    def __init__(self, name: str, whole: str, partition: str) -> None:
        self.name = name
        self.whole = whole
        self.partition = partition
        super().__init__(
            f"{name!r} is a {partition} of {whole}, and what a slice gets of the memory bandwidth is not in any "
            f'datasheet; write a file with extends = "{whole}", num_sms, memory_bytes and memory_bytes_per_s of the '
            "slice, or run 'attnroof hw calibrate' on it (see docs/profiles.md)"
        )
