"""The attention layers that sweeps cover, per rank, and how often each is drawn."""

from costmodel import Attention

_GROUPED = (
    (32, 8), (64, 8), (40, 8), (28, 4), (32, 4), (16, 8), (16, 4), (16, 2), (12, 2), (8, 1), (4, 1), (5, 1),
    (6, 1), (7, 1), (16, 1), (8, 8), (16, 16), (32, 32), (24, 3), (24, 8), (48, 8), (10, 1), (2, 1),
)  # fmt: skip
"""Query and KV heads of one rank: Llama 3, Qwen 2.5 and 3, Mistral, Phi and others at TP 1 to 8."""

GQA = tuple(Attention(qo, kv, 128) for qo, kv in _GROUPED)
GQA_WEIGHTS = tuple(3.0 if pair in ((32, 8), (64, 8), (8, 1), (16, 2), (40, 8), (28, 4)) else 1.0 for pair in _GROUPED)

MLA = tuple(Attention.mla(heads) for heads in (128, 64, 32, 16, 8))
"""DeepSeek V3 and Kimi K2 at TP 1 to 16."""
MLA_FP8 = tuple(Attention.mla(heads, kv_dtype="fp8_e4m3") for heads in (128, 64, 16))
SPARSE = tuple(Attention.sparse(layer, top_k=2048) for layer in MLA_FP8[:2])
"""DeepSeek V3.2's selection at TP 1 and 2; TP 8 pads to 64 heads."""

FP8 = tuple(Attention(qo, kv, 128, kv_dtype="fp8_e4m3") for qo, kv in ((32, 8), (64, 8), (8, 1), (40, 8), (16, 16)))
HALF = tuple(Attention(qo, kv, 128, dtype="fp16", kv_dtype="fp16") for qo, kv in ((32, 8), (16, 2)))
WINDOWED = tuple(
    Attention(qo, kv, dim, sliding_window=window)
    for qo, kv, dim, window in ((32, 8, 128, 4096), (32, 16, 128, 1024), (16, 8, 256, 512), (64, 8, 64, 128))
)
SINKS = tuple(
    Attention(qo, kv, 64, sinks=True, sliding_window=window)
    for qo, kv, window in ((64, 8, None), (64, 8, 128), (8, 1, None))
)
"""gpt-oss."""
SOFT_CAP = (Attention(32, 16, 128, logit_soft_cap=50.0), Attention(16, 8, 256, logit_soft_cap=50.0))
OTHER_DIMS = tuple(
    Attention(qo, kv, dim)
    for qo, kv, dim in ((32, 8, 64), (14, 2, 64), (24, 8, 64), (32, 32, 96), (32, 8, 80), (16, 8, 256), (8, 4, 256))
)
EXPANDED = tuple(Attention.mla(heads, form="expanded") for heads in (16, 32))
"""MLA prefill over up-projected heads, 192/128."""
FA4 = (Attention(32, 8, 128), Attention(64, 8, 128), Attention(64, 8, 64), Attention(16, 16, 128))
FA4_SPECIAL = (WINDOWED[0], SINKS[0], SOFT_CAP[0], OTHER_DIMS[5])
"""A window, sinks, soft-cap, and head dim 256."""
OTHER = FP8 * 2 + HALF + WINDOWED + SINKS + SOFT_CAP + OTHER_DIMS
CPU = tuple(
    Attention(qo, kv, dim, dtype=dtype, kv_dtype=dtype)
    for qo, kv, dim in ((32, 8, 128), (16, 2, 128), (8, 1, 128), (14, 2, 64), (12, 12, 64))
    for dtype in ("fp32", "bf16")
)
MODELS = (
    (Attention(32, 8, 128), Attention(32, 8, 128), 36),
    (Attention(8, 1, 128), Attention(8, 1, 128), 80),
    (Attention.mla(128), Attention.mla(128, form="expanded"), 61),
)
"""Layer in decode, layer in prefill and number of layers: Qwen3-8B, Llama 3 70B at TP 8, DeepSeek-V3."""
