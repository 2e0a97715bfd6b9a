"""FlashMLA: decode and chain verification over the MLA latent, dense and sparse, pages of 64 tokens."""

from typing import TYPE_CHECKING, Any

from costmodel import Attention, Batch
from executors.backends.flashmla_sparse import HEADS, SELECTED_MULTIPLE, pack, selected_rows
from executors.backends.knob_values import knob_values
from executors.base import Backend, Knob, Knobs, Prepared
from executors.environment import installed_version
from hwprofiles import Profile

if TYPE_CHECKING:
    import torch

    from executors.inputs import Inputs

PAGE = 64
SGLANG = "sgl_flash_mla"
_BUILDS = {"sgl-flash-mla": SGLANG, "tokenspeed-flashmla": "flash_mla", "flash-mla": "flash_mla"}
"""Package to the name of its build; all are imported as `flash_mla`."""


class FlashMla(Backend):
    """DeepSeek's FlashMLA on Hopper: dense bf16, sparse over an fp8 cache; SGLang's own build has dense fp8 too.

    The tile schedule of dense bf16 and of sparse decode is made on the device by the first call of a step and reused
    by all layers, so there is no host plan to time apart; dense fp8 makes its schedule once a step beforehand.
    """

    name = "flashmla"
    phases = frozenset({"decode", "verify"})
    dtypes = frozenset({"bf16"})
    kv_dtypes = frozenset({"bf16", "fp8_e4m3"})
    install_hint = "pip install sgl-flash-mla"

    def implementation(self) -> tuple[str, str] | None:
        """Name the build and its version."""
        for package, build in _BUILDS.items():
            if found := installed_version(package):
                return build, found
        return None

    def reject(self, attention: Attention, batch: Batch, profile: Profile) -> list[str]:
        """Say all reasons why this workload cannot run."""
        reasons = super().reject(attention, batch, profile)
        if profile.compute_capability not in (None, "9.0"):
            reasons.append(f"these kernels need compute capability 9.0, {profile.name} has another")
        if not attention.is_latent or (attention.head_dim, attention.value_dim) != (576, 512):
            reasons.append("only absorbed MLA with dims 576/512")
        if attention.top_k is not None:
            reasons += _sparse_reasons(attention, attention.top_k * attention.block)
        elif attention.kv_dtype.startswith("fp8") and (self.implementation() or (SGLANG,))[0] != SGLANG:
            reasons.append("dense fp8 KV: only sgl-flash-mla has that kernel, another build is installed")
        if attention.sliding_window is not None or attention.logit_soft_cap is not None or attention.sinks:
            reasons.append("windows, soft-cap or sinks")
        if batch.page_size != PAGE:
            reasons.append(f"page size {batch.page_size}: the kernel reads pages of {PAGE}")
        if batch.topk > 1:
            reasons.append("tree mask")
        if len(set(batch.q_lens)) > 1:
            reasons.append("requests with different numbers of query tokens")
        return reasons

    def knobs(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Knob, ...]:
        """FlashMLA has no knobs."""
        return ()

    def prepare(self, inputs: "Inputs", knobs: Knobs) -> Prepared:
        """Make the tile schedule, then bind one call per KV copy."""
        knob_values(self.name, knobs, {})
        legacy = {"use_legacy": True} if (self.implementation() or ("",))[0] == SGLANG else {}
        if inputs.attention.top_k is not None:
            return _prepare_sparse(inputs, legacy)
        if inputs.attention.kv_dtype.startswith("fp8"):
            return _prepare_fp8(inputs, legacy)
        return _prepare_dense(inputs, legacy)


def _sparse_reasons(attention: Attention, selected: int) -> list[str]:
    reasons = []
    if attention.kv_dtype != "fp8_e4m3":
        reasons.append("sparse attention: the kernel reads an fp8 cache of 656 bytes a token only")
    if attention.num_qo_heads not in HEADS:
        reasons.append(f"sparse attention with {attention.num_qo_heads} heads: the kernel has 64 and 128")
    if selected % SELECTED_MULTIPLE:
        reasons.append(f"{selected} selected tokens: multiples of {SELECTED_MULTIPLE} wanted")
    return reasons


def _queries(inputs: "Inputs") -> "torch.Tensor":
    """Queries as `[requests, query_len, num_qo_heads, 576]`."""
    attention, batch = inputs.attention, inputs.batch
    return inputs.q.view(batch.size, batch.q_lens[0], attention.num_qo_heads, attention.head_dim)


def _flat(out: "torch.Tensor", inputs: "Inputs") -> "torch.Tensor":
    return out.view(inputs.batch.total_q, inputs.attention.num_qo_heads, inputs.attention.value_dim)


def _prepare_dense(inputs: "Inputs", legacy: dict[str, bool]) -> Prepared:
    from flash_mla import flash_mla_with_kvcache, get_mla_metadata

    q, schedule = _queries(inputs), get_mla_metadata()[0]
    keywords: dict[str, Any] = {"softmax_scale": inputs.scale, "causal": inputs.batch.q_lens[0] > 1, **legacy}

    def run(slot: int) -> "torch.Tensor":
        cache, dim = inputs.k_cache[slot], inputs.attention.value_dim
        out, _ = flash_mla_with_kvcache(q, cache, inputs.page_table, inputs.kv_lens, dim, schedule, **keywords)
        return _flat(out, inputs)

    run(0)
    return Prepared(run, path="dense decode", keep=(schedule,))


def _prepare_fp8(inputs: "Inputs", legacy: dict[str, bool]) -> Prepared:
    """Queries are cast in every call, as SGLang does."""
    import torch
    from flash_mla import flash_mla_with_kvcache, get_mla_decoding_metadata, get_mla_metadata

    q, schedule = _queries(inputs), get_mla_metadata()[0]
    rows = inputs.batch.q_lens[0] * inputs.attention.num_qo_heads
    one = torch.ones(1, dtype=torch.float32, device=inputs.device)
    keywords: dict[str, Any] = {
        "softmax_scale": inputs.scale,
        "causal": inputs.batch.q_lens[0] > 1,
        "is_fp8_kvcache": True,
        "descale_q": one,
        "descale_k": one,
        **legacy,
    }

    def plan() -> None:
        fresh = get_mla_decoding_metadata(inputs.kv_lens, rows, 1, is_fp8_kvcache=True, **legacy)
        if schedule.tile_scheduler_metadata is None:
            schedule.tile_scheduler_metadata, schedule.num_splits = fresh
        else:  # a captured graph reads these buffers
            schedule.tile_scheduler_metadata.copy_(fresh[0])
            schedule.num_splits.copy_(fresh[1])

    def run(slot: int) -> "torch.Tensor":
        cache, dim = inputs.k_cache[slot], inputs.attention.value_dim
        query = q.to(cache.dtype)
        out, _ = flash_mla_with_kvcache(query, cache, inputs.page_table, inputs.kv_lens, dim, schedule, **keywords)
        return _flat(out, inputs)

    plan()
    return Prepared(run, plan, path="dense fp8 decode", keep=(schedule, one))


def _prepare_sparse(inputs: "Inputs", legacy: dict[str, bool]) -> Prepared:
    from flash_mla import flash_mla_with_kvcache, get_mla_metadata

    q, schedule, rows = _queries(inputs), get_mla_metadata()[0], selected_rows(inputs)
    caches = [pack(cache) for cache in inputs.k_cache]
    keywords: dict[str, Any] = {
        "softmax_scale": inputs.scale,
        "is_fp8_kvcache": True,
        "indices": rows,
        **legacy,
    }

    def run(slot: int) -> "torch.Tensor":
        dim = inputs.attention.value_dim
        out, _ = flash_mla_with_kvcache(q, caches[slot], None, None, dim, schedule, **keywords)
        return _flat(out, inputs)

    run(0)
    return Prepared(run, path="sparse decode, fp8 cache of 656 bytes a token", keep=(schedule, caches))
