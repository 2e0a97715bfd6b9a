"""Every backend that is installed gives the right result on the device, eagerly and from a CUDA graph."""

import pytest

from costmodel import Attention, Batch
from executors.base import Knobs
from executors.compare import compare
from executors.inputs import make_inputs
from executors.reference import make_reference
from executors.registry import get_backend
from hwprofiles import Profile

pytestmark = pytest.mark.gpu
DEVICE = "cuda:0"

GQA, MLA = Attention(32, 8, 128), Attention.mla(16)
MLA_FP8 = Attention.mla(16, kv_dtype="fp8_e4m3")
SPARSE = Attention.sparse(Attention.mla(64, kv_dtype="fp8_e4m3"), top_k=512)
FP8 = Attention(32, 8, 128, kv_dtype="fp8_e4m3")
WINDOW = Attention(32, 8, 128, sliding_window=512)
SINKS = Attention(64, 8, 64, sinks=True)
RAGGED = (1, 77, 4096, 900, 2500, 63, 64, 65)
DECODE, DECODE_1 = Batch.decode(RAGGED, page_size=64), Batch.decode(RAGGED, page_size=1)
DECODE_128 = Batch.decode(RAGGED, page_size=128)
LONGER = Batch.decode(RAGGED[1:], page_size=64)
"""Without the request of a single key, which cuDNN does not take."""
PREFILL = Batch.extend([1000, 333], [1000, 333], page_size=64)
CHUNK = Batch.extend([512, 100], [4000, 1500], page_size=64)
MIXED = Batch.extend([512, 1, 1, 1], [4000, 1500, 77, 901], page_size=64)
CHAIN = Batch.verify([900, 2048, 77], 4, page_size=64)
TREE = Batch.verify([900, 2048, 77], 8, topk=2, page_size=64)

CASES: list[tuple[str, Attention, Batch, Knobs]] = [
    *(("fa3", GQA, batch, {}) for batch in (DECODE, DECODE_1, PREFILL, CHUNK, MIXED, CHAIN)),
    ("fa3", GQA, DECODE, {"num_splits": 7}),
    ("fa3", GQA, DECODE, {"pack_gqa": False}),
    ("fa3", GQA, DECODE, {"scheduler_metadata": "per_call"}),
    ("fa3", FP8, DECODE, {}),
    ("fa3", WINDOW, DECODE, {}),
    ("fa3", WINDOW, CHUNK, {}),
    ("fa3", SINKS, DECODE, {}),
    ("fa3", MLA, DECODE, {}),
    ("fa3", Attention(16, 8, 256), DECODE, {}),
    ("flashinfer", GQA, DECODE, {"use_tensor_cores": True}),
    ("flashinfer", GQA, DECODE, {"use_tensor_cores": False}),
    ("flashinfer", GQA, DECODE_1, {}),
    ("flashinfer", FP8, DECODE, {}),
    ("flashinfer", WINDOW, DECODE, {}),
    ("flashinfer", WINDOW, CHUNK, {"kernel": "fa2"}),
    *(("flashinfer", GQA, batch, {"kernel": kernel}) for batch in (PREFILL, CHUNK, MIXED) for kernel in ("fa2", "fa3")),
    ("flashinfer", GQA, CHAIN, {}),
    ("flashinfer", GQA, TREE, {}),
    ("flashinfer", MLA, DECODE, {"kernel": "fa2"}),
    ("flashinfer", MLA, DECODE, {"kernel": "fa3"}),
    ("flashmla", MLA, DECODE, {}),
    ("flashmla", MLA, CHAIN, {}),
    *(("flashmla", MLA_FP8, batch, {}) for batch in (DECODE, CHAIN)),
    *(("flashmla", SPARSE, batch, {}) for batch in (DECODE, CHAIN)),
    ("triton", GQA, DECODE, {}),
    ("triton", GQA, DECODE_1, {"max_kv_splits": 16, "split_mode": "fixed"}),
    *(("triton", GQA, batch, {}) for batch in (PREFILL, CHUNK, MIXED, CHAIN, TREE)),
    ("triton", FP8, DECODE, {}),
    ("triton", WINDOW, DECODE, {}),
    ("triton", WINDOW, CHUNK, {}),
    ("triton", SINKS, DECODE, {}),
    ("triton", MLA, DECODE, {}),
    ("triton", Attention(32, 16, 128, logit_soft_cap=50.0), DECODE, {}),
    ("trtllm_mha", GQA, DECODE, {}),
    *(("attnroof_triton", GQA, batch, {}) for batch in (DECODE, DECODE_1, PREFILL, CHUNK, MIXED, CHAIN, TREE)),
    *(("attnroof_triton", layer, DECODE, {}) for layer in (FP8, WINDOW, SINKS, MLA)),
    *(("fa4", GQA, batch, {}) for batch in (DECODE, DECODE_1, DECODE_128, PREFILL, CHUNK, MIXED, CHAIN)),
    *(("fa4", layer, DECODE, {}) for layer in (WINDOW, SINKS)),
    ("torch_native", GQA, DECODE, {}),
    ("torch_native", GQA, DECODE, {"form": "padded"}),
    ("torch_native", GQA, LONGER, {"form": "per_request", "sdpa": "cudnn"}),
    ("torch_native", GQA, LONGER, {"form": "per_request", "pack_gqa": True, "sdpa": "efficient"}),
    ("torch_native", GQA, CHUNK, {}),
    ("flex_attention", GQA, DECODE, {"form": "padded"}),
    ("flex_attention", GQA, CHUNK, {"form": "packed"}),
]


@pytest.mark.parametrize(
    ("name", "attention", "batch", "knobs"),
    CASES,
    ids=[f"{name}-{a.family}{a.head_dim}-{b.phase}{b.page_size}-{i}" for i, (name, a, b, _) in enumerate(CASES)],
)
def test_result_is_right_eagerly_and_from_a_graph(
    name: str, attention: Attention, batch: Batch, knobs: Knobs, profile: Profile
) -> None:
    import torch

    backend = get_backend(name)
    if backend.implementation() is None:
        pytest.skip(f"{name} is not installed: {backend.install_hint}")
    implementation = backend.implementation()
    if attention is MLA_FP8 and implementation is not None and implementation[0] != "sgl_flash_mla":
        pytest.skip("dense fp8 MLA needs sgl-flash-mla")
    assert backend.reject(attention, batch, profile) == []
    default = {knob.name: knob.values[0] for knob in backend.knobs(attention, batch, profile)}
    assert backend.allows(attention, batch, {**default, **knobs})
    inputs = make_inputs(attention, batch, DEVICE, seed=11, slots=2)
    prepared = backend.prepare(inputs, knobs)
    last = inputs.slots - 1
    eager = compare(prepared.run(last), make_reference(inputs, slot=last))
    assert eager.correct, (prepared.path, eager)
    if not prepared.capturable:
        return
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = [prepared.run(slot) for slot in range(inputs.slots)]
    for output in outputs:
        output.fill_(float("nan"))
    if prepared.plan is not None and prepared.replannable:
        prepared.plan()
    for _ in range(3):
        graph.replay()
    for slot, output in enumerate(outputs):
        captured = compare(output, make_reference(inputs, slot=slot))
        assert captured.correct, (slot, prepared.path, captured)
