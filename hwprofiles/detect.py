"""What is in this machine, without importing a tensor library."""

from hwprofiles.amd import amd_devices
from hwprofiles.cpu import read_cpu
from hwprofiles.errors import ProfileError
from hwprofiles.local import local_cpu
from hwprofiles.match import Detected, match
from hwprofiles.nvidia import nvidia_devices
from hwprofiles.profile import Profile
from hwprofiles.seen import Seen


def detect_profile(device: str | None = None) -> Profile:
    """Profile of a device at hand.

    Args:
        device: `cuda:0`, `cpu`, ...; the first accelerator, or the processor where there is none, if None.

    Raises:
        ProfileError: There is no such device; the message lists those there are.
    """
    if device == "cpu":
        return local_cpu()
    wanted = "cuda:0" if device == "cuda" else device
    found = detect_devices()
    for each in found:
        if wanted in (None, each.seen.device):
            return each.profile
    raise ProfileError(f"no device {device!r} in this machine; there is {', '.join(d.seen.device for d in found)}")


def detect_devices() -> tuple[Detected, ...]:
    """All devices at hand with their profiles: accelerators first, the processor last."""
    accelerators = [match(seen) for seen in (*nvidia_devices(), *amd_devices())]
    return (*accelerators, _processor())


def _processor() -> Detected:
    cpu = read_cpu()
    profile = local_cpu()
    seen = Seen("cpu", cpu.model, cpu.vendor, num_sms=cpu.cores, memory_bytes=cpu.memory_bytes)
    if profile.measured:
        return Detected(seen, profile, True)
    return Detected(
        seen, profile, False, ("profile made on the spot; 'attnroof hw calibrate --device cpu' measures the rest",)
    )
