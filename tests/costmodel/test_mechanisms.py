"""Mechanisms of kernels, by cases counted by hand: merges, partial rows, launch order, conversion, spread loads."""

from dataclasses import replace

import pytest
from costmodel_devices import device, machine

from costmodel import Attention, Batch, predict
from costmodel.backends import fa3, flashinfer, flashinfer_mla, flashmla, triton
from costmodel.call import Call
from costmodel.knobs import resolve_knobs
from costmodel.parameters import Parameters
from costmodel.plan import CONVERTED_PER_CLK, converting_tile, tile_work
from costmodel.tiles import spread
from costmodel.timing import time_plan

GQA = Attention(32, 8, 128)
MLA = Attention.mla(64)


def call(attention, batch, backend, **knobs):
    return Call(attention, batch, machine(), resolve_knobs(backend, knobs))


def test_a_piece_is_merged_by_as_many_ctas_as_it_has_parts():
    assert flashinfer_mla.merge_walk(2048, 128, 64, 1) == 16  # 16 parts, 16 CTAs of 4 rows, one pass
    assert flashinfer_mla.merge_walk(256, 192, 64, 1) == 32  # 2 parts, 1 CTA: 64 rows in 16 passes
    assert flashinfer_mla.merge_walk(8192, 256, 128, 2) == 32  # 64 CTAs of 2 rows


def test_only_split_requests_write_partial_rows():
    alone = fa3.plan(call(GQA, Batch.decode([30000], page_size=64), "fa3"))
    short = fa3.plan(call(GQA, Batch.decode([30000] + [100] * 3, page_size=64), "fa3", num_splits=16))
    assert alone.partial_rows == alone.merge_splits * GQA.num_qo_heads
    assert short.partial_rows == short.merge_splits * GQA.num_qo_heads


def test_splits_without_work_are_not_merged():
    plan = fa3.plan(call(MLA, Batch.decode([2020], page_size=64), "fa3", num_splits=28))
    assert plan.num_splits == 28
    assert plan.merge_splits == 16  # 32 tiles in parts of 2


def test_cuda_cores_do_not_split_once_requests_fill_the_grid():
    few = flashinfer.plan(call(GQA, Batch.decode([128] * 64, page_size=64), "flashinfer", use_tensor_cores=False))
    many = flashinfer.plan(call(GQA, Batch.decode([128] * 128, page_size=64), "flashinfer", use_tensor_cores=False))
    assert few.merge_launched
    assert (many.merge_launched, many.partial_rows, many.num_splits) == (False, 0.0, 1)


def test_arrivals_are_the_requests_in_another_order():
    lens = [100 * i for i in range(1, 41)]
    here = call(GQA, Batch.decode(lens, page_size=64), "triton")
    assert sorted(kv for _, kv, _ in here.arrivals) == lens
    assert here.arrivals != sorted(here.arrivals, key=lambda r: -r[1])
    assert call(GQA, Batch.decode(lens[::-1], page_size=64), "triton").arrivals == here.arrivals


def test_first_parts_of_all_requests_start_first():
    batch = Batch.decode([4096, 4096, 64], page_size=64)
    plan = triton.plan(call(GQA, batch, "triton", max_kv_splits=4, split_mode="fixed"))
    assert [tiles for _, tiles in plan.jobs][-1] == 32  # the last part of a long request, not the short one
    assert min(tiles for _, tiles in plan.jobs[:-1]) == 1


def test_a_cache_in_fp8_is_converted():
    fp8, m = replace(GQA, kv_dtype="fp8_e4m3"), machine()
    added = converting_tile(m, fp8, 16, 32).matrix_seconds - tile_work(m, fp8, 16, 32).matrix_seconds
    assert added == pytest.approx(32 * 256 / (CONVERTED_PER_CLK * m.clock_hz))
    assert converting_tile(m, GQA, 16, 32) == tile_work(m, GQA, 16, 32)


def test_a_selection_is_walked_whole_by_every_query_token():
    sparse = Attention.sparse(Attention.mla(64, kv_dtype="fp8_e4m3"), top_k=2048)
    assert flashmla.blocks_of(call(sparse, Batch.decode([512] * 8, page_size=64), "flashmla")) == [(32, 8)]
    tokens = Batch.verify([9000] * 8, draft_tokens=4, page_size=64)
    assert flashmla.blocks_of(call(sparse, tokens, "flashmla")) == [(32, 32)]


def test_loads_of_spread_kv_take_longer():
    plan = fa3.plan(call(GQA, Batch.decode([100_000], page_size=64), "fa3", num_splits=1))
    near, far = (time_plan(plan, machine(), Parameters(far_fraction=share)).seconds for share in (0.0, 1.0))
    assert near < far < 2 * near
    assert spread(0.0, 50e6) == 0.0
    assert spread(10e6, 50e6) == pytest.approx(0.5)


def test_kernels_without_a_factor_take_those_of_their_features():
    p = Parameters(factors={"d64": 1.2, "d128_window": 1.5, "d256_window": 3.0})
    assert p.factor("d64_window") == pytest.approx(1.8)
    assert p.factor("d256_window") == 3.0
    assert p.factor("d96_fp8_e4m3") == 1.0


def test_permuted_batches_cost_the_same_where_the_library_keeps_their_order():
    for backend in ("flashinfer", "triton"):
        times = {
            predict(MLA, Batch.decode(lens, page_size=64), backend=backend, profile=device()).seconds
            for lens in ([5000, 70, 900, 12000], [70, 12000, 5000, 900])
        }
        assert len(times) == 1
