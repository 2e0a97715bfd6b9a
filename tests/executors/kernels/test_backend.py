"""What the backend claims, refuses and offers as knobs, without a GPU and without importing Triton."""

import subprocess
import sys

import pytest

from costmodel import Attention, Batch
from costmodel.attention import DTYPE_BYTES
from executors.backends.attnroof_triton import AttnroofTriton
from executors.kernels.form import Form
from executors.kernels.tiling import HOPPER, SHARED_BYTES, Tile, default_tile, shared_bytes, tile_of
from hwprofiles import load_profile

H200 = load_profile("h200")
BACKEND = AttnroofTriton()
GQA = Attention(32, 8, 128)
DECODE = Batch.decode([4096] * 4, page_size=64)

SHAPES = [
    *((Attention(16, 2, dim), DECODE) for dim in (64, 80, 96, 128, 192, 256)),
    *((Attention.mla(heads), DECODE) for heads in (16, 32, 64, 128)),
    (Attention.mla(128, kv_dtype="fp8_e4m3"), DECODE),
    *((Attention(16, 2, dim), Batch.extend([512], [1024], page_size=64)) for dim in (64, 128, 192, 256)),
    (Attention.mla(16, form="expanded"), Batch.extend([512], [512])),
    (GQA, Batch.verify([1024] * 4, 8, topk=4, page_size=64)),
]


@pytest.mark.parametrize(("attention", "batch"), SHAPES, ids=lambda x: getattr(x, "family", getattr(x, "phase", "")))
def test_own_tile_fits_shared_memory_and_knobs_start_with_it(attention: Attention, batch: Batch) -> None:
    tile = default_tile(attention, batch, target=HOPPER)
    assert shared_bytes(Form.of(attention, batch), tile, DTYPE_BYTES[attention.kv_dtype]) <= SHARED_BYTES
    knobs = {k.name: k.values for k in BACKEND.knobs(attention, batch, H200)}
    assert knobs["num_splits"][0] == 0
    for name in ("block_m", "block_n", "num_warps", "num_stages"):
        assert knobs[name][0] == getattr(tile, name)
        for value in knobs[name]:
            assert getattr(tile_of(attention, batch, {name: value}, target=HOPPER), name) == value


def _own_tile(attention: Attention, batch: Batch) -> Tile:
    return default_tile(attention, batch, target=HOPPER)


def test_two_programs_of_64_rows_share_an_sm_where_they_fit() -> None:
    for dim in (64, 96, 128, 192, 256):
        attention, batch = Attention(16, 2, dim), Batch.extend([512], [512])
        tile = _own_tile(attention, batch)
        two_fit = 2 * shared_bytes(Form.of(attention, batch), tile, 2.0) <= SHARED_BYTES
        assert tile.block_m == (64 if two_fit else 128)


def test_heads_are_interleaved_until_the_cache_exceeds_l2() -> None:
    assert _own_tile(GQA, Batch.extend([8192], [8192])).heads_inner
    assert not _own_tile(GQA, Batch.extend([16384], [16384])).heads_inner


def test_a_step_of_few_rows_brings_equal_bytes() -> None:
    fp8 = Attention(32, 8, 128, kv_dtype="fp8_e4m3")
    assert _own_tile(fp8, Batch.decode([4096])).block_n == 2 * _own_tile(GQA, Batch.decode([4096])).block_n
    assert _own_tile(Attention(32, 8, 64), Batch.decode([4096])).block_n == 128
    assert _own_tile(Attention(32, 8, 64, sliding_window=128), Batch.decode([4096])).block_n == 64
    assert _own_tile(fp8, DECODE).tma


def test_knob_choice_none_is_the_own_one() -> None:
    assert tile_of(GQA, DECODE, {"block_n": None, "num_splits": None}, target=HOPPER) == default_tile(
        GQA, DECODE, target=HOPPER
    )


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"block_k": 64}, "unknown knob 'block_k'"),
        ({"block_n": 48}, "block_n=48 must be one of"),
        ({"num_warps": 3}, "num_warps=3 must be one of"),
        ({"num_stages": 9}, "num_stages=9 must be one of"),
        ({"num_splits": -1}, "num_splits=-1 must be a whole number"),
        ({"block_m": 64.0}, "block_m=64.0 must be a whole number"),
    ],
)
def test_wrong_knobs_name_field_value_and_rule(knobs: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        tile_of(GQA, DECODE, knobs, target=HOPPER)


@pytest.mark.parametrize(
    ("attention", "reason"),
    [
        (Attention.sparse(Attention.mla(16), top_k=2048), "sparse attention"),
        (Attention(8, 8, 512), "head dim 512 above 256"),
        (Attention(8, 8, 36), "not multiples of 8"),
        (Attention(8, 8, 128, dtype="fp16"), "KV dtype bf16 beside queries in fp16"),
        (Attention(8, 8, 128, kv_dtype="nvfp4"), "KV dtype nvfp4 not among"),
    ],
)
def test_refusals_say_why(attention: Attention, reason: str) -> None:
    assert any(reason in r for r in BACKEND.reject(attention, DECODE, H200))


def test_runs_every_phase_on_the_h200() -> None:
    for batch in (DECODE, Batch.extend([8], [64]), Batch.verify([64], 4), Batch.extend([8, 1], [8, 64])):
        assert BACKEND.reject(GQA, batch, H200) == []


def test_old_devices_are_refused() -> None:
    assert any(
        "below 8.0" in r for r in BACKEND.reject(GQA, DECODE, H200.model_copy(update={"compute_capability": "7.5"}))
    )


def test_describing_the_backend_imports_neither_torch_nor_triton() -> None:
    code = (
        "import sys\n"
        "from executors.backends.attnroof_triton import AttnroofTriton\n"
        "import executors.kernels.launch, executors.kernels.schedule\n"
        "AttnroofTriton().implementation()\n"
        "assert not {'torch', 'triton'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
