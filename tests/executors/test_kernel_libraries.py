"""Adapters hand the libraries the right tensors: a faithful stand-in then gives the reference's result."""

import sys
from types import ModuleType
from typing import Any

import fake_libraries
import pytest

from costmodel import Attention, Batch, Incompatible
from executors.backends import fa3, fa4, flashinfer, flashmla
from executors.backends.fa3 import Fa3
from executors.backends.fa4 import Fa4
from executors.backends.flashinfer import FlashInfer
from executors.backends.flashmla import FlashMla
from executors.base import Backend, Knobs
from executors.compare import compare
from executors.inputs import make_inputs
from executors.reference import make_reference
from hwprofiles import Profile, load_profile

H200 = Profile(
    id="h200",
    name="NVIDIA H200",
    vendor="NVIDIA",
    kind="gpu",
    architecture="Hopper",
    compute_capability="9.0",
    num_sms=132,
)
GQA = Attention(8, 2, 64)
MLA = Attention.mla(16)
MLA_FP8 = Attention.mla(16, kv_dtype="fp8_e4m3")
SPARSE = Attention.sparse(Attention.mla(64, kv_dtype="fp8_e4m3"), top_k=64)
DECODE = Batch.decode([37, 100, 64], page_size=16)
EXTEND = Batch.extend([20, 33], [20, 100], page_size=16)
TREE = Batch.verify([40, 90], 4, topk=2, page_size=16)
CHAIN = Batch.verify([40, 90], 4, page_size=64)
MIXED = Batch.extend([20, 1, 1], [50, 33, 70], page_size=1)


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    fakes: dict[str, ModuleType] = {
        "flash_attn_interface": fake_libraries.fake_fa3(),
        "fa3_fwd_interface": fake_libraries.fake_fa3_fwd(),
        "flash_mla": fake_libraries.fake_flash_mla(),
        **fake_libraries.fake_fa4(),
        **fake_libraries.fake_flashinfer(),
    }
    for name, module in fakes.items():
        monkeypatch.setitem(sys.modules, name, module)
    for adapter in (fa3, fa4, flashinfer, flashmla):
        monkeypatch.setattr(adapter, "installed_version", lambda package: "1.0")
    monkeypatch.setattr(flashinfer, "WORKSPACE_BYTES", 1024)
    flashinfer._workspace.cache_clear()
    return fakes


CASES: list[tuple[Backend, Attention, Batch, Knobs]] = [
    (Fa3(), GQA, DECODE, {}),
    (Fa3(), GQA, DECODE, {"num_splits": 3, "pack_gqa": False, "scheduler_metadata": "per_call"}),
    (Fa3(), GQA, EXTEND, {}),
    (Fa3(), GQA, CHAIN, {}),
    (Fa3(), GQA, MIXED, {}),
    (Fa3(), Attention(8, 2, 64, sliding_window=32, sinks=True), DECODE, {}),
    (Fa3(), Attention(8, 2, 64, sliding_window=32), EXTEND, {}),
    (Fa3(), Attention(8, 2, 64, logit_soft_cap=20.0), EXTEND, {}),
    (Fa3(), Attention(8, 2, 64, kv_dtype="fp8_e4m3"), DECODE, {}),
    (Fa3(), MLA, DECODE, {}),
    (Fa3(), MLA, DECODE, {"build": "flash_attn_interface"}),
    (Fa3(), Attention.mla(4, form="expanded"), EXTEND, {}),
    (Fa4(), GQA, DECODE, {}),
    (Fa4(), GQA, EXTEND, {}),
    (Fa4(), GQA, CHAIN, {}),
    (Fa4(), GQA, MIXED, {}),
    (Fa4(), Attention(8, 2, 64, sliding_window=32, sinks=True), DECODE, {}),
    (Fa4(), Attention(8, 2, 64, logit_soft_cap=20.0), EXTEND, {}),
    (Fa4(), Attention(8, 2, 64, dtype="fp16", kv_dtype="fp16"), DECODE, {}),
    (FlashInfer(), GQA, DECODE, {"use_tensor_cores": True}),
    (FlashInfer(), GQA, DECODE, {"use_tensor_cores": "auto"}),
    (FlashInfer(), Attention(8, 2, 64, sliding_window=32, logit_soft_cap=20.0), DECODE, {"use_tensor_cores": False}),
    (FlashInfer(), GQA, EXTEND, {"kernel": "fa2"}),
    (FlashInfer(), Attention(8, 2, 64, sliding_window=32), EXTEND, {}),
    (FlashInfer(), GQA, TREE, {}),
    (FlashInfer(), GQA, CHAIN, {}),
    (FlashInfer(), MLA, DECODE, {"kernel": "fa3"}),
    (FlashInfer(), MLA, EXTEND, {}),
    (FlashMla(), MLA, Batch.decode([37, 100, 64], page_size=64), {}),
    (FlashMla(), MLA, CHAIN, {}),
    (FlashMla(), MLA_FP8, Batch.decode([37, 100, 64], page_size=64), {}),
    (FlashMla(), MLA_FP8, CHAIN, {}),
    (FlashMla(), SPARSE, Batch.decode([37, 300, 64], page_size=64), {}),
    (FlashMla(), SPARSE, CHAIN, {}),
]


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(("backend", "attention", "batch", "knobs"), CASES)
def test_adapter_gives_the_references_result_on_every_copy(
    backend: Backend, attention: Attention, batch: Batch, knobs: Knobs
) -> None:
    assert backend.reject(attention, batch, H200) == []
    inputs = make_inputs(attention, batch, "cpu", seed=3, slots=2)
    prepared = backend.prepare(inputs, knobs)
    for slot in range(inputs.slots):
        accuracy = compare(prepared.run(slot), make_reference(inputs, slot=slot))
        assert accuracy.correct, (slot, accuracy)
    assert prepared.path


def test_decode_metadata_is_made_by_the_plan_and_not_by_the_call(libraries: dict[str, Any]) -> None:
    library = libraries["flash_attn_interface"]
    inputs = make_inputs(GQA, DECODE, "cpu", seed=1, slots=1)
    prepared = Fa3().prepare(inputs, {"num_splits": 4})
    made = len(library.metadata_calls)
    prepared.run(0)
    buffer = library.last["metadata"]
    assert prepared.plan is not None
    prepared.plan()
    prepared.run(0)
    assert library.metadata_calls == [(3, 100, 4)] * (made + 1)
    assert library.last["metadata"] is buffer


@pytest.mark.parametrize(
    ("attention", "batch"),
    [(GQA, EXTEND), (GQA, CHAIN), (Attention(8, 2, 64, sliding_window=9), DECODE), (MLA, DECODE)],
)
def test_no_metadata_where_sglang_makes_none(libraries: dict[str, Any], attention: Attention, batch: Batch) -> None:
    inputs = make_inputs(attention, batch, "cpu", seed=1, slots=1)
    assert Fa3().prepare(inputs, {}).plan is None
    assert "scheduler_metadata" not in {knob.name for knob in Fa3().knobs(attention, batch, H200)}


def test_absorbed_mla_names_the_build_that_has_the_kernel(libraries: dict[str, Any]) -> None:
    assert Fa3().implementation_for(MLA, DECODE, {}) == ("fa3_fwd_interface", "1.0")
    assert Fa3().implementation_for(GQA, DECODE, {}) == ("flash_attn_interface", "1.0")
    forced = {"build": "flash_attn_interface"}
    assert Fa3().implementation_for(MLA, DECODE, forced) == ("flash_attn_interface", "1.0")


def test_without_the_contiguous_build_absorbed_mla_runs_on_the_paged_one(
    monkeypatch: pytest.MonkeyPatch, libraries: dict[str, Any]
) -> None:
    monkeypatch.setattr(fa3, "installed_version", lambda package: "1.0" if package == "tokenspeed-fa3" else None)
    assert Fa3().implementation_for(MLA, DECODE, {}) == ("flash_attn_interface", "1.0")
    assert Fa3().prepare(make_inputs(MLA, DECODE, "cpu", seed=1, slots=1), {}).path == "flash_attn_interface paged"


@pytest.mark.parametrize(
    ("backend", "knobs", "message"),
    [
        (Fa3(), {"num_splits": 129}, "num_splits=129 must be a whole number from 0 to 128"),
        (Fa3(), {"splits": 2}, "fa3 has no knob splits"),
        (Fa3(), {"pack_gqa": "yes"}, "pack_gqa='yes'"),
        (Fa4(), {"num_splits": 2}, "num_splits=2 must be a whole number from 0 to 1"),
        (FlashInfer(), {"use_tensor_cores": "maybe"}, "use_tensor_cores='maybe'"),
        (FlashInfer(), {"kernel": "fa3"}, "flashinfer has no knob kernel"),
    ],
)
@pytest.mark.usefixtures("libraries")
def test_a_wrong_knob_is_named(backend: Backend, knobs: Knobs, message: str) -> None:
    inputs = make_inputs(GQA, DECODE, "cpu", seed=1, slots=1)
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        backend.prepare(inputs, knobs)


@pytest.mark.parametrize(("attention", "batch"), [(GQA, DECODE), (GQA, EXTEND), (MLA, DECODE)])
def test_a_kernel_that_must_not_be_compiled_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, libraries: dict[str, Any], attention: Attention, batch: Batch
) -> None:
    class MissingJITCacheError(RuntimeError):
        pass

    def plan(*_: object, **__: object) -> None:
        raise MissingJITCacheError("not in the cache")

    wrappers = [libraries["flashinfer"].BatchDecodeWithPagedKVCacheWrapper]
    wrappers.append(libraries["flashinfer"].BatchPrefillWithPagedKVCacheWrapper)
    wrappers.append(libraries["flashinfer.mla"].BatchMLAPagedAttentionWrapper)
    for wrapper in wrappers:
        monkeypatch.setattr(wrapper, "plan", plan)
    inputs = make_inputs(attention, batch, "cpu", seed=1, slots=1)
    with pytest.raises(Incompatible, match="no compiled module for this call"):
        FlashInfer().prepare(inputs, {})


@pytest.mark.parametrize("backend", [Fa3(), Fa4(), FlashInfer(), FlashMla()])
def test_a_missing_library_is_no_implementation_and_leaves_a_hint(backend: Backend) -> None:
    assert backend.implementation() is None
    assert backend.install_hint.startswith("pip install ")
    assert backend.candidates(GQA, DECODE, H200) == ()


@pytest.mark.parametrize(
    ("backend", "attention", "batch", "part"),
    [
        (Fa3(), GQA, TREE, "topk 2"),
        (Fa3(), Attention(8, 2, 512), DECODE, "head dim 512"),
        (Fa3(), Attention(8, 2, 64, kv_dtype="fp8_e5m2"), DECODE, "KV dtype fp8_e5m2"),
        (Fa4(), GQA, TREE, "tree mask"),
        (Fa4(), MLA, DECODE, "absorbed MLA"),
        (Fa4(), Attention(8, 2, 72), DECODE, "head dims 72/72 on pages of 16"),
        (Fa4(), Attention(8, 2, 512), DECODE, "at most 256"),
        (Fa4(), Attention(8, 2, 64, kv_dtype="fp8_e4m3"), DECODE, "one dtype for all"),
        (FlashInfer(), Attention(8, 2, 64, sinks=True), DECODE, "sinks"),
        (FlashInfer(), Attention(8, 2, 96), DECODE, "head dims 96/96"),
        (FlashMla(), MLA, DECODE, "page size 16"),
        (FlashMla(), GQA, DECODE, "only absorbed MLA"),
        (FlashMla(), Attention.sparse(MLA, top_k=2048), DECODE, "fp8 cache of 656 bytes a token only"),
        (FlashMla(), Attention.sparse(MLA_FP8, top_k=2048), DECODE, "sparse attention with 16 heads"),
        (FlashMla(), Attention.sparse(SPARSE, top_k=100), DECODE, "100 selected tokens"),
    ],
)
def test_a_rejection_says_why(backend: Backend, attention: Attention, batch: Batch, part: str) -> None:
    assert any(part in reason for reason in backend.reject(attention, batch, H200))


@pytest.mark.parametrize(("batch", "replannable"), [(DECODE, True), (EXTEND, False), (CHAIN, False)])
@pytest.mark.parametrize("attention", [GQA, MLA])
def test_flashinfer_says_where_planning_again_spoils_a_captured_call(
    attention: Attention, batch: Batch, replannable: bool, libraries: dict[str, Any]
) -> None:
    """Only its CUDA-graph mode keeps the buffers that a captured call reads."""
    inputs = make_inputs(attention, batch, seed=1, slots=1)
    assert FlashInfer().prepare(inputs, {}).replannable is replannable


def test_fa4_offers_split_counts_where_its_kernels_split() -> None:
    b200 = load_profile("b200")
    batch = Batch.decode([4096], page_size=128)
    assert Fa4().knobs(GQA, batch, H200) == ()
    assert [knob.values[:3] for knob in Fa4().knobs(GQA, batch, b200)] == [(0, 1, 2)]
    assert Fa4().reject(Attention(8, 2, 256), batch, H200) == []
    assert any("at most 128" in reason for reason in Fa4().reject(Attention(8, 2, 256), batch, b200))


def test_dense_fp8_mla_needs_sglangs_build_of_flashmla(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = Batch.decode([300], page_size=64)
    monkeypatch.setattr(flashmla, "installed_version", lambda package: "1.0" if package == "sgl-flash-mla" else None)
    assert FlashMla().implementation() == ("sgl_flash_mla", "1.0")
    assert FlashMla().reject(MLA_FP8, batch, H200) == []
    other = "tokenspeed-flashmla"
    monkeypatch.setattr(flashmla, "installed_version", lambda package: "1.0" if package == other else None)
    assert FlashMla().implementation() == ("flash_mla", "1.0")
    assert any("only sgl-flash-mla" in reason for reason in FlashMla().reject(MLA_FP8, batch, H200))
    assert FlashMla().reject(SPARSE, batch, H200) == []


def test_flashmlas_fp8_schedule_is_made_once_a_step_in_the_buffers_of_a_captured_call(
    libraries: dict[str, Any],
) -> None:
    inputs = make_inputs(MLA_FP8, Batch.decode([37, 100], page_size=64), "cpu", seed=1, slots=1)
    prepared = FlashMla().prepare(inputs, {})
    schedule = prepared.keep[0]
    before = schedule.tile_scheduler_metadata
    assert prepared.plan is not None
    prepared.plan()
    prepared.run(0)
    assert schedule.tile_scheduler_metadata is before
    assert libraries["flash_mla"].metadata_calls == 2
