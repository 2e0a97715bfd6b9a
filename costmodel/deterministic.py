"""SGLang's deterministic inference: which backends it accepts, and how each then has to cut its work.

A part of KV must not depend on what else is in the batch, so every rule that fills the device is switched off. Read in
the published sglang 0.5.23 package, below srt/: arg_groups/attention_hook.py:639-666 and, in layers/attention/,
flashattention_backend.py:338-342, triton_backend.py:356-365, 449-461 and 1797, flashinfer_backend.py:433-451,
xpu_backend.py:199-206.
"""

from collections.abc import Mapping

from costmodel.attention import Attention
from costmodel.batch import Batch
from costmodel.machine import Machine
from costmodel.prediction import KnobValue

ACCEPTED = ("ascend", "fa3", "fa4", "flashinfer", "intel_xpu", "triton")
ONE_SPLIT = frozenset({"fa3", "fa4", "intel_xpu"})
"""Backends that are told not to split."""
TRITON_SPLIT_TOKENS = 256
"""SGLANG_TRITON_DECODE_SPLIT_TILE_SIZE."""
FLASHINFER_PREFILL_SPLIT_TOKENS = 4096
"""SGLANG_FLASHINFER_PREFILL_SPLIT_TILE_SIZE."""
WITH_MLA = frozenset({"ascend", "fa3", "fa4", "triton"})
MLA_ON_FA4 = (10, 11)
"""Major compute capabilities on which FA4 runs absorbed MLA."""


def deterministic_reasons(backend: str, attention: Attention, machine: Machine) -> tuple[str, ...]:
    """Say why SGLang refuses deterministic inference with a backend; empty where it accepts it."""
    if backend not in ACCEPTED:
        return ("not accepted by SGLang's deterministic inference",)
    if attention.kv_lora_rank is None:
        return ()
    if backend not in WITH_MLA:
        return ("not accepted by SGLang's deterministic inference with MLA",)
    if backend == "fa4" and machine.capability[0] not in MLA_ON_FA4:
        return ("deterministic inference with MLA on fa4 needs compute capability 10.x or 11.x",)
    return ()


def deterministic_knobs(backend: str, batch: Batch) -> dict[str, KnobValue]:
    """Give the knobs that deterministic inference sets; decode and verification as they run in a CUDA graph.

    FlashInfer decodes unsplit in a graph and splits prefill at fixed positions, both with its FA2 kernels; its
    verification is planned as ever. Triton decodes in parts of fixed size and extends in one pass over old and new KV.
    """
    if backend in ONE_SPLIT:
        return {"num_splits": 1}
    if backend == "triton":
        return {"split_tile_size": TRITON_SPLIT_TOKENS} if batch.phase == "decode" else {"unified_extend": True}
    if backend == "flashinfer":
        if batch.phase == "decode":
            return {"disable_split_kv": True}
        split = {} if batch.phase == "verify" else {"fixed_split_size": FLASHINFER_PREFILL_SPLIT_TOKENS}
        return {"kernel": "fa2", **split}
    return {}


def with_deterministic(backend: str, batch: Batch, knobs: Mapping[str, KnobValue] | None) -> dict[str, KnobValue]:
    """Give the caller's knobs with those that deterministic inference sets.

    Raises:
        ValueError: The caller asked for another value of one of them.
    """
    fixed = deterministic_knobs(backend, batch)
    for name, value in fixed.items():
        if knobs and name in knobs and knobs[name] != value:
            raise ValueError(
                f"{backend} knob {name}={knobs[name]!r}: deterministic inference sets {value!r}; leave the knob out"
            )
    return {**(knobs or {}), **fixed}
