"""The form of MLA per backend, cached tokens and mode, as SGLang's dispatch decides it."""

import pytest
from costmodel_devices import device

from costmodel import Attention, Batch, form_for, rank_as_served, served_form
from costmodel.mla_form import PREFIX_THRESHOLD
from costmodel.predict import kv_cache_bytes

MLA = Attention.mla(16)
NEW = Batch.extend([512], [512])
SHORT = Batch.extend([512], [512 + PREFIX_THRESHOLD - 1])
LONG = Batch.extend([512], [512 + PREFIX_THRESHOLD])


def form(batch, backend, gpu="h200", **mode):
    return served_form(MLA, batch, backend, profile=device(gpu), **mode).form


@pytest.mark.parametrize(
    ("backend", "gpu", "without", "short", "long"),
    [
        ("fa3", "h200", "expanded", "absorbed", "expanded"),
        ("flashinfer", "h200", "expanded", "absorbed", "expanded"),
        ("flashmla", "h200", "expanded", "absorbed", "expanded"),
        ("triton", "h200", "expanded", "absorbed", "absorbed"),
        ("torch_native", "h200", "expanded", "absorbed", "absorbed"),
        ("trtllm_mla", "b200", "expanded", "expanded", "expanded"),
        ("aiter", "mi300x", "expanded", "expanded", "expanded"),
        ("fa4", "h200", "expanded", "expanded", "expanded"),
        ("fa4", "b200", "expanded", "absorbed", "expanded"),
        ("attnroof_triton", "h200", "expanded", "expanded", "expanded"),
    ],
)
def test_cached_tokens_decide(backend, gpu, without, short, long):
    assert [form(batch, backend, gpu) for batch in (NEW, SHORT, LONG)] == [without, short, long]


@pytest.mark.parametrize("backend", ["fa3", "triton", "trtllm_mla", "aiter"])
@pytest.mark.parametrize("batch", [Batch.decode([20000] * 4), Batch.verify([20000] * 4, 4)])
def test_decode_and_verification_stay_on_the_latent(backend, batch):
    assert served_form(MLA, batch, backend, profile=device()) is MLA


def test_the_cached_tokens_of_all_requests_count_together():
    half = PREFIX_THRESHOLD // 2
    assert form(Batch.extend([64], [64 + half]), "fa3") == "absorbed"
    assert form(Batch.extend([64, 64], [64 + half, 64 + half]), "fa3") == "expanded"
    assert form(Batch.extend([512, 1], [512, 1 + PREFIX_THRESHOLD]), "fa3") == "expanded"


def test_deterministic_inference_and_graphs_absorb():
    assert form(NEW, "fa3", deterministic=True) == "absorbed"
    assert form(LONG, "triton", deterministic=True) == "absorbed"
    assert form(NEW, "fa4", "h200", deterministic=True) == "expanded"
    assert form(NEW, "fa3", captured=True) == "absorbed"
    assert form(NEW, "aiter", "mi300x", captured=True) == "expanded"


def test_other_attention_stays_as_it_is():
    gqa, sparse = Attention(32, 8, 128), Attention.sparse(MLA, top_k=2048)
    assert served_form(gqa, NEW, "fa3", profile=device()) is gqa
    assert served_form(sparse, NEW, "dsa", profile=device()) is sparse


def test_expanded_heads_take_memory_for_one_layer_only():
    batch = Batch.extend([2048], [65536], page_size=64, layers=61)
    heads = form_for(Attention.mla(128), "extend")
    latent, expanded = 576 * 2, 128 * (192 + 128) * 2
    assert kv_cache_bytes(heads, batch) == 65536 * (61 * latent + expanded)
    assert kv_cache_bytes(Attention.mla(128), batch) == 65536 * 61 * latent


@pytest.mark.parametrize("batch", [NEW, SHORT, LONG])
def test_a_ranking_gives_each_backend_its_form(batch):
    rows = rank_as_served(MLA, batch, profile=device())
    times = [row.prediction.seconds for row in rows if row.prediction]
    assert times == sorted(times)
    assert all(row.prediction.mla_form == form(batch, row.backend) for row in rows if row.prediction)
    assert {"fa3", "flashinfer", "triton"} <= {row.backend for row in rows if row.prediction}
