"""FlexAttention: block masks without compiling, and two compiled calls against the reference."""

import shutil

import pytest
import torch

from costmodel import Attention, Batch
from executors.backends import flex_attention as module
from executors.backends.block_masks import block_mask, packed_mask, square_mask
from executors.backends.flex_attention import FlexAttention
from executors.backends.flex_tiles import shared_bytes, tile
from executors.check import check
from executors.inputs import make_inputs
from executors.reference import make_reference
from executors.visibility import visible
from hwprofiles import Profile, load_profile

needs_compiler = pytest.mark.skipif(not module.has_compiler(), reason="no C++ compiler")
MIXED = Batch.extend([40, 1, 37], [130, 80, 37], page_size=4)


def test_without_a_compiler_it_is_not_available(monkeypatch: pytest.MonkeyPatch, cpu: Profile) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert FlexAttention().implementation() is None
    assert FlexAttention().candidates(Attention(4, 2, 32), MIXED, cpu) == ()
    assert "C++ compiler" in FlexAttention.install_hint


@pytest.mark.parametrize(
    ("attention", "batch"),
    [
        (Attention(2, 1, 16, sliding_window=20), MIXED),
        (Attention(2, 1, 16), Batch.verify([50, 30], 6, topk=2)),
        (Attention(2, 1, 16, chunk_size=16), MIXED),
    ],
)
def test_a_packed_block_mask_keeps_requests_apart_and_skips_what_none_sees(attention: Attention, batch: Batch) -> None:
    inputs = make_inputs(attention, batch, seed=0, slots=1)
    mask = packed_mask(inputs)
    keys = sum(_visible_keys(inputs, r) for r in range(batch.size))
    built = block_mask(mask, (batch.total_q, keys), (4, 16), "cpu")
    zero, query, key = torch.zeros((), dtype=torch.int64), torch.arange(batch.total_q), torch.arange(keys)
    seen = mask(zero, zero, query[:, None], key[None, :])
    expected = [visible(inputs, [r], torch.arange(q)[None]).sum() for r, q in enumerate(batch.q_lens)]
    assert int(seen.sum()) == int(sum(expected))
    whole = torch.zeros(-(-batch.total_q // 4) * 4, -(-keys // 16) * 16, dtype=torch.bool)
    whole[: batch.total_q, :keys] = seen
    dense = whole.view(-(-batch.total_q // 4), 4, -1, 16).any(3).any(1)
    assert torch.equal(built.to_dense()[0, 0].bool(), dense)
    assert not dense.all()


def test_the_square_mask_is_causal_and_a_decoding_query_sees_everything() -> None:
    index = torch.arange(6)
    zero = torch.zeros((), dtype=torch.int64)
    causal = square_mask(Attention(1, 1, 8, sliding_window=3), False, "cpu")(zero, zero, index[:, None], index)
    assert torch.equal(causal, torch.ones(6, 6).tril().triu(-2).bool())
    assert square_mask(Attention(1, 1, 8), True, "cpu")(zero, zero, zero, index).all()


@needs_compiler
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("attention", "batch", "form"),
    [
        (Attention(4, 2, 32, sliding_window=50, logit_soft_cap=20.0), MIXED, "per_request"),
        (Attention(4, 2, 32), Batch.verify([100, 37], 6, topk=3, page_size=4), "packed"),
    ],
)
def test_compiled_calls_are_right_and_say_how_long_compiling_took(
    attention: Attention, batch: Batch, form: str
) -> None:
    inputs = make_inputs(attention, batch, seed=7, slots=1)
    with torch.no_grad():
        prepared = FlexAttention().prepare(inputs, {"form": form})
        assert check(prepared, make_reference(inputs)).correct
    assert prepared.compile_seconds > 0
    assert prepared.plan is not None


@pytest.mark.parametrize("knobs", [{"form": "square"}, {"block_n": 7}, {"num_splits": 2}])
def test_unknown_or_absurd_knobs_are_refused(knobs: dict[str, int | str]) -> None:
    inputs = make_inputs(Attention(2, 1, 16), MIXED, seed=0, slots=1)
    with pytest.raises(ValueError, match="flex_attention"):
        FlexAttention().prepare(inputs, knobs)


def _visible_keys(inputs: object, request: int) -> int:
    from executors.requests import split_requests

    return split_requests(inputs)[request].keys  # type: ignore[arg-type]


MLA = Attention.mla(num_qo_heads=16)


@pytest.mark.parametrize(("keys", "asked"), [(32, 425_984), (64, 720_896), (256, 2_490_368)])
def test_shared_memory_is_what_an_h200_was_asked_for(keys: int, asked: int) -> None:
    assert tile(MLA)[0] == 64
    assert shared_bytes(MLA, 64, keys) == asked


def test_tiles_beyond_the_shared_memory_are_refused_before_they_are_compiled() -> None:
    h200, backend = load_profile("h200"), FlexAttention()
    chunk = Batch.extend([64] * 4, [2048] * 4)
    assert any("425984 bytes" in reason for reason in backend.reject(MLA, chunk, h200))
    assert backend.reject(MLA, Batch.decode([4096] * 4), h200) == []
    assert backend.reject(MLA, chunk, h200.model_copy(update={"compute_capability": "10.0"})) == []


def test_only_block_sizes_that_fit_are_offered() -> None:
    backend, prompt = FlexAttention(), Batch.extend([2048], [2048])
    sizes = {
        dim: next(
            k.values for k in backend.knobs(Attention(32, 8, dim), prompt, load_profile("h200")) if k.name == "block_n"
        )
        for dim in (64, 128)
    }
    assert sizes == {64: (0, 64, 256), 128: (0, 64)}
