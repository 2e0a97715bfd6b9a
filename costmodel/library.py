"""Whether a library call can run a workload: SGLang's by the rule tables, the project's own by its limits."""

from costmodel.attention import Attention
from costmodel.batch import Batch
from costmodel.compat import library_reasons as table_reasons
from costmodel.emulators import ALIASES
from hwprofiles import Profile

OWN_KERNELS = "attnroof_triton"
OLDEST_CAPABILITY = 8
WIDEST_HEAD = 256


def library_reasons(backend: str, attention: Attention, batch: Batch, profile: Profile) -> tuple[str, ...]:
    """Say all reasons why the library call cannot run this workload; empty where it can."""
    if backend != OWN_KERNELS:
        return table_reasons(ALIASES.get(backend, backend), attention, batch, profile)
    reasons = []
    capability = profile.compute_capability
    if profile.vendor != "NVIDIA" or capability is None or int(capability.split(".")[0]) < OLDEST_CAPABILITY:
        reasons.append(f"{OWN_KERNELS} runs on NVIDIA GPUs of compute capability 8.0 and later, not on {profile.name}")
    if attention.top_k is not None:
        reasons.append(f"{OWN_KERNELS} has no sparse attention")
    if not attention.is_latent and max(attention.head_dim, attention.value_dim) > WIDEST_HEAD:
        reasons.append(f"{OWN_KERNELS} takes head dims up to {WIDEST_HEAD}, not {attention.head_dim}")
    return tuple(reasons)
