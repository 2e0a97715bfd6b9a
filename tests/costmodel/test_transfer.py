"""Parameters carried to other devices: rules by hand, and estimates against public tables nothing was fitted to."""

import statistics
from collections import defaultdict
from dataclasses import replace

import pytest

from benchmarks.operator_tables import Row, read, write
from benchmarks.transfer import compare, table
from costmodel import Attention, Batch, predict
from costmodel.backends import fa3, fa3_ampere, flashinfer
from costmodel.backends.structural import STRUCTURES, plan_of
from costmodel.calibration import resolve
from costmodel.call import Call
from costmodel.knobs import resolve_knobs
from costmodel.machine import machine_of
from costmodel.parameters import Parameters
from costmodel.transfer import assembled, carried, matrix_per_clk
from hwprofiles import load_profile
from tests.costmodel.costmodel_devices import device, machine

GQA = Attention(num_qo_heads=32, num_kv_heads=8, head_dim=128)
OTHER = ("fa3", "decode")
FA2 = ("flashinfer", "extend_fa2")


def test_times_in_clocks_follow_the_clock_and_bytes_in_flight_stay():
    fitted = Parameters(tile_seconds=1e-6, page_seconds=1e-9, cta_bytes_per_s=5e10)
    moved = carried(fitted, OTHER, machine("h200"), machine("a100"))
    assert moved.tile_seconds == pytest.approx(1e-6 * 1.98 / 1.41)
    assert moved.page_seconds == pytest.approx(1e-9 * 1.98 / 1.41)
    assert moved.cta_bytes_per_s == 5e10


def test_the_older_instruction_reaches_its_share_of_the_peak():
    fitted = Parameters(matrix_fraction=0.31, overlap=4.0)
    here = replace(machine("h200"), sustained_matrix_fraction=None)
    kernel = ("flashinfer", "extend_fa2")
    assert here.mma_sync_fraction == 0.62
    assert carried(fitted, kernel, here, machine("l40s")).matrix_fraction == pytest.approx(0.5)
    assert carried(fitted, kernel, here, machine("b200")).matrix_fraction == pytest.approx(0.5 * 0.25)
    assert carried(fitted, OTHER, here, machine("b200")).matrix_fraction == pytest.approx(0.31)


def test_what_a_serial_kernel_does_between_products_stays_in_clocks():
    """Half of the time is products at 4,096 a clock; at 1,024 they take four times as long, the rest does not."""
    here, there = (replace(machine(name), sustained_matrix_fraction=None) for name in ("h200", "l40s"))
    assert matrix_per_clk(here) / matrix_per_clk(there) == pytest.approx(4.0, rel=0.05)
    moved = carried(Parameters(matrix_fraction=0.5, overlap=1.0), ("triton", "extend"), here, there)
    ratio = matrix_per_clk(there) / matrix_per_clk(here)
    assert moved.matrix_fraction == pytest.approx(1 / (1 + ratio))


def test_products_slow_down_where_power_holds_the_clock():
    here = replace(machine("h200"), sustained_matrix_fraction=0.9)
    there = replace(machine("l40s"), sustained_matrix_fraction=0.72)
    moved = carried(Parameters(matrix_fraction=0.5), OTHER, here, there)
    assert moved.matrix_fraction == pytest.approx(0.4)


def test_a_kernel_with_few_bytes_in_flight_draws_the_same_from_every_sm():
    here, there = machine("h200"), machine("l40s")
    fitted = Parameters(dram_fraction=0.1)
    moved = carried(fitted, OTHER, here, there)
    drawn = 0.1 * here.memory_bytes_per_s / here.sms
    assert moved.dram_fraction * there.memory_bytes_per_s / there.sms == pytest.approx(drawn)
    full = carried(Parameters(dram_fraction=1.0), OTHER, here, there)
    assert full.dram_fraction == there.usual_dram_fraction


def test_memory_gives_what_others_read_from_it():
    """A100: 1.776 TB/s by a public stream benchmark, of 2.039."""
    assert machine("a100").usual_dram_fraction == pytest.approx(1.776 / 2.039)
    assert machine("h100").usual_dram_fraction == 0.93


def test_before_hopper_fa3_has_the_main_loop_of_fa2_and_its_own_jobs():
    a100 = machine("a100")
    own, loop = (resolve(*kernel, a100).parameters for kernel in (("fa3", "decode_mma_sync"), FA2))
    assert replace(own, job_tiles=loop.job_tiles) == loop
    assert own.job_tiles > loop.job_tiles
    assert resolve("fa3", "decode_mma_sync", a100).evidence == "others"


def test_a_job_takes_as_long_in_another_loop():
    """2 tiles of 1 us + 65,536 bytes at 65.536 GB/s are 4 us; two CTAs at 1 us a tile need 2 us a tile: 2 tiles."""
    job = Parameters(job_tiles=2.0, tile_seconds=1e-6, cta_bytes_per_s=65.536e9)
    loop = Parameters(job_tiles=0.2, tile_seconds=1e-6, cta_bytes_per_s=1e18)
    assert assembled(loop, job).job_tiles == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("capability", "dim", "split", "expected"),
    [
        ((8, 0), 128, False, (128, 64, 4)),
        ((8, 0), 128, True, (128, 112, 8)),
        ((8, 9), 128, False, (128, 128, 8)),
        ((8, 0), 64, False, (128, 112, 4)),
        ((8, 0), 256, False, (128, 96, 8)),
        ((8, 6), 256, True, (128, 48, 8)),
    ],
)
def test_tiles_of_fa3_before_hopper(capability, dim, split, expected):
    attention = Attention(num_qo_heads=8, num_kv_heads=8, head_dim=dim)
    assert fa3_ampere.tile_and_warps(attention, capability, split=split) == expected


def test_an_sm_holds_two_small_ctas_of_fa3_before_hopper():
    many = Attention(num_qo_heads=96, num_kv_heads=96, head_dim=128)
    full, few = (
        Call(attention, Batch.decode([4096] * 8, page_size=64), machine("a100"), resolve_knobs("fa3", None))
        for attention in (many, GQA)
    )
    assert (fa3.plan(full).slots_per_sm, fa3.plan(full).tile.keys) == (2, 64)
    assert (fa3.plan(few).slots_per_sm, fa3.plan(few).tile.keys) == (1, 112)


def test_two_query_tiles_where_tensor_memory_holds_them():
    """128 lanes of 2 KiB: 256 rows of 128 scores and 128 outputs fit, of 128 and 256 do not; Hopper has none."""
    wide = Attention(num_qo_heads=32, num_kv_heads=8, head_dim=256)
    batch = Batch.extend(q_lens=[4096], kv_lens=[4096], page_size=64)
    rows = {}
    for name, attention in (("b200", GQA), ("b200", wide), ("h200", GQA)):
        plan = plan_of(STRUCTURES["trtllm_mha"], Call(attention, batch, machine(name), {}))
        rows[(name, attention.head_dim)] = (plan.tile.rows, plan.unit_count)
    assert rows == {("b200", 128): (256, 32 * 16), ("b200", 256): (128, 32 * 32), ("h200", 128): (128, 32 * 32)}


def test_heads_of_flashinfers_fa2_run_one_after_the_other():
    """32 heads of 64 query tiles on 284 places: four to five heads run at once, and their KV fits an L40S' L2."""
    attention = Attention(num_qo_heads=32, num_kv_heads=32, head_dim=256)
    batch = Batch.extend(q_lens=[8192], kv_lens=[8192])
    call = Call(attention, batch, machine("l40s"), resolve_knobs("flashinfer", None))
    plan = flashinfer.plan(call)
    running = call.work.kv_bytes * 2 * call.machine.sms / plan.unit_count
    assert running < 0.7 * call.machine.l2_bytes < call.work.kv_bytes
    assert plan.dram_bytes == call.work.bytes


def test_a_pair_of_ctas_shares_the_latents_of_128_heads():
    tiles, bytes_read = {}, {}
    for heads in (64, 128):
        call = Call(Attention.mla(num_qo_heads=heads), Batch.decode([8192] * 64, page_size=64), machine("b200"), {})
        plan = plan_of(STRUCTURES["trtllm_mla"], call)
        tiles[heads], bytes_read[heads] = plan.total_tiles, plan.total_tiles * plan.tile.bytes
    assert tiles[64] == tiles[128]
    assert bytes_read[64] == bytes_read[128]


@pytest.mark.parametrize(
    ("backend", "attention"), [("trtllm_mha", GQA), ("trtllm_mla", Attention.mla(num_qo_heads=64))]
)
def test_an_fp8_cache_takes_the_queries_to_fp8(backend, attention):
    seconds = []
    for dtype in ("bf16", "fp8_e4m3"):
        call = Call(replace(attention, kv_dtype=dtype), Batch.decode([8192] * 64, page_size=64), machine("b200"), {})
        seconds.append(plan_of(STRUCTURES[backend], call).tile.matrix_seconds)
    assert seconds[1] == pytest.approx(seconds[0] / 2)


def test_another_vendors_estimate_is_structure():
    batch = Batch.decode([4096] * 32)
    assert predict(GQA, batch, backend="triton", profile=device("mi300x")).evidence == "structure"
    assert predict(GQA, batch, backend="triton", profile=device("l40s")).evidence == "others"


def test_an_unknown_rate_is_bounded_by_half_of_fp8_or_a_quarter_of_fp4():
    gb10 = machine_of(load_profile("gb10"))
    assert gb10.matrix_rate("bf16") == gb10.matrix_flops_per_s["fp4"] / 4


TARGETS = {"h100": 0.12, "a100": 0.18, "l40s": 0.18, "b200": 0.18}
"""Largest median error on each device."""
COMPARED_LATER = ("gb300", "gb200", "rtx_pro_6000")
"""Devices that were compared when the rules were there."""
COVERAGE = 0.85


@pytest.fixture(scope="module")
def compared():
    return list(compare(read()[::8]))


@pytest.mark.parametrize("name", [*TARGETS, *COMPARED_LATER])
def test_devices_without_data(compared, name):
    """The device is left out whole: every parameter comes from an H200 or from structure."""
    cold = [each for each in compared if each.row.device == name and not each.warm]
    assert len(cold) > 60
    assert {each.evidence for each in cold} <= {"others", "structure"}
    assert statistics.median(each.error for each in cold) <= TARGETS.get(name, float("inf"))
    assert sum(each.covered for each in cold) / len(cold) >= COVERAGE
    assert statistics.median(each.error for each in cold) < statistics.median(each.roofline_error for each in cold)


def test_the_interval_covers_both_kinds_of_evidence(compared):
    covered = defaultdict(list)
    for each in compared:
        if not each.warm:
            covered[each.evidence].append(each.covered)
    assert set(covered) == {"others", "structure"}
    assert all(statistics.mean(values) >= COVERAGE for values in covered.values())


def test_the_table_has_a_line_for_each_kernel_and_device(compared):
    lines = table(compared).splitlines()
    assert sum(line.startswith("| **") for line in lines) == len(TARGETS) + len(COMPARED_LATER)
    assert any("`trtllm_mla` | sglang/0.5.14 | decode MLA" in line for line in lines)


def test_an_extract_is_read_as_it_was_written(tmp_path):
    rows = [Row("h100", "t/1", "k", "decode", mla, 2, 1, 9, 8, 4, 128, 128, "bf16", 0, 31.25) for mla in (True, False)]
    write(rows, tmp_path / "x.csv.xz")
    assert read(tmp_path / "x.csv.xz") == rows
