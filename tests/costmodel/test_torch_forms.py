"""PyTorch's forms on a GPU: what each costs more than the default, as recorded on an H200."""

import pytest
from costmodel_devices import device

from costmodel import Attention, Batch, predict

LAYER = Attention(64, 8, 128)
LONG = Batch.decode([8273], page_size=64)


def seconds(batch: Batch, attention: Attention = LAYER, **knobs: object) -> float:
    return predict(attention, batch, backend="torch_native", profile=device(), knobs=knobs).seconds


def test_packed_heads_are_not_split_over_the_sms() -> None:
    """133.8 us recorded, 37.9 us without packing."""
    assert seconds(LONG, pack_gqa=True) > 2 * seconds(LONG)


def test_packing_changes_nothing_without_shared_heads() -> None:
    alone = Attention(8, 8, 128)
    assert seconds(LONG, alone, pack_gqa=True) == seconds(LONG, alone)


def test_single_steps_cost_most() -> None:
    """732.5 us recorded, 44.7 us with the flash kernel, 37.9 us with cuDNN's."""
    assert seconds(LONG, sdpa="math") > 10 * seconds(LONG, sdpa="flash") > 10 * seconds(LONG, sdpa="cudnn")


@pytest.mark.parametrize(
    ("layer", "batch", "form", "measured"),
    [
        (Attention(16, 2, 512), Batch.decode([4096] * 64), "padded", 22517e-6),
        (Attention(16, 2, 512), Batch.decode([32768] * 8), "padded", 24017e-6),
        (Attention.mla(128), Batch.decode([4096]), "per_request", 2522e-6),
        (Attention.mla(64), Batch.decode([4096]), "per_request", 1295e-6),
    ],
)
def test_heads_wider_than_fused_kernels_run_in_single_steps(layer, batch, form, measured) -> None:
    assert seconds(batch, layer, form=form) == pytest.approx(measured, rel=0.25)


def test_the_memory_efficient_kernel_is_slow_on_extend() -> None:
    """683 us recorded with the memory-efficient kernel for 32 query and 8 KV heads of 128."""
    batch, packed = Batch.extend([2048], [2048]), {"form": "trimmed", "pack_gqa": True}
    slow = seconds(batch, Attention(32, 8, 128), sdpa="efficient", **packed)
    assert slow == pytest.approx(683e-6, rel=0.3)
    assert slow > 3 * seconds(batch, Attention(32, 8, 128), **packed)


def test_larger_query_blocks_are_not_less_work_on_a_cpu() -> None:
    profile = device("cpu-amd-epyc-f25m17-2c")
    batch = Batch.extend([4096] * 4, [4096] * 4)
    own, large = (
        predict(Attention(12, 2, 128), batch, backend="flex_attention", profile=profile, knobs=knobs).seconds
        for knobs in ({}, {"block_m": 1024})
    )
    assert large >= own


def test_padding_saves_launches_of_equal_requests_and_loses_on_unequal_ones() -> None:
    """137.3 and 116.3 us recorded for four equal requests, 739.3 and 1244.3 us for eight unequal ones."""
    equal = Batch.decode([7609] * 4, page_size=64)
    unequal = Batch.decode([6879, 8000, 9000, 12000, 20000, 30000, 55000, 60179])
    assert seconds(equal, form="padded") < seconds(equal)
    assert seconds(unequal, Attention(40, 8, 128), form="padded") > seconds(unequal, Attention(40, 8, 128))


@pytest.mark.parametrize("cached", [1000, 8000])
def test_padded_queries_cost_the_cached_prefix_again(cached: int) -> None:
    """SGLang pads new queries to the whole sequence; the trimmed form computes the new rows only."""
    batch = Batch.extend([128], [128 + cached])
    assert seconds(batch) > seconds(batch, form="trimmed")
