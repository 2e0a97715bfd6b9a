"""The work lists: every visible key of every row once, in parts that a merge can find again."""

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel import Attention, Batch
from executors.kernels.schedule import make_schedule
from executors.kernels.tiling import HOPPER, default_tile

H200_SMS = 132


@st.composite
def workloads(draw: st.DrawFn) -> tuple[Attention, Batch, int]:
    lens = draw(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 2000)), min_size=1, max_size=6))
    attention = Attention(
        draw(st.sampled_from([4, 28])),
        4,
        64,
        sliding_window=draw(st.sampled_from([None, 100])),
        chunk_size=draw(st.sampled_from([None, 192])),
        causal=draw(st.booleans()),
    )
    batch = Batch.extend([q for q, _ in lens], [q + prefix for q, prefix in lens], page_size=16)
    return attention, batch, draw(st.integers(0, 9))


@settings(max_examples=40, deadline=None)
@given(workloads())
def test_parts_cover_each_visible_key_once(workload: tuple[Attention, Batch, int]) -> None:
    attention, batch, splits = workload
    tile = default_tile(attention, batch, target=HOPPER)
    schedule = make_schedule(attention, batch, tile, splits, H200_SMS)
    ranges = defaultdict(list)
    for request, row0, begin, end, _, q_start, q_len, kv_len in schedule.work.tolist():
        assert (q_start, q_len, kv_len) == (sum(batch.q_lens[:request]), batch.q_lens[request], batch.kv_lens[request])
        assert begin % tile.block_n == 0
        assert begin < end
        ranges[request, row0].append((begin, end))
    rows = {(r, m) for r, q in enumerate(batch.q_lens) for m in range(0, q * attention.group_size, tile.block_m)}
    assert set(ranges) == rows
    for (request, row0), parts in ranges.items():
        parts.sort()
        assert all(left[1] == right[0] for left, right in pairwise(parts))
        q, kv = batch.q_lens[request], batch.kv_lens[request]
        first = kv - q + row0 // attention.group_size
        last = kv - q + min(q - 1, (row0 + tile.block_m - 1) // attention.group_size)
        assert parts[-1][1] == (last + 1 if attention.causal else kv)
        lowest = max(first - attention.sliding_window + 1 if attention.sliding_window else 0, 0)
        if attention.chunk_size:
            lowest = max(lowest, first // attention.chunk_size * attention.chunk_size)
        assert lowest - tile.block_n < parts[0][0] <= lowest


@settings(max_examples=40, deadline=None)
@given(workloads())
def test_merges_find_all_parts_of_a_tile(workload: tuple[Attention, Batch, int]) -> None:
    attention, batch, splits = workload
    tile = default_tile(attention, batch, target=HOPPER)
    schedule = make_schedule(attention, batch, tile, splits, H200_SMS)
    slots = {int(w[4]): (int(w[0]), int(w[1])) for w in schedule.work if w[4] >= 0}
    assert sorted(slots) == list(range(schedule.slots))
    merged = []
    for first_slot, parts, row0, q_start, _, *_ in schedule.merges.tolist():
        assert parts > 1
        owners = {slots[first_slot + i] for i in range(parts)}
        assert owners == {(int(np.searchsorted(np.cumsum(batch.q_lens), q_start, side="right")), row0)}
        merged += range(first_slot, first_slot + parts)
    assert sorted(merged) == sorted(slots)


@pytest.mark.parametrize("splits", [1, 2, 5, 16])
def test_asked_splits_are_those_of_the_longest_request(splits: int) -> None:
    attention, batch = Attention(32, 8, 128), Batch.decode([64 * 80, 64 * 10, 64], page_size=64)
    schedule = make_schedule(attention, batch, default_tile(attention, batch, target=HOPPER), splits, H200_SMS)
    assert schedule.num_splits == splits
    assert int((schedule.work[:, 0] == 0).sum()) == splits
    assert int((schedule.work[:, 0] == 2).sum()) == 1


def test_more_splits_than_key_tiles_are_cut_to_them() -> None:
    attention, batch = Attention(32, 8, 128), Batch.decode([130], page_size=64)
    schedule = make_schedule(attention, batch, default_tile(attention, batch, target=HOPPER), 100, H200_SMS)
    assert schedule.num_splits == len(schedule.work) == 3


def test_own_choice_fills_the_device_and_leaves_a_full_one_alone() -> None:
    attention = Attention(32, 8, 128)
    one, many = Batch.decode([32768], page_size=64), Batch.decode([4096] * 256, page_size=64)
    tile = default_tile(attention, one, target=HOPPER)
    programs = len(make_schedule(attention, one, tile, 0, H200_SMS).work) * attention.num_kv_heads
    assert programs >= 0.6 * H200_SMS
    assert make_schedule(attention, many, tile, 0, H200_SMS).num_splits == 1


def test_own_choice_splits_what_would_run_alone_at_the_end() -> None:
    attention = Attention.mla(128)
    even, ragged = [8192] * 66, [2048] * 65 + [67 * 8192 - 66 * 2048]
    splits = {}
    for name, kv_lens in (("even", even), ("ragged", ragged)):
        batch = Batch.decode(kv_lens, page_size=64)
        tile = default_tile(attention, batch, target=HOPPER)
        schedule = make_schedule(attention, batch, tile, 0, H200_SMS)
        splits[name] = schedule.num_splits
        longest_part = (schedule.work[:, 3] - schedule.work[:, 2]).max()
        assert longest_part <= 2 * sum(kv_lens) * 2 / H200_SMS
    assert splits["even"] == 1 < splits["ragged"]


def test_longest_work_comes_first() -> None:
    attention, batch = Attention(8, 8, 128), Batch.extend([1000], [1000])
    work = make_schedule(attention, batch, default_tile(attention, batch, target=HOPPER), 1, H200_SMS).work
    lengths = work[:, 3] - work[:, 2]
    assert (np.diff(lengths) <= 0).all()
    assert lengths[0] == 1000
