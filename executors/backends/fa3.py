"""FlashAttention-3: `flash_attn_interface` over paged KV, `fa3_fwd_interface` where only that build has the kernel."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from costmodel import Attention, Batch
from executors.backends.knob_values import knob_values, split_ladder, whole
from executors.base import Backend, Knob, Knobs, KnobValue, Prepared
from executors.environment import installed_version
from hwprofiles import Profile

if TYPE_CHECKING:
    import torch

    from executors.inputs import Inputs

PAGED, CONTIGUOUS = "flash_attn_interface", "fa3_fwd_interface"
_PACKAGES = {PAGED: ("tokenspeed-fa3", "flash-attn-3"), CONTIGUOUS: ("fa3-fwd",)}
_HEAD_DIMS = 256
_PACK_GQA: dict[KnobValue, bool | None] = {"auto": None, True: True, False: False}


class Fa3(Backend):
    """FlashAttention-3 on Hopper, called as SGLang calls it: varlen queries, page table, metadata once a step.

    Builds differ in the kernels they hold. `tokenspeed-fa3` has paged KV, windows, sinks and fp16, but neither
    soft-cap nor the 64/512 kernel of absorbed MLA (it answers that call with garbage); `fa3-fwd` has those two and
    only contiguous KV. A workload that needs `fa3-fwd` runs there when it is installed, on a contiguous copy of each
    request's KV made before the call is timed; `Prepared.path` says so. The knob `build` forces one of them.
    """

    name = "fa3"
    phases = frozenset({"decode", "extend", "verify", "mixed"})
    kv_dtypes = frozenset({"bf16", "fp16", "fp8_e4m3"})
    install_hint = "pip install tokenspeed-fa3 fa3-fwd"

    def implementation(self) -> tuple[str, str] | None:
        """Name the interface and version that paged calls use, or the contiguous one where only that is installed."""
        return _installed(PAGED) or _installed(CONTIGUOUS)

    def implementation_for(self, attention: Attention, batch: Batch, knobs: Knobs) -> tuple[str, str] | None:
        """Name the interface and version that run this workload."""
        return _installed(str(knobs.get("build") or _build(attention))) or self.implementation()

    def reject(self, attention: Attention, batch: Batch, profile: Profile) -> list[str]:
        """Say all reasons why this workload cannot run."""
        reasons = super().reject(attention, batch, profile)
        if profile.compute_capability not in (None, "9.0"):
            reasons.append(f"the wheels hold kernels for compute capability 9.0, {profile.name} has another")
        if not attention.is_latent and max(attention.head_dim, attention.value_dim) > _HEAD_DIMS:
            reasons.append(f"head dim {attention.head_dim} above {_HEAD_DIMS}")
        if attention.is_latent and (attention.head_dim, attention.value_dim) != (576, 512):
            reasons.append(f"absorbed MLA with dims {attention.head_dim}/{attention.value_dim}; the kernel has 576/512")
        if attention.is_latent and attention.kv_dtype.startswith("fp8"):
            reasons.append("absorbed MLA with fp8 KV")
        if attention.top_k is not None:
            reasons.append("sparse attention")
        if batch.phase == "verify" and batch.topk > 1:
            reasons.append(f"topk {batch.topk}: no tree mask; SGLang merges two calls instead")
        if attention.kv_dtype not in (attention.dtype, "fp8_e4m3"):
            reasons.append(f"KV dtype {attention.kv_dtype} with dtype {attention.dtype}")
        if attention.logit_soft_cap is not None and _build(attention) == PAGED:
            reasons.append("soft-cap: compiled out of tokenspeed-fa3; fa3-fwd has it for bf16 without windows or sinks")
        return reasons

    def knobs(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Knob, ...]:
        """Name `num_splits`, `pack_gqa` for grouped heads, and `scheduler_metadata` for decode over pages."""
        tiles = -(-_visible(attention, max(batch.kv_lens)) // _kv_tile(attention))
        found = [Knob("num_splits", (0, *split_ladder(tiles)))]
        if attention.group_size > 1:
            found.append(Knob("pack_gqa", ("auto", True, False)))
        if _takes_metadata(attention, batch, _build(attention)):
            found.append(Knob("scheduler_metadata", ("precomputed", "per_call")))
        return tuple(found)

    def allows(self, attention: Attention, batch: Batch, knobs: Knobs) -> bool:
        """Keep `pack_gqa` and `scheduler_metadata` at their defaults where `num_splits` is not."""
        others = (knobs.get("pack_gqa", "auto"), knobs.get("scheduler_metadata", "precomputed"))
        return others == ("auto", "precomputed") or knobs.get("num_splits", 0) == 0

    def prepare(self, inputs: "Inputs", knobs: Knobs) -> Prepared:
        """Bind one call per KV copy."""
        defaults: Mapping[str, KnobValue] = {
            "num_splits": 0,
            "pack_gqa": "auto",
            "scheduler_metadata": "precomputed",
            "build": None,
        }
        chosen = knob_values(self.name, knobs, defaults)
        whole(self.name, "num_splits", chosen["num_splits"], 0, 128)
        if chosen["pack_gqa"] not in _PACK_GQA:
            raise ValueError(f"fa3: pack_gqa={chosen['pack_gqa']!r} is not 'auto', True or False")
        if chosen["scheduler_metadata"] not in ("precomputed", "per_call"):
            raise ValueError(f"fa3: scheduler_metadata={chosen['scheduler_metadata']!r} is not precomputed or per_call")
        if chosen["build"] not in (None, PAGED, CONTIGUOUS):
            raise ValueError(f"fa3: build={chosen['build']!r} is not {PAGED!r} or {CONTIGUOUS!r}")
        build = str(chosen["build"] or _build(inputs.attention))
        return _prepare_paged(inputs, chosen) if build == PAGED else _prepare_contiguous(inputs, chosen)


def _installed(interface: str) -> tuple[str, str] | None:
    for package in _PACKAGES[interface]:
        if found := installed_version(package):
            return interface, found
    return None


def _build(attention: Attention) -> str:
    """Choose the build: the contiguous one where it alone has the kernel and it is installed."""
    alone = attention.is_latent or attention.logit_soft_cap is not None or attention.value_dim != attention.head_dim
    lacks = (
        attention.dtype != "bf16"
        or attention.kv_dtype != "bf16"
        or attention.sinks
        or attention.sliding_window is not None
        or attention.chunk_size is not None
    )
    return CONTIGUOUS if alone and not lacks and _installed(CONTIGUOUS) else PAGED


def _visible(attention: Attention, kv_len: int) -> int:
    spans = (attention.sliding_window, attention.chunk_size)
    return min([kv_len, *(s for s in spans if s is not None)])


def _kv_tile(attention: Attention) -> int:
    """Keys in one tile of the SM90 kernels, 2-byte types (hopper/tile_size.h)."""
    if attention.is_latent:
        return 64
    dim = max(attention.head_dim, attention.value_dim)
    return 128 if dim <= 128 else 96 if dim <= 192 else 64


def _takes_metadata(attention: Attention, batch: Batch, build: str) -> bool:
    """SGLang makes metadata once a step for decode layers without window, MLA left out."""
    plain = attention.sliding_window is None and attention.chunk_size is None
    return batch.phase == "decode" and build == PAGED and plain and not attention.is_latent


def _window(attention: Attention) -> tuple[int, int]:
    return (-1, -1) if attention.sliding_window is None else (attention.sliding_window - 1, 0)


def _arguments(inputs: "Inputs", chosen: Mapping[str, KnobValue]) -> dict[str, Any]:
    """Keywords that both interfaces take."""
    attention = inputs.attention
    return {
        "max_seqlen_q": max(inputs.batch.q_lens),
        "softmax_scale": inputs.scale,
        "causal": attention.causal,
        "window_size": _window(attention),
        "attention_chunk": attention.chunk_size or 0,
        "softcap": attention.logit_soft_cap or 0.0,
        "num_splits": chosen["num_splits"],
        "pack_gqa": _PACK_GQA[chosen["pack_gqa"]],
    }


def _prepare_paged(inputs: "Inputs", chosen: Mapping[str, KnobValue]) -> Prepared:
    library = import_module(PAGED)
    attention, batch = inputs.attention, inputs.batch
    q, fp8 = inputs.q, attention.kv_dtype.startswith("fp8")
    keywords = _arguments(inputs, chosen) | {
        "page_table": inputs.page_table,
        "cache_seqlens": inputs.kv_lens,
        "cu_seqlens_q": inputs.cu_q,
    }
    if inputs.sinks is not None:
        keywords["sinks"] = inputs.sinks
    if fp8:
        import torch

        one = torch.ones(batch.size, attention.num_kv_heads, device=inputs.device)
        keywords |= {"q_descale": one, "k_descale": one, "v_descale": one}
    metadata = _takes_metadata(attention, batch, PAGED) and chosen["scheduler_metadata"] == "precomputed"
    plan = _metadata_plan(library, inputs, keywords) if metadata else None
    if plan is not None:
        plan()

    def run(slot: int) -> "torch.Tensor":
        query = q.to(inputs.k_cache[slot].dtype) if fp8 else q
        k, v = inputs.k_cache[slot], inputs.v_cache[slot]
        if attention.is_latent:
            rank = attention.value_dim
            return library.flash_attn_with_kvcache(
                query[..., rank:], k[..., rank:], v, qv=query[..., :rank], **keywords
            )
        return library.flash_attn_with_kvcache(query, k, v, **keywords)

    path = f"{PAGED} paged" + (", metadata once a step" if metadata else "")
    return Prepared(run, plan, path=path, keep=(keywords,))


def _metadata_plan(library: Any, inputs: "Inputs", keywords: dict[str, Any]) -> Callable[[], None]:
    attention, batch = inputs.attention, inputs.batch
    kept: list[Any] = []

    def plan() -> None:
        fresh = library.get_scheduler_metadata(
            batch.size,
            1,
            max(batch.kv_lens),
            attention.num_qo_heads,
            attention.num_kv_heads,
            attention.head_dim,
            inputs.kv_lens,
            qkv_dtype=inputs.k_cache[0].dtype,
            headdim_v=attention.value_dim,
            cu_seqlens_q=inputs.cu_q,
            page_size=batch.page_size,
            causal=attention.causal,
            num_splits=keywords["num_splits"],
            pack_gqa=keywords["pack_gqa"],
        )
        if kept:  # a captured graph reads this buffer, as SGLang's does
            kept[0].copy_(fresh)
        else:
            kept.append(fresh)
        keywords["scheduler_metadata"] = kept[0]

    return plan


def _prepare_contiguous(inputs: "Inputs", chosen: Mapping[str, KnobValue]) -> Prepared:
    library = import_module(CONTIGUOUS)
    attention = inputs.attention
    keywords = _arguments(inputs, chosen) | {
        "cu_seqlens_q": inputs.cu_q,
        "cu_seqlens_k": inputs.cu_kv,
        "max_seqlen_k": max(inputs.batch.kv_lens),
    }
    rank = attention.value_dim

    def gathered(cache: "torch.Tensor") -> "torch.Tensor":
        return cache.flatten(0, 1)[inputs.token_slots]

    keys = [gathered(k) for k in inputs.k_cache]
    if attention.is_latent:
        query, qv = inputs.q[..., rank:], inputs.q[..., :rank]

        def run_latent(slot: int) -> "torch.Tensor":
            kv = keys[slot]
            return library.flash_attn_varlen_func(query, kv[..., rank:], kv[..., :rank], qv=qv, **keywords)

        return Prepared(run_latent, path=f"{CONTIGUOUS} 64/512, contiguous KV", keep=(keys,))
    values = [gathered(v) for v in inputs.v_cache]

    def run(slot: int) -> "torch.Tensor":
        return library.flash_attn_varlen_func(inputs.q, keys[slot], values[slot], **keywords)

    return Prepared(run, path=f"{CONTIGUOUS}, contiguous KV", keep=(keys, values))
