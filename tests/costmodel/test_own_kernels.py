"""The emulator of the project's own kernels against the kernels' own planner."""

from random import Random

import pytest

from costmodel import Attention, Batch, Incompatible, predict, tiles
from costmodel import call as call_module
from costmodel.backends.attnroof_tile import choose_tile
from costmodel.backends.attnroof_triton import plan
from costmodel.call import Call
from costmodel.knobs import resolve_knobs
from costmodel.machine import machine_of
from executors.kernels.schedule import make_schedule
from executors.kernels.tiling import HOPPER, default_tile, tile_of
from hwprofiles import load_profile

MACHINE = machine_of(load_profile("h200"))
LAYERS = {
    "gqa": Attention(32, 8, 128),
    "mha": Attention(16, 16, 64),
    "wide": Attention(16, 2, 256),
    "fp8": Attention(64, 8, 128, kv_dtype="fp8_e4m3"),
    "window": Attention(64, 8, 64, sliding_window=128, sinks=True),
    "mla": Attention.mla(128),
    "mla_fp8": Attention.mla(16, kv_dtype="fp8_e4m3"),
    "expanded": Attention.mla(16, form="expanded"),
}


def draw(random: Random) -> Batch:
    size = random.choice((1, 3, 16, 100))
    page = random.choice((1, 16, 64))
    longest = random.choice((300, 3000, 30000))
    if random.random() < 0.6:
        kv = [random.randint(longest // 4, longest) for _ in range(size)]
        return Batch.decode(kv if random.random() < 0.5 else [longest] * size, page_size=page)
    q = [random.randint(2, 400) for _ in range(size)]
    cached = random.choice((0, 1000))
    return Batch.extend(q, [n + cached for n in q], page_size=page)


@pytest.mark.parametrize("name", LAYERS)
def test_tile_splits_and_jobs_are_those_of_the_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "MOST_RUNS", 1 << 40)
    monkeypatch.setattr(call_module, "JOINED_STEPS", 1 << 20)
    attention, random = LAYERS[name], Random(name)
    for _ in range(30):
        batch = draw(random)
        if name == "expanded" and batch.q_lens != batch.kv_lens:
            continue
        asked = random.choice(({}, {}, {"num_splits": random.randint(1, 40)}, {"block_n": 64, "num_stages": 2}))
        call = Call(attention, batch, MACHINE, resolve_knobs("attnroof_triton", asked))
        tile = tile_of(attention, batch, asked, target=HOPPER)
        schedule = make_schedule(attention, batch, tile, asked.get("num_splits", 0), MACHINE.sms)
        ours, chosen = plan(call), choose_tile(call)
        assert (chosen.rows, chosen.keys, chosen.warps, chosen.stages) == (
            tile.block_m,
            tile.block_n,
            tile.num_warps,
            tile.num_stages,
        )
        assert (chosen.specialized, chosen.tma, chosen.gathered) == (
            tile.specialized,
            tile.tma,
            tile.source == "gather",
        )
        assert ours.num_splits == schedule.num_splits
        assert ours.job_count == len(schedule.work) * attention.num_kv_heads
        begin = schedule.work[:, 2] // tile.block_n
        steps = -(-schedule.work[:, 3] // tile.block_n) - begin
        assert ours.total_tiles == steps.sum() * attention.num_kv_heads


def test_default_tile_covers_the_cases_above() -> None:
    batch = Batch.decode([4096] * 4, page_size=64)
    chosen = {name: default_tile(layer, batch, target=HOPPER) for name, layer in LAYERS.items() if name != "expanded"}
    assert len(set(chosen.values())) >= 5


@pytest.mark.parametrize(
    ("attention", "gpu", "says"),
    [
        (Attention(8, 2, 128, kv_dtype="nvfp4"), "h200", "nvfp4"),
        (Attention(8, 2, 128, kv_dtype="fp16"), "h200", "fp16"),
        (Attention(8, 2, 128, dtype="fp8_e4m3", kv_dtype="fp8_e4m3"), "h200", "queries"),
        (Attention(8, 2, 100), "h200", "multiples of 8"),
        (Attention(8, 2, 128, v_head_dim=512), "h200", "512"),
        (Attention(8, 2, 128, kv_dtype="fp8_e4m3"), "a100", "8.9"),
    ],
)
def test_what_the_kernels_do_not_take_is_rejected(attention, gpu, says):
    with pytest.raises(Incompatible, match=says):
        predict(attention, Batch.decode([64] * 8, page_size=32), backend="attnroof_triton", profile=load_profile(gpu))
