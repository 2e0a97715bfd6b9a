"""The project's Triton kernels on a real device: right in every form, on slot 0 and the last, in graphs, bit-stable."""

import importlib.util

import pytest

from costmodel import Attention, Batch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed"),
]

GQA = Attention(32, 8, 128)
FP8 = Attention(32, 8, 128, kv_dtype="fp8_e4m3")
RAGGED = [1, 4097, 130, 64, 65, 900, 2048, 17]

WORKLOADS: dict[str, tuple[Attention, Batch]] = {
    "decode-ragged-page-1": (GQA, Batch.decode(RAGGED)),
    "decode-ragged-page-16": (GQA, Batch.decode(RAGGED, page_size=16)),
    "decode-ragged-page-64": (GQA, Batch.decode(RAGGED, page_size=64)),
    "decode-fp16": (Attention(32, 8, 128, dtype="fp16", kv_dtype="fp16"), Batch.decode(RAGGED, page_size=64)),
    "decode-one-long": (GQA, Batch.decode([40000], page_size=64)),
    "decode-many-short": (GQA, Batch.decode([300] * 256, page_size=64)),
    "decode-mha": (Attention(16, 16, 64), Batch.decode(RAGGED, page_size=64)),
    "decode-mqa-48": (Attention(48, 1, 128), Batch.decode(RAGGED, page_size=64)),
    "decode-group-7-dim-80": (Attention(28, 4, 80), Batch.decode(RAGGED, page_size=64)),
    "decode-dim-96": (Attention(32, 32, 96), Batch.decode(RAGGED, page_size=64)),
    "decode-dim-192-value-128": (Attention(64, 4, 192, v_head_dim=128), Batch.decode(RAGGED, page_size=64)),
    "decode-dim-256-soft-cap": (Attention(16, 8, 256, logit_soft_cap=50.0), Batch.decode(RAGGED, page_size=64)),
    "decode-window-sinks": (Attention(64, 8, 64, sliding_window=128, sinks=True), Batch.decode(RAGGED, page_size=16)),
    "decode-chunk": (Attention(40, 8, 128, chunk_size=512), Batch.decode(RAGGED, page_size=64)),
    "decode-fp8": (FP8, Batch.decode(RAGGED, page_size=64)),
    "decode-e5m2": (Attention(32, 8, 128, kv_dtype="fp8_e5m2"), Batch.decode(RAGGED)),
    "mla-16": (Attention.mla(16), Batch.decode(RAGGED, page_size=64)),
    "mla-128": (Attention.mla(128), Batch.decode(RAGGED, page_size=64)),
    "mla-128-page-1": (Attention.mla(128), Batch.decode(RAGGED)),
    "mla-16-fp8": (Attention.mla(16, kv_dtype="fp8_e4m3"), Batch.decode(RAGGED, page_size=64)),
    "mla-128-fp8": (Attention.mla(128, kv_dtype="fp8_e4m3"), Batch.decode(RAGGED, page_size=64)),
    "mla-verify": (Attention.mla(16), Batch.verify([4096, 300], 4, page_size=64)),
    "mla-verify-128": (Attention.mla(128), Batch.verify([4096, 300, 70], 3, page_size=64)),
    "mla-64-page-128": (Attention.mla(64), Batch.decode(RAGGED, page_size=128)),
    "mla-16-page-16": (Attention.mla(16), Batch.decode(RAGGED, page_size=16)),
    "mla-verify-page-1": (Attention.mla(32), Batch.verify([4096, 300, 70], 3)),
    "mla-plain": (Attention.mla(128, kv_lora_rank=256), Batch.decode(RAGGED, page_size=64)),
    "mla-8-one-long": (Attention.mla(8), Batch.decode([30000], page_size=64)),
    "mla-expanded": (Attention.mla(16, form="expanded"), Batch.extend([700, 129], [700, 129])),
    "prefill": (GQA, Batch.extend([1500, 128, 3, 257], [1500, 128, 3, 257])),
    "prefill-dim-64": (Attention(16, 4, 64), Batch.extend([1500, 40], [1500, 40])),
    "prefill-dim-256": (Attention(8, 2, 256), Batch.extend([700, 40], [700, 40])),
    "prefill-not-causal": (Attention(16, 16, 128, causal=False), Batch.extend([700, 40], [700, 40])),
    "extend-page-1": (GQA, Batch.extend([700, 65], [2900, 1000])),
    "extend-page-64": (GQA, Batch.extend([700, 65], [2900, 1000], page_size=64)),
    "extend-page-128": (GQA, Batch.extend([700, 65], [2900, 1000], page_size=128)),
    "extend-few-rows-long-prefix": (GQA, Batch.extend([40], [30000], page_size=64)),
    "extend-window": (Attention(16, 4, 128, sliding_window=512), Batch.extend([900], [2900], page_size=64)),
    "extend-chunk": (Attention(16, 4, 128, chunk_size=512), Batch.extend([900], [2900], page_size=64)),
    "extend-sinks": (Attention(64, 8, 64, sinks=True), Batch.extend([300], [700], page_size=64)),
    "extend-fp8": (FP8, Batch.extend([700, 65], [2900, 1000], page_size=64)),
    "mixed": (GQA, Batch.extend([700, 1, 1], [700, 3000, 5], page_size=64)),
    "verify-chain": (GQA, Batch.verify([2048, 300, 77], 4, page_size=64)),
    "verify-tree": (GQA, Batch.verify([2048, 300, 77], 16, topk=4, page_size=64)),
    "verify-tree-page-1": (Attention(64, 8, 128), Batch.verify([2048, 300], 8, topk=2)),
}
KNOBS: list[dict[str, int]] = [
    {"num_splits": 1},
    {"num_splits": 5},
    {"num_splits": 16, "block_n": 32},
    {"block_n": 128, "num_stages": 2},
    {"block_m": 64, "num_warps": 8},
    {"block_m": 64, "block_n": 128, "num_stages": 2},
]


def _check(attention: Attention, batch: Batch, knobs: dict[str, int]) -> None:
    import torch

    from executors.backends.attnroof_triton import AttnroofTriton
    from executors.compare import compare, same_bits
    from executors.inputs import make_inputs
    from executors.reference import make_reference

    inputs = make_inputs(attention, batch, "cuda:0", seed=11, slots=2)
    prepared = AttnroofTriton().prepare(inputs, knobs)
    first = prepared.run(0).clone()
    accuracy = compare(first, make_reference(inputs))
    assert accuracy.correct, f"{accuracy} on {prepared.path}"
    accuracy = compare(prepared.run(1), make_reference(inputs, slot=1))
    assert accuracy.correct, f"last slot: {accuracy} on {prepared.path}"
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = prepared.run(0)
    captured.fill_(float("nan"))
    assert prepared.plan is not None
    prepared.plan()
    graph.replay()
    torch.cuda.synchronize()
    assert same_bits(captured, first), "a captured replay differs from the first run"


@pytest.mark.parametrize("name", WORKLOADS)
def test_own_choice_agrees_with_float64(name: str) -> None:
    _check(*WORKLOADS[name], {})


@pytest.mark.parametrize("knobs", KNOBS, ids=str)
def test_knobs_change_the_time_not_the_result(knobs: dict[str, int]) -> None:
    _check(GQA, Batch.decode(RAGGED, page_size=64), knobs)
    _check(GQA, Batch.extend([300], [1300], page_size=64), knobs)
