"""Library decisions reproduced: split counts, chunks, tiles, from worked examples of the sources."""

import pytest
from costmodel_devices import machine

from costmodel import Attention, Batch
from costmodel.backends import fa3, flashinfer, flashinfer_mla, flashmla, triton
from costmodel.call import Call
from costmodel.knobs import resolve_knobs

GQA = Attention(32, 8, 128)


def call(backend, attention, batch, device="h200", **knobs):
    return Call(attention, batch, machine(device), resolve_knobs(backend, knobs))


def test_fa3_worked_example():
    plan = fa3.plan(call("fa3", GQA, Batch.decode([32768])))
    assert plan.unit_count == 8
    assert plan.num_splits == 15  # 8 x 15 / 132 = 0.91 is the first within 85 % of the best
    assert (plan.tile.rows, plan.tile.keys) == (128, 128)
    assert plan.total_tiles == 8 * 256


def test_fa3_does_not_split_a_full_machine_or_a_short_context():
    assert fa3.plan(call("fa3", GQA, Batch.decode([4096] * 64))).num_splits == 1
    assert fa3.plan(call("fa3", GQA, Batch.decode([512]))).num_splits == 1


def test_fa3_shortens_the_split_count_on_the_device():
    plan = fa3.plan(call("fa3", GQA, Batch.decode([4096] * 8), num_splits=64))
    per_sm = -(-int(1.1 * 32 * 8 * 8) // 132)
    assert plan.num_splits == -(-32 // per_sm)
    assert plan.merge_launched


@pytest.mark.parametrize(("dim", "window", "splits"), [(256, 128, 1), (256, 192, 5), (128, 1024, 8)])
def test_fa3_counts_a_window_and_one_query_tile_before_it_splits(dim, window, splits):
    """128 + 128 keys are four tiles of 64, which are not split; of 1,024 + 128, nine tiles, eight splits are enough."""
    windowed = Attention(4, 4, dim, sliding_window=window)
    assert fa3.plan(call("fa3", windowed, Batch.decode([131071] * 4))).num_splits == splits


def test_fa3_packs_heads_only_when_asked():
    packed = fa3.plan(call("fa3", GQA, Batch.extend([512], [512], page_size=128), num_splits=1))
    unpacked = fa3.plan(call("fa3", GQA, Batch.extend([512], [512], page_size=128), num_splits=1, pack_gqa=False))
    assert (packed.unit_count, unpacked.unit_count) == (8 * 16, 32 * 4)
    always = fa3.plan(call("fa3", GQA, Batch.decode([4096] * 8), num_splits=1, pack_gqa=False))
    assert always.unit_count == 8 * 8  # pages below a tile are loaded without TMA, which packs


def test_fa3_leaves_the_heads_of_unsplit_mla_apart_when_asked():
    """128 keys are two tiles, which are not split; nine tiles are, and a split kernel packs."""
    mla = Attention.mla(64)
    unsplit = Batch.decode([128] * 4)
    assert fa3.plan(call("fa3", mla, unsplit)).unit_count == 4
    assert fa3.plan(call("fa3", mla, unsplit, pack_gqa=False)).unit_count == 4 * 64
    assert fa3.plan(call("fa3", mla, Batch.decode([576] * 4), pack_gqa=False)).unit_count == 4


def test_fa3_causal_tiles_by_hand():
    plan = fa3.plan(call("fa3", Attention(8, 8, 128), Batch.extend([256], [256]), num_splits=1))
    assert plan.jobs == ((8, 2), (8, 1))


def test_fa3_splits_share_the_tiles_unequally():
    plan = fa3.plan(call("fa3", Attention(8, 1, 128), Batch.decode([128 * 10]), num_splits=4))
    assert plan.num_splits == 4
    assert plan.jobs == ((3, 3), (1, 1))


def test_triton_worked_example():
    plan = triton.plan(call("triton", GQA, Batch.decode([8192] * 8)))
    assert triton.head_blocks(GQA) == 8
    assert plan.num_splits == 8
    assert triton.split_counts(call("triton", GQA, Batch.decode([8192] * 8), max_kv_splits=256)) == [15]


def test_triton_levels_ragged_batches():
    counts = triton.split_counts(call("triton", GQA, Batch.decode([8192] * 32 + [1024] * 32)))
    assert counts[0] == 8
    assert counts[1] == 1


def test_triton_splits_are_whole_blocks_of_32_keys():
    plan = triton.plan(call("triton", GQA, Batch.decode([100]), max_kv_splits=8, split_mode="fixed"))
    assert plan.jobs == ((32, 1),)
    assert plan.empty_ctas == 8 * 8 - 32


def test_triton_extend_reads_prefix_then_new_tokens():
    plan = triton.plan(call("triton", Attention(4, 4, 128), Batch.extend([256], [1280])))
    prefix = triton.PREFIX_WEIGHT * 16
    assert plan.jobs == ((4, prefix + 2), (4, prefix + 4))


def test_flashinfer_chunks_fill_the_grid():
    grid = flashinfer.CUDA_CORE_SLOTS * 132
    plan = flashinfer.plan(call("flashinfer", GQA, Batch.decode([32768]), use_tensor_cores=False))
    assert plan.num_splits <= grid // 8
    assert flashinfer.chunk_pages([(256, 1)], 33, 2) == 8
    assert flashinfer.chunk_pages([(100, 3), (10, 5)], 20, 1) == 20


@pytest.mark.parametrize("lengths", [[(100, 3), (10, 5)], [(1000, 1), (1, 7)], [(64, 4)]])
def test_flashinfer_chunk_is_the_smallest_that_fits(lengths):
    def items(chunk):
        return sum(count * -(-pages // chunk) for pages, count in lengths)

    chunk = flashinfer.chunk_pages(lengths, 20, 1)
    assert items(chunk) <= 20
    assert chunk == 1 or items(chunk - 1) > 20


def test_flashinfer_tiles():
    assert flashinfer.query_rows(GQA, 4) == 16
    assert flashinfer.query_rows(GQA, 17) == 64
    assert flashinfer.query_rows(GQA, 65) == 128
    assert flashinfer.kv_tile(GQA, 128, 228 * 1024) == 64
    assert flashinfer.kv_tile(GQA, 16, 228 * 1024) == 128


def test_flashinfer_decode_uses_tensor_cores_from_groups_of_four():
    assert flashinfer.uses_tensor_cores(call("flashinfer", GQA, Batch.decode([1024])))
    assert not flashinfer.uses_tensor_cores(call("flashinfer", Attention(16, 8, 128), Batch.decode([1024])))


def test_flashinfer_mla_steps():
    assert [flashinfer_mla.kv_limit(n) for n in (8, 9, 32, 64, 65, 257)] == [32, 64, 128, 192, 256, 512]


def test_flashinfer_mla_gives_all_tiles_away():
    plan = flashinfer.plan(call("flashinfer", Attention.mla(128), Batch.decode([4096] * 7, page_size=64)))
    assert sum(tiles * slots for tiles, _, slots in plan.assigned) >= 2 * 7 * 64
    assert max(tiles for tiles, _, _ in plan.assigned) <= -(-2 * 7 * 64 // 132) + 4


def test_flashmla_payload_by_hand():
    plan = flashmla.plan(call("flashmla", Attention.mla(128), Batch.decode([64 * 100], page_size=64)))
    parts = 132 // 2
    payload = -(-105 // parts) + 5
    assert max(tiles for tiles, _, _ in plan.assigned) == payload - 5
    assert plan.num_splits == -(-100 // (payload - 5))
    assert sum(tiles * slots for tiles, _, slots in plan.assigned) == 2 * 100


@pytest.mark.parametrize(("heads", "empty"), [(1, 0), (4, 3 * (66 - 3))])
def test_flashinfer_counts_the_empty_ctas_before_the_last_with_work(heads, empty):
    """264 slots over the heads, three items each: padding after the last head's items delays nobody."""
    plan = flashinfer.plan(call("flashinfer", Attention(8 * heads, heads, 128), Batch.decode([128] * 3)))
    assert plan.empty_ctas == empty


def test_flashinfer_merges_rows_of_several_parts_only():
    plan = flashinfer.plan(call("flashinfer", GQA, Batch.decode([64, 512])))
    assert (plan.merged_rows, plan.merge_slots) == (32, 1)
    single = flashinfer.plan(call("flashinfer", GQA, Batch.decode([64, 100])))
    assert (single.merge_launched, single.merged_rows, single.merge_slots) == (True, 0, 0)


def test_flashinfer_walks_the_last_page_to_the_last_token():
    batch = Batch.decode([65], page_size=64)
    plan = flashinfer.plan(call("flashinfer", Attention(8, 8, 128), batch, use_tensor_cores=False))
    assert plan.total_tiles == 8 * 3  # tiles of 32 keys
