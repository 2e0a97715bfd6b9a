"""Every form of torch_native gives the reference's answer; what SDPA lacks is refused."""

import random

import pytest
import torch

from costmodel import Attention, Batch, Incompatible
from executors.backends.torch_native import TorchNative
from executors.base import KnobValue
from executors.check import check
from executors.inputs import make_inputs
from executors.reference import make_reference
from hwprofiles import Profile, load_profile

GQA = Attention(4, 2, 32)
WORKLOADS = {
    "ragged decode": (GQA, Batch.decode([300, 7, 129], page_size=16)),
    "windowed decode": (Attention(4, 1, 32, sliding_window=50), Batch.decode([300, 7, 129], page_size=16)),
    "mixed": (GQA, Batch.extend([40, 1, 37], [130, 80, 37], page_size=4)),
    "chunked extend": (Attention(2, 2, 32, chunk_size=64), Batch.extend([40, 9], [130, 80])),
    "draft tree": (GQA, Batch.verify([100, 37], 6, topk=3, page_size=4)),
    "draft chain": (GQA, Batch.verify([100, 37], 4)),
    "latent decode": (Attention.mla(4, kv_lora_rank=64, qk_rope_head_dim=16), Batch.decode([100, 37], page_size=4)),
    "expanded prefill": (Attention.mla(2, form="expanded", qk_nope_head_dim=32), Batch.extend([20], [20])),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_candidate_is_right(name: str, cpu: Profile) -> None:
    attention, batch = WORKLOADS[name]
    backend = TorchNative()
    assert backend.reject(attention, batch, cpu) == []
    inputs = make_inputs(attention, batch, seed=7, slots=1)
    reference = make_reference(inputs)
    candidates = backend.candidates(attention, batch, cpu)
    assert candidates
    with torch.no_grad():
        for candidate in candidates:
            accuracy = check(backend.prepare(inputs, candidate.knobs), reference)
            assert accuracy.correct, (candidate.key, accuracy)


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_the_tolerance_rejects_no_right_answer(dtype: str, cpu: Profile) -> None:
    draw = random.Random(dtype)
    for seed in range(12):
        kv_heads = draw.choice([1, 2, 4])
        heads, width = kv_heads * draw.choice([1, 2, 7]), draw.choice([32, 64, 128])
        attention = Attention(heads, kv_heads, width, dtype=dtype, kv_dtype=dtype)
        lens = [draw.choice([1, 2, 17, 300, 900]) for _ in range(draw.choice([1, 3]))]
        batch = Batch.decode(lens) if seed % 2 else Batch.extend([draw.randint(1, min(n, 40)) for n in lens], lens)
        inputs = make_inputs(attention, batch, seed=seed, slots=1)
        reference = make_reference(inputs)
        for candidate in TorchNative().candidates(attention, batch, cpu):
            accuracy = check(TorchNative().prepare(inputs, candidate.knobs), reference)
            assert accuracy.correct, (attention, batch, candidate.key, accuracy)


@pytest.mark.parametrize("form", ["per_request", "trimmed", "padded"])
@pytest.mark.parametrize("sdpa", ["flash", "math"])
def test_a_kernel_that_was_asked_for_runs_and_is_named(sdpa: str, form: str) -> None:
    inputs = make_inputs(*WORKLOADS["mixed"], seed=7, slots=1)
    prepared = TorchNative().prepare(inputs, {"form": form, "sdpa": sdpa})
    assert check(prepared, make_reference(inputs)).correct
    assert prepared.path == f"sdpa:{sdpa}"


def test_a_kernel_that_this_device_lacks_is_refused_and_nothing_else_runs_instead() -> None:
    inputs = make_inputs(*WORKLOADS["mixed"], seed=7, slots=1)
    with pytest.raises(Incompatible, match="SDPA has no efficient kernel for this call"):
        TorchNative().prepare(inputs, {"sdpa": "efficient"})


def test_knobs_change_what_runs() -> None:
    """Partial sums in another order round differently: the forms are not one form under several names."""
    inputs = make_inputs(Attention(4, 2, 32, dtype="fp32", kv_dtype="fp32"), Batch.decode([300, 211]), seed=0, slots=1)
    knobs = [{}, {"num_splits": 2}, {"num_splits": 4}, {"pack_gqa": True}]
    outputs = [TorchNative().prepare(inputs, k).run(0) for k in knobs]
    assert len({tuple(o.flatten().tolist()) for o in outputs}) >= 3


@pytest.mark.parametrize(
    ("attention", "words"),
    [
        (Attention(4, 2, 32, kv_dtype="fp8_e4m3"), "fp8_e4m3"),
        (Attention(4, 2, 32, sinks=True), "sinks"),
        (Attention(4, 2, 32, logit_soft_cap=30.0), "soft-capping"),
        (Attention.sparse(GQA, top_k=4), "sparse"),
    ],
)
def test_what_sdpa_lacks_is_refused_in_words(attention: Attention, words: str, cpu: Profile) -> None:
    assert any(words in reason for reason in TorchNative().reject(attention, Batch.decode([9]), cpu))


@pytest.mark.parametrize(
    "knobs", [{"form": "nested"}, {"splits": 2}, {"num_splits": 999}, {"sdpa": "magic"}, {"threads": -1}]
)
def test_unknown_or_absurd_knobs_are_refused(knobs: dict[str, int | str]) -> None:
    inputs = make_inputs(GQA, Batch.decode([9]), seed=0, slots=1)
    with pytest.raises(ValueError, match="torch_native"):
        TorchNative().prepare(inputs, knobs)


def test_square_extend_is_left_out_where_it_would_be_wrong(cpu: Profile) -> None:
    windowed = Attention(4, 2, 32, sliding_window=8)
    forms = TorchNative().knobs(windowed, Batch.extend([9], [30]), cpu)[0].values
    assert "per_request" not in forms
    assert forms[0] == "trimmed"


@pytest.mark.parametrize(
    ("attention", "lens", "knobs", "allowed"),
    [
        (GQA, [300, 7], {"sdpa": "efficient"}, False),
        (GQA, [300, 7], {"sdpa": "efficient", "pack_gqa": True}, True),
        (Attention(4, 4, 32), [300, 7], {"sdpa": "efficient"}, True),
        (GQA, [300, 1], {"sdpa": "cudnn"}, False),
        (GQA, [300, 1], {"sdpa": "cudnn", "form": "padded"}, True),
        (GQA, [300, 2], {"sdpa": "cudnn"}, True),
    ],
)
def test_gpu_kernels_are_offered_only_where_pytorch_has_them(
    attention: Attention, lens: list[int], knobs: dict[str, KnobValue], allowed: bool
) -> None:
    """Seen on an H200: no efficient kernel for grouped heads; PyTorch refuses cuDNN a sequence of one key."""
    batch = Batch.decode(lens)
    default = {knob.name: knob.values[0] for knob in TorchNative().knobs(attention, batch, load_profile("h200"))}
    assert TorchNative().allows(attention, batch, {**default, **knobs}) is allowed


@pytest.mark.parametrize(("sdpa", "kernel"), [("auto", "flash"), ("math", "math")])
def test_the_path_names_the_kernel_that_pytorch_took(sdpa: str, kernel: str) -> None:
    inputs = make_inputs(Attention(8, 2, 64, dtype="fp32", kv_dtype="fp32"), Batch.decode([37, 20]), "cpu", seed=1)
    assert TorchNative().prepare(inputs, {"sdpa": sdpa}).path == f"sdpa:{kernel}"
