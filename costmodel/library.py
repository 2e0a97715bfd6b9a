"""What a library call cannot run; the full rules are in `costmodel.compat`."""

from costmodel.attention import Attention
from costmodel.batch import Batch
from hwprofiles import Profile

MLA_ONLY = frozenset({"flashmla", "trtllm_mla", "cutedsl_mla", "tokenspeed_mla"})
CPU_BACKENDS = frozenset({"torch_native", "flex_attention", "intel_amx"})
VENDORS: dict[str, tuple[str, ...]] = {
    "aiter": ("AMD",),
    "wave": ("AMD",),
    "ascend": ("Huawei",),
    "intel_xpu": ("Intel",),
    "fa3": ("NVIDIA",),
    "fa4": ("NVIDIA",),
    "flashinfer": ("NVIDIA",),
    "flashmla": ("NVIDIA",),
    "trtllm_mha": ("NVIDIA",),
    "trtllm_mla": ("NVIDIA",),
    "hpc_ops": ("NVIDIA",),
}
SPARSE = frozenset({"dsa", "qsa", "dsv4", "minicpm_flashattn", "minicpm_flashinfer", "nsa", "compressed"})
BLACKWELL: dict[str, tuple[str, ...]] = {
    "trtllm_mla": ("10.0", "10.3"),
    "cutedsl_mla": ("10.0", "10.3"),
    "tokenspeed_mla": ("10.0", "10.3"),
    "hpc_ops": ("9.0",),
}


def library_reasons(backend: str, attention: Attention, batch: Batch, profile: Profile) -> tuple[str, ...]:
    """Say all reasons why the library call cannot run this workload; empty where it can."""
    reasons = []
    if profile.kind == "cpu" and backend not in CPU_BACKENDS:
        reasons.append(f"{backend} does not run on a CPU")
    if backend == "intel_amx" and profile.kind != "cpu":
        reasons.append("intel_amx runs on a CPU with AMX only")
    if backend in MLA_ONLY and not attention.is_latent:
        reasons.append(f"{backend} computes absorbed MLA only")
    if backend == "flashmla" and profile.compute_capability != "9.0":
        reasons.append(f"FlashMLA's dense decode needs compute capability 9.0, not {profile.compute_capability}")
    if backend == "flashmla" and batch.page_size != 64:
        reasons.append(f"FlashMLA needs pages of 64 tokens, not {batch.page_size}")
    if backend == "fa3" and profile.compute_capability not in ("8.0", "8.6", "8.7", "8.9", "9.0"):
        reasons.append(f"fa3 needs compute capability 8.x or 9.0, not {profile.compute_capability}")
    if backend in VENDORS and profile.vendor not in VENDORS[backend]:
        reasons.append(f"{backend} runs on {' or '.join(VENDORS[backend])} devices, not on {profile.name}")
    if backend in SPARSE and attention.top_k is None:
        reasons.append(f"{backend} computes sparse attention only")
    if backend not in SPARSE and attention.top_k is not None:
        reasons.append(f"{backend} has no sparse attention")
    if backend in BLACKWELL and profile.compute_capability not in BLACKWELL[backend]:
        reasons.append(f"{backend} needs compute capability {' or '.join(BLACKWELL[backend])}")
    return tuple(reasons)
