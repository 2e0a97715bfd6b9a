"""A device as SGLang's platform checks see it: CUDA 13.0, FlashInfer installed, all devices of the host alike."""

from typing import Any

from hwprofiles import Profile

MIB = 1 << 20

CHUNKED_PREFILL_BY_MEMORY = ((20, 2048), (60, 4096), (160, 8192))
"""Below so many GiB of device memory, SGLang prefills by so many tokens (memory_hook.py:93)."""
CHUNKED_PREFILL_ABOVE = 16384
CHUNKED_PREFILL_BY_MEMORY_ASCEND = ((32, 4096), (64, 8192))


def device_facts(profile: Profile) -> dict[str, Any]:
    """Say which of SGLang's platform checks a device passes.

    Returns:
        Facts by name: `cuda`, `hip`, `xpu`, `npu`, `cpu`, `hpu` (one is true unless `device` is `other`), `sm` (90
        for 9.0), `capability_major`, the architecture families `sm90`, `sm100`, `sm100_or_110`, `sm120`, `blackwell`,
        `flashinfer`, `amx`, `arm`, `xmx`, `fnuz` (FP8 without negative zero), `gfx95`, `memory_mib`.
    """
    device = _kind(profile)
    target = (profile.arch_target or "").lower()
    major, minor = _capability(profile, device, target)
    cuda = device == "cuda"
    family = major if cuda else None
    memory = profile.memory_reported_bytes or profile.memory_bytes or 0
    return {
        "device": device,
        **{name: device == name for name in ("cuda", "hip", "xpu", "npu", "cpu", "hpu")},
        "sm": (major or 0) * 10 + (minor or 0) if cuda else 0,
        "capability_major": major,
        "sm90": family == 9,
        "sm100": family == 10,
        "sm100_or_110": family in (10, 11),
        "sm120": family == 12,
        "blackwell": family in (10, 11, 12),
        "flashinfer": cuda,
        "amx": device == "cpu" and ("amx" in target or profile.features.amx_bf16 is True),
        "arm": device == "cpu" and target.startswith(("arm", "aarch")),
        "xmx": device == "xpu",
        "fnuz": target.startswith("gfx94"),
        "gfx95": target.startswith("gfx95"),
        "memory_mib": memory // MIB,
        "chunked_prefill_default": _chunked_prefill(device, memory / MIB / 1024),
    }


def _kind(profile: Profile) -> str:
    if profile.kind == "cpu":
        return "cpu"
    if profile.vendor == "NVIDIA":
        return "cuda"
    if profile.vendor == "AMD":
        return "hip"
    if profile.vendor == "Huawei":
        return "npu"
    if profile.vendor == "Intel":
        return "hpu" if "gaudi" in (profile.architecture + profile.name).lower() else "xpu"
    return "other"


def _capability(profile: Profile, device: str, target: str) -> tuple[int | None, int | None]:
    if device == "cuda" and profile.compute_capability:
        major, _, minor = profile.compute_capability.partition(".")
        return int(major), int(minor or 0)
    if device == "hip" and target.startswith("gfx"):
        digits = target.removeprefix("gfx")
        return int(digits[:-2]), int(digits[-2], 16)  # PyTorch on ROCm: gfx942 is (9, 4)
    return None, None


def _chunked_prefill(device: str, gib: float) -> int:
    if not gib:
        return 4096
    table = CHUNKED_PREFILL_BY_MEMORY_ASCEND if device == "npu" else CHUNKED_PREFILL_BY_MEMORY
    for limit, tokens in table:
        if gib < limit or (device == "npu" and gib == limit):
            return tokens
    if device == "npu":
        return _chunked_prefill("gpu", gib)
    return CHUNKED_PREFILL_ABOVE
