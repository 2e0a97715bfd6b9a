"""What the compatibility rules know about a device: its platform and its exact architecture."""

from typing import NamedTuple

from hwprofiles import Profile

XPU_TARGETS = ("xe_hpc", "xe_hpg", "xe_lpg", "xe2_hpg", "xe2_lpg", "xe3_lpg")


class Device(NamedTuple):
    """Platform as SGLang tells them apart, and the compiler target that rules name one by one."""

    platform: str
    """cuda, rocm, xpu, npu, hpu, cpu or other."""
    arch: str
    """sm_90, gfx942, ...; on a CPU `amx` or `no_amx`; '' where the profile does not say."""
    name: str


def describe(profile: Profile) -> Device:
    """Give the facts of a profile that rules depend on."""
    vendor, target = profile.vendor.lower(), profile.arch_target or ""
    if profile.kind == "cpu":
        return Device("cpu", "amx" if profile.features.amx_bf16 else "no_amx", profile.name)
    if vendor == "nvidia":
        cc = profile.compute_capability
        return Device("cuda", f"sm_{cc.replace('.', '')}" if cc else target, profile.name)
    if vendor == "amd":
        return Device("rocm", target, profile.name)
    if vendor == "intel":
        return Device("hpu" if target.startswith("gaudi") else "xpu", target, profile.name)
    if vendor == "huawei":
        return Device("npu", target, profile.name)
    return Device("other", target, profile.name)


def contradiction(profile: Profile) -> str | None:
    """Say where a profile's compute capability and compiler target disagree; None where they agree."""
    cc, target = profile.compute_capability, profile.arch_target
    if cc is None or target is None or not target.startswith("sm_"):
        return None
    if target.rstrip("af") == f"sm_{cc.replace('.', '')}":
        return None
    return (
        f"{profile.name}: compute capability {cc} contradicts its architecture {target}; "
        "check the driver's report against the product before trusting either"
    )
