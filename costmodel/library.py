"""Whether a library call can run a workload: SGLang's by the rule tables, the project's own by its limits."""

from collections.abc import Iterator

from costmodel.attention import Attention
from costmodel.batch import Batch
from costmodel.compat import library_reasons as table_reasons
from costmodel.emulators import ALIASES
from hwprofiles import Profile

OWN_KERNELS = "attnroof_triton"
OLDEST_CAPABILITY, FP8_E4M3_CAPABILITY = (8, 0), (8, 9)
DTYPES = ("bf16", "fp16")
WIDEST_HEAD, HEAD_STEP = 256, 8


def library_reasons(backend: str, attention: Attention, batch: Batch, profile: Profile) -> tuple[str, ...]:
    """Say all reasons why the library call cannot run this workload; empty where it can."""
    if backend != OWN_KERNELS:
        return table_reasons(ALIASES.get(backend, backend), attention, batch, profile)
    return (*_device_reasons(attention, profile), *_shape_reasons(attention))


def _device_reasons(attention: Attention, profile: Profile) -> Iterator[str]:
    major, _, minor = (profile.compute_capability or "0.0").partition(".")
    capability = (int(major), int(minor or 0))
    if profile.vendor != "NVIDIA" or capability < OLDEST_CAPABILITY:
        yield f"{OWN_KERNELS} runs on NVIDIA GPUs of compute capability 8.0 and later, not on {profile.name}"
    elif attention.kv_dtype == "fp8_e4m3" and capability < FP8_E4M3_CAPABILITY:
        yield f"{OWN_KERNELS} reads fp8_e4m3 from compute capability 8.9 on, not on {profile.name}"


def _shape_reasons(attention: Attention) -> Iterator[str]:
    dims = (attention.head_dim, attention.value_dim)
    if attention.dtype not in DTYPES:
        yield f"{OWN_KERNELS} takes queries in {' or '.join(DTYPES)}, not {attention.dtype}"
    if attention.kv_dtype != attention.dtype and not attention.kv_dtype.startswith("fp8"):
        yield f"{OWN_KERNELS} reads KV in the dtype of the queries or fp8, not {attention.kv_dtype}"
    if attention.top_k is not None:
        yield f"{OWN_KERNELS} has no sparse attention"
    if not attention.is_latent and max(dims) > WIDEST_HEAD:
        yield f"{OWN_KERNELS} takes head dims up to {WIDEST_HEAD}, not {max(dims)}"
    if any(dim % HEAD_STEP for dim in dims):
        yield f"{OWN_KERNELS} takes head dims that are multiples of {HEAD_STEP}, not {dims[0]} and {dims[1]}"
