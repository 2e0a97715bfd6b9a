"""Which FlashInfer modules a GPU host without network or compiler time has: those that docs/gpu-runs.md compiles."""

from costmodel import Attention, Batch
from executors.base import Knob, KnobValue

DECODE_DIMS = (64, 128)
FA2_DIMS = (64, 128)
FA3_DIMS = (64, 128)
XQA_GROUPS = (4, 8)
XQA_PAGE = 64


def has_module(backend: str, attention: Attention, batch: Batch) -> bool:
    """Whether any kernel of a backend is there without compiling; true for backends that compile nothing."""
    if backend == "trtllm_mha":
        plain = attention.head_dim == 128 and attention.dtype == "bf16" and attention.sliding_window is None
        return plain and not attention.sinks and attention.group_size in XQA_GROUPS and batch.page_size == XQA_PAGE
    if backend != "flashinfer":
        return True
    if attention.dtype != "bf16" or attention.logit_soft_cap is not None:
        return False
    if attention.is_latent:
        return attention.kv_dtype == "bf16"
    special = attention.sliding_window is not None or attention.kv_dtype != "bf16"
    return attention.head_dim == attention.value_dim and attention.head_dim in ((128,) if special else FA2_DIMS)


def built(backend: str, knob: Knob, attention: Attention) -> tuple[KnobValue, ...]:
    """Leave the knob's values whose module is there; the first stays the default."""
    if backend != "flashinfer" or attention.is_latent:
        return knob.values
    special = attention.sliding_window is not None or attention.kv_dtype != "bf16"
    if knob.name == "use_tensor_cores":
        return (True,) if special or attention.head_dim not in DECODE_DIMS else knob.values
    if knob.name == "kernel":
        return ("fa2",) if special or attention.head_dim not in FA3_DIMS else knob.values
    return knob.values
