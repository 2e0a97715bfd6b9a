"""The bare library call: kernel limits count, the server's own checks do not."""

import pytest
from judging import device

from costmodel import Attention, Batch
from costmodel.compat import backend_names, library_reasons

GQA = Attention(32, 8, 128)
MLA = Attention.mla(16)
DECODE = Batch.decode([4096] * 8, page_size=64)
EXTEND = Batch.extend([512], [4096], page_size=64)


def reasons(backend: str, attention: Attention, batch: Batch = DECODE, gpu: str = "h200") -> str:
    return "; ".join(library_reasons(backend, attention, batch, device(gpu)))


def test_what_runs_on_hopper() -> None:
    runs = {name for name in backend_names() if not reasons(name, GQA)}
    assert runs == {"fa3", "fa4", "flashinfer", "triton", "torch_native", "flex_attention", "trtllm_mha", "hpc_ops"}
    runs = {name for name in backend_names() if not reasons(name, MLA)}
    assert runs == {"fa3", "flashinfer", "flashmla", "triton", "torch_native"}


@pytest.mark.parametrize(
    ("backend", "attention", "batch", "gpu", "word"),
    [
        ("flashmla", MLA, Batch.decode([64], page_size=16), "h200", "page size 16"),
        ("flashmla", MLA, EXTEND, "h200", "decode kernel"),
        ("flashmla", MLA, DECODE, "b200", "sm_90 only"),
        ("fa3", GQA, DECODE, "b200", "sm_100"),
        ("fa3", Attention(32, 8, 128, kv_dtype="fp8_e5m2"), DECODE, "h200", "fp8_e4m3"),
        ("fa3", Attention(8, 8, 512), DECODE, "h200", "above 256"),
        ("fa3", GQA, Batch.verify([4096], 4, topk=4), "h200", "tree masks"),
        ("flashinfer", Attention(64, 8, 64, sinks=True), DECODE, "h200", "sinks"),
        ("flashinfer", Attention(8, 8, 80), DECODE, "h200", "head dim 80"),
        ("flashinfer", Attention(8, 8, 192, 128), DECODE, "h200", "192/128"),
        ("trtllm_mha", Attention(8, 8, 128, logit_soft_cap=30.0), DECODE, "b200", "soft-cap"),
        ("trtllm_mla", MLA, DECODE, "rtx_pro_6000", "sm_100 and sm_103"),
        ("triton", Attention.sparse(MLA, top_k=2048), DECODE, "h200", "sparse"),
        ("dsa", MLA, DECODE, "h200", "indexer"),
        ("torch_native", GQA, Batch.verify([4096], 4, topk=2), "h200", "tree"),
    ],
)
def test_what_kernels_refuse(backend: str, attention: Attention, batch: Batch, gpu: str, word: str) -> None:
    assert word in reasons(backend, attention, batch, gpu)


def test_the_servers_own_rules_do_not_count() -> None:
    assert not reasons("torch_native", GQA, Batch.verify([4096], 4))
    assert not reasons("flashinfer", Attention(8, 8, 192, 128), EXTEND)
    assert not reasons("trtllm_mla", Attention.mla(16, form="expanded"), EXTEND, "b200")
    assert not reasons("torch_native", GQA, DECODE, "intel-xeon-platinum-8480plus")


def test_sparse_calls_run_on_sparse_kernels() -> None:
    assert not reasons("dsa", Attention.sparse(MLA, top_k=2048))


def test_a_name_without_rules_has_no_reasons() -> None:
    assert library_reasons("attnroof_triton", GQA, DECODE, device("h200")) == ()
