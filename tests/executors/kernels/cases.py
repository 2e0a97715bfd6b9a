"""Small workloads that together reach every branch of the kernels."""

from dataclasses import dataclass, field

from costmodel import Attention, Batch


@dataclass(frozen=True)
class Case:
    attention: Attention
    batch: Batch
    knobs: dict[str, int] = field(default_factory=dict)


def _gqa(qo: int = 4, kv: int = 2, dim: int = 16, **other: object) -> Attention:
    return Attention(qo, kv, dim, **{"dtype": "fp16", "kv_dtype": "fp16", **other})  # type: ignore[arg-type]


def _mla(heads: int, **other: object) -> Attention:
    sizes = {"kv_lora_rank": 32, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16}
    return Attention.mla(heads, **{**sizes, "dtype": "fp16", "kv_dtype": "fp16", **other})  # type: ignore[arg-type]


_SMALL = {"block_n": 16}
_WIDE = {"block_m": 64, "block_n": 16}

CASES: dict[str, Case] = {
    "decode": Case(_gqa(), Batch.decode([70, 33], page_size=16), _SMALL),
    "decode-page-1": Case(_gqa(), Batch.decode([37, 1, 20]), _SMALL | {"num_splits": 1}),
    "decode-page-4-split": Case(_gqa(), Batch.decode([90, 17, 3], page_size=4), _SMALL | {"num_splits": 4}),
    "decode-fp32": Case(_gqa(dtype="fp32", kv_dtype="fp32"), Batch.decode([50], page_size=32), _SMALL),
    "decode-mha-dim-24": Case(_gqa(2, 2, 24), Batch.decode([40], page_size=16), _SMALL | {"num_splits": 2}),
    "decode-group-7-dim-80": Case(_gqa(7, 1, 80), Batch.decode([40, 25], page_size=16), _SMALL),
    "decode-value-dim-8": Case(_gqa(v_head_dim=8), Batch.decode([40], page_size=16), _SMALL),
    "decode-window": Case(_gqa(sliding_window=20), Batch.decode([70, 9], page_size=16), _SMALL | {"num_splits": 2}),
    "decode-chunk": Case(_gqa(chunk_size=24), Batch.decode([70, 25, 24], page_size=16), _SMALL),
    "decode-sinks": Case(_gqa(sinks=True), Batch.decode([40, 5], page_size=16), _SMALL | {"num_splits": 1}),
    "decode-sinks-split": Case(_gqa(sinks=True), Batch.decode([60, 5], page_size=16), _SMALL | {"num_splits": 3}),
    "decode-soft-cap": Case(_gqa(logit_soft_cap=2.0), Batch.decode([40], page_size=16), _SMALL),
    "decode-e5m2": Case(_gqa(kv_dtype="fp8_e5m2"), Batch.decode([40, 21], page_size=16), _SMALL),
    "decode-e4m3-split": Case(
        _gqa(kv_dtype="fp8_e4m3"), Batch.decode([60, 21], page_size=16), _SMALL | {"num_splits": 2}
    ),
    "decode-row-major": Case(_gqa(), Batch.decode([70, 33], page_size=4), _WIDE | {"num_splits": 3}),
    "mla-decode": Case(_mla(8), Batch.decode([70, 20], page_size=16), _SMALL | {"num_splits": 2}),
    "mla-decode-row-major": Case(_mla(80), Batch.decode([40, 20], page_size=4), _WIDE | {"num_splits": 2}),
    "mla-verify": Case(_mla(4), Batch.verify([50, 30], 3, page_size=16), _SMALL),
    "mla-expanded": Case(_mla(2, form="expanded"), Batch.extend([40], [40], page_size=16), _WIDE),
    "extend-fresh": Case(_gqa(), Batch.extend([50, 20], [50, 20]), _WIDE),
    "extend-fresh-dim-24": Case(_gqa(2, 1, 24), Batch.extend([50, 7], [50, 7]), _WIDE),
    "extend-pages": Case(_gqa(), Batch.extend([40, 9], [90, 60], page_size=16), _WIDE),
    "extend-gather": Case(_gqa(), Batch.extend([40, 9], [90, 60], page_size=4), _WIDE),
    "extend-split": Case(_gqa(), Batch.extend([10], [120], page_size=4), _WIDE | {"num_splits": 3}),
    "extend-window": Case(_gqa(sliding_window=24), Batch.extend([60], [100], page_size=16), _WIDE),
    "extend-window-fresh": Case(_gqa(sliding_window=24), Batch.extend([90], [90]), _WIDE),
    "extend-chunk": Case(_gqa(chunk_size=40), Batch.extend([60], [100], page_size=16), _WIDE),
    "extend-not-causal": Case(_gqa(causal=False), Batch.extend([40], [57], page_size=16), _WIDE),
    "extend-sinks-soft-cap": Case(_gqa(sinks=True, logit_soft_cap=3.0), Batch.extend([40], [60], page_size=16), _WIDE),
    "extend-e4m3": Case(_gqa(kv_dtype="fp8_e4m3"), Batch.extend([40], [60], page_size=16), _WIDE),
    "mixed": Case(_gqa(), Batch.extend([40, 1, 1], [40, 70, 3], page_size=16), _WIDE),
    "verify-chain": Case(_gqa(), Batch.verify([50, 41], 4, page_size=16), _SMALL | {"num_splits": 2}),
    "verify-tree": Case(_gqa(), Batch.verify([50, 41], 6, topk=2, page_size=16), _SMALL | {"num_splits": 2}),
    "verify-tree-row-major": Case(_gqa(8, 1), Batch.verify([50, 30], 8, topk=3, page_size=4), _WIDE),
}
