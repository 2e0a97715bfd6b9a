"""The same choice in vLLM's names."""

from collections.abc import Mapping
from dataclasses import dataclass

from costmodel.layer_group import Model
from costmodel.prediction import KnobValue
from costmodel.sglang.launch import LaunchChoice, LaunchPlan, LaunchRefused
from costmodel.sglang.version import version_key
from hwprofiles import Profile

VLLM_VERSION = "0.33.0"
"""vLLM version whose names these tables hold (v1/attention/backends/registry.py, config/attention.py and cache.py)."""

FLAG_SINCE = "0.14"
"""Before it the backend is named by the variable VLLM_ATTENTION_BACKEND (its deprecation notice names 0.14)."""

SMALLEST_BLOCK = 16


@dataclass(frozen=True, slots=True)
class _Name:
    dense: str | None = None
    """vLLM's name for MHA, GQA and MQA."""
    latent: str | None = None
    """vLLM's name for MLA."""
    config: tuple[tuple[str, str], ...] = ()
    """Fields of --attention-config that select the kernels."""


NAMES: Mapping[str, _Name] = {
    "fa3": _Name("FLASH_ATTN", "FLASH_ATTN_MLA", (("flash_attn_version", "3"),)),
    "fa4": _Name("FLASH_ATTN", None, (("flash_attn_version", "4"),)),
    "flashinfer": _Name("FLASHINFER", None, (("use_trtllm_attention", "false"),)),
    "trtllm_mha": _Name("FLASHINFER", None, (("use_trtllm_attention", "true"),)),
    "trtllm_mla": _Name(None, "FLASHINFER_MLA"),
    "flashmla": _Name(None, "FLASHMLA"),
    "triton": _Name("TRITON_ATTN", "TRITON_MLA"),
    "flex_attention": _Name("FLEX_ATTENTION"),
    "aiter": _Name("ROCM_AITER_FA", "ROCM_AITER_MLA"),
    "tokenspeed_mla": _Name(None, "TOKENSPEED_MLA"),
    "intel_amx": _Name("CPU_ATTN"),
    "torch_native": _Name("CPU_ATTN"),
}
"""SGLang's backend name to vLLM's for the same kernel library; what is missing has no counterpart."""

KV_DTYPES: Mapping[str, str] = {
    "auto": "auto",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp8_e4m3": "fp8_e4m3",
    "fp8_e5m2": "fp8_e5m2",
    "nvfp4": "nvfp4",
}
MISREAD_KV = {
    "fa3": "FlashAttention reads FP8 as e4m3 only: use fp8_e4m3",
    "fa4": "FlashAttention reads FP8 as e4m3 only: use fp8_e4m3",
}
"""Backends whose kernels would misread fp8_e5m2."""

TRTLLM_PREFILL = ("10.0", "10.3")
"""Compute capabilities where vLLM prefills with TensorRT-LLM's kernels too; Hopper and sm_12x have XQA for decode, and
FlashInfer's own kernels prefill (supports_trtllm_attention in utils/flashinfer.py)."""

SPLIT_KNOB = "flash_attn_max_num_splits_for_cuda_graph"


def vllm_launch(choice: LaunchChoice, model: Model, profile: Profile, vllm: str = VLLM_VERSION) -> LaunchPlan:
    """Write the flags that make vLLM serve with the kernels of these backends.

    vLLM runs one backend for both phases; a pair is reduced to its decode backend and the rest is said.

    Args:
        choice: Settings in SGLang's names.
        model: Says whether the model is MLA.
        profile: The device; CPU names differ.
        vllm: Version to write for; names are those of `VLLM_VERSION`.

    Raises:
        LaunchRefused: vLLM has no such kernels or no such KV dtype.
        ValueError: `vllm` is not a version.
    """
    latent = any(group.attention.kv_lora_rank is not None for group in model.layer_groups)
    known = NAMES.get(choice.decode)
    name = (known.latent if latent else known.dense) if known else None
    if known is None or name is None or (name == "CPU_ATTN") != (profile.kind == "cpu"):
        kind = "MLA" if latent else "this kind of attention"
        raise LaunchRefused(f"vLLM {vllm} has no counterpart of {choice.decode} for {kind} on {profile.name}")
    if choice.kv_cache_dtype == "fp8_e5m2" and choice.decode in MISREAD_KV:
        raise LaunchRefused(MISREAD_KV[choice.decode])
    if choice.kv_cache_dtype not in KV_DTYPES:
        raise LaunchRefused(f"vLLM {vllm} cannot store KV as {choice.kv_cache_dtype!r}")
    by_flag = version_key(vllm) >= version_key(FLAG_SINCE)
    flags = ["--tensor-parallel-size", str(choice.tensor_parallel)] if choice.tensor_parallel > 1 else []
    flags += ["--attention-backend", name] if by_flag else []
    for key, value in known.config if by_flag else ():
        flags += [f"--attention-config.{key}", value]
    flags += _splits(choice.decode, choice.decode_knobs) if by_flag else []
    not_expressed = [*_pair(choice, profile), *_knobs(choice, by_flag)]
    page, said = _block_size(choice.page_size)
    flags += page
    not_expressed += said
    flags += ["--kv-cache-dtype", KV_DTYPES[choice.kv_cache_dtype]]
    return LaunchPlan(
        engine="vllm",
        version=vllm,
        flags=tuple(flags),
        env={} if by_flag else {"VLLM_ATTENTION_BACKEND": name},
        side_effects=_effects(choice, name),
        not_expressed=tuple(not_expressed),
    )


def _splits(backend: str, knobs: Mapping[str, KnobValue]) -> list[str]:
    splits = knobs.get("num_splits")
    if backend in ("fa3", "fa4") and isinstance(splits, int) and splits > 0:
        return [f"--attention-config.{SPLIT_KNOB}", str(splits)]
    return []


def _pair(choice: LaunchChoice, profile: Profile) -> list[str]:
    decode_only = choice.decode == "trtllm_mha" and profile.compute_capability not in TRTLLM_PREFILL
    prefill = "flashinfer" if decode_only else choice.decode
    if choice.prefill == prefill:
        return []
    return [f"vLLM runs one backend for both phases: prefill runs on {prefill}'s kernels, not {choice.prefill}'s"]


def _knobs(choice: LaunchChoice, by_flag: bool) -> list[str]:
    said = []
    for name, value in choice.decode_knobs.items():
        if value in ("auto", None, 0, "precomputed"):
            continue
        if name == "num_splits" and by_flag and choice.decode in ("fa3", "fa4"):
            said.append(
                f"vLLM takes num_splits={value} as the largest number of splits in CUDA graphs, not as the number"
            )
        else:
            said.append(f"vLLM has no setting for {choice.decode}'s {name}={value}")
    return said


def _block_size(page_size: int | None) -> tuple[list[str], list[str]]:
    if page_size is None:
        return [], []
    if page_size % SMALLEST_BLOCK:
        return [], [f"vLLM's pages are multiples of {SMALLEST_BLOCK} tokens: page size {page_size} is left to vLLM"]
    return ["--block-size", str(page_size)], []


def _effects(choice: LaunchChoice, name: str) -> tuple[str, ...]:
    effects = []
    if choice.decode == "triton":
        effects.append(
            f"{name} is vLLM's own Triton kernel, not SGLang's: times predicted for SGLang do not carry over"
        )
    if choice.page_size and choice.page_size >= SMALLEST_BLOCK:
        effects.append(f"prefix-cache hits count in whole blocks of {choice.page_size} tokens")
    if choice.kv_cache_dtype.startswith(("fp8", "nvfp4")):
        effects.append("KV is stored at lower precision; more tokens fit")
    return tuple(effects)
