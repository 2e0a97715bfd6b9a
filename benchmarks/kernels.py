"""Time the project's Triton kernels against FA3, FlashInfer and FlashMLA on a Hopper GPU.

    PYTHONPATH=. python benchmarks/kernels.py [--only TEXT]... [--quick] [--out FILE.jsonl]

For each shape: the libraries, the kernels' own choice, other tiles and orders, and other split counts.
Variants compile in parallel beforehand. Times are per call inside a CUDA graph that rotates over copies of the KV.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from costmodel import Attention, Batch
from executors.kernels.form import Form
from executors.kernels.tiling import HOPPER, SHARED_BYTES, Tile, default_tile, shape_tile, shared_bytes

HOPPER_SMS = 132
LIBRARIES = ("fa3", "flashinfer", "flashmla")
SPLITS = (0, 1, 2, 3, 4, 6, 8, 16)
MIN_REPLAY_SECONDS = 400e-6
REPEATS = 5


@dataclass(frozen=True)
class Shape:
    name: str
    attention: Attention
    batch: Batch
    small: Batch
    """A batch that compiles the same code and fits a CPU."""


@dataclass(frozen=True)
class Variant:
    tile: Tile
    num_splits: int = 0
    label: str = ""


def shapes() -> Iterator[Shape]:
    gqa = Attention(32, 8, 128)
    for heads, size, kv in (
        (16, 1, 32768),
        (16, 16, 8192),
        (16, 64, 4096),
        (64, 64, 4096),
        (128, 32, 4096),
        (128, 128, 4096),
    ):
        yield _decode(f"mla h{heads} b{size} {kv} p64", Attention.mla(heads), [kv] * size, 64)
    ragged = [512 + 521 * (i % 31) for i in range(64)]
    yield _decode("mla h128 ragged p64", Attention.mla(128), ragged, 64)
    yield _decode("mla h16 b64 4096 p1", Attention.mla(16), [4096] * 64, 1)
    yield _decode("mla h128 b32 4096 p1", Attention.mla(128), [4096] * 32, 1)
    yield _decode("mla fp8 h16 b64 4096 p64", Attention.mla(16, kv_dtype="fp8_e4m3"), [4096] * 64, 64)
    chain = Batch.verify([4096] * 32, 4, page_size=64)
    yield Shape("mla verify h64 b32 4 of 4096 p64", Attention.mla(64), chain, Batch.verify([256], 4, page_size=64))
    for page in (1, 64):
        yield _decode(f"decode fp8 b64 8192 p{page}", Attention(32, 8, 128, kv_dtype="fp8_e4m3"), [8192] * 64, page)
    for count, length in ((1, 2048), (1, 4096), (1, 8192), (1, 16384), (8, 1024)):
        yield _prefill(f"prefill {count}x{length}", gqa, count, length)
    for dim in (64, 256):
        yield _prefill(f"prefill d{dim} 1x4096", Attention(32, 8, dim), 1, 4096)
    yield _prefill("prefill d192/128 1x4096", Attention.mla(16, form="expanded"), 1, 4096)
    for page in (1, 64):
        batch = Batch.extend([2048] * 2, [8192] * 2, page_size=page)
        yield Shape(f"extend 2x2048+6144 p{page}", gqa, batch, Batch.extend([256], [512], page_size=page))
    wide = Attention(32, 8, 256)
    yield Shape("extend d256 2x2048+2048 p1", wide, Batch.extend([2048] * 2, [4096] * 2), Batch.extend([256], [512]))
    for size, kv, page in (
        (1, 32768, 64),
        (4, 8192, 64),
        (16, 8192, 64),
        (32, 4096, 64),
        (64, 4096, 64),
        (128, 2048, 64),
        (16, 8192, 1),
        (64, 4096, 1),
    ):
        yield _decode(f"decode b{size} {kv} p{page}", gqa, [kv] * size, page)
    yield _decode("decode ragged p64", gqa, ragged, 64)
    yield _decode("decode d64 b32 8192 p64", Attention(64, 8, 64), [8192] * 32, 64)
    yield _decode("decode d256 b16 8192 p64", Attention(32, 8, 256), [8192] * 16, 64)


def _decode(name: str, attention: Attention, kv_lens: list[int], page: int) -> Shape:
    return Shape(name, attention, Batch.decode(kv_lens, page_size=page), Batch.decode([256], page_size=page))


def _prefill(name: str, attention: Attention, count: int, length: int) -> Shape:
    return Shape(name, attention, Batch.extend([length] * count, [length] * count), Batch.extend([256], [256]))


def variants(shape: Shape, quick: bool) -> list[Variant]:
    """List the own choice first, then other tiles and orders, each of a decode step with several splits."""
    attention, batch = shape.attention, shape.batch
    default = default_tile(attention, batch, target=HOPPER)
    found = [Variant(default, label="default")]
    if quick:
        return found
    form = Form.of(attention, batch)
    few_rows = max(batch.q_lens) * form.group < 64
    kv_bytes = 1.0 if form.widen else 2.0
    tiles = [default, *(shape_tile(attention, batch, s, target=HOPPER) for s in _sizes(form, few_rows))]
    if form.widen and not form.latent:
        tiles += [replace(tile, tma=not tile.tma) for tile in tiles if tile.source == "page"]
    if batch.phase == "extend":
        tiles += [replace(tile, heads_inner=True) for tile in tiles]
    for tile in dict.fromkeys(tiles):
        if shared_bytes(form, tile, kv_bytes) <= SHARED_BYTES:
            splits = SPLITS if batch.phase == "decode" else (0,)
            found += [Variant(tile, count) for count in splits]
    return list(dict.fromkeys(found))


def _sizes(form: Form, few_rows: bool) -> Iterator[tuple[int, int, int, int]]:
    if form.latent and few_rows:
        yield from ((16, 64, 8, 3), (16, 64, 8, 2), (16, 32, 4, 3), (16, 32, 4, 4), (16, 32, 4, 5))
    elif form.latent:
        yield from ((64, 64, 8, 2), (64, 32, 8, 3))
    elif few_rows and form.columns > 256:
        yield from ((16, 64, 4, 2), (16, 64, 4, 3), (16, 64, 8, 2), (16, 32, 4, 4))
    elif few_rows:
        yield from ((16, 64, 4, 4), (16, 128, 4, 3))
    elif form.columns > 256:
        yield from ((128, 64, 8, 2), (128, 32, 8, 3), (64, 64, 4, 2), (64, 64, 4, 3), (64, 64, 8, 2), (128, 128, 8, 2))
    else:
        yield from ((64, 64, 4, 2), (64, 64, 4, 4), (128, 64, 8, 3), (128, 128, 8, 3), (64, 128, 4, 3))


def compile_variant(task: tuple[Attention, Batch, Tile]) -> tuple[Tile, str | None]:
    """Compile one tile into Triton's cache in a process without a GPU; gives the error, if any."""
    import torch
    import triton
    from compile_kernels import _NoDevice

    from executors.inputs import make_inputs
    from executors.kernels.launch import Launcher

    attention, batch, tile = task
    triton.runtime.driver.set_active(_NoDevice())
    torch.set_num_threads(1)
    inputs = make_inputs(attention, batch, "cpu", seed=0, slots=1)
    launcher = Launcher(inputs, tile, 2, HOPPER_SMS, pdl=True)
    try:
        for call in launcher.calls(0, torch.empty_like(inputs.q[..., : attention.value_dim])):
            call.kernel.warmup(*call.arguments, grid=call.grid, **call.options)
    except Exception as error:  # a compiler's refusal is a result here
        return tile, f"{type(error).__name__}: {error}"[:200]
    return tile, None


def seconds_per_call(run: Callable[[int], object], slots: int) -> list[float]:
    """Time `run` inside a CUDA graph of enough calls, rotating over the KV copies."""
    import torch

    for slot in range(min(3, slots)):
        run(slot)
    torch.cuda.synchronize()
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for i in range(3):
        run(i % slots)
    stop.record()
    torch.cuda.synchronize()
    eager = start.elapsed_time(stop) / 3e3
    calls = max(slots, min(512, int(MIN_REPLAY_SECONDS / max(eager, 5e-6)) + 1))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            run(i % slots)
    graph.replay()
    times = []
    for _ in range(REPEATS):
        start.record()
        graph.replay()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) / 1e3 / calls)
    return times


def measure(shape: Shape, tried: list[Variant], errors: dict[Tile, str]) -> Iterator[dict[str, object]]:
    """Time the libraries and the variants on one shape."""
    import torch

    from executors.compare import compare
    from executors.inputs import make_inputs
    from executors.kernels.launch import Launcher
    from executors.reference import make_reference
    from executors.registry import get_backend
    from hwprofiles import load_profile

    inputs = make_inputs(shape.attention, shape.batch, "cuda:0", seed=1)
    reference = make_reference(inputs, limit_seconds=0.2)
    profile = load_profile("h200")
    row: dict[str, object]
    for name in LIBRARIES:
        location = {"fa3": "Fa3", "flashinfer": "FlashInfer", "flashmla": "FlashMla"}[name]
        row = {"shape": shape.name, "backend": name}
        try:
            backend = get_backend(f"executors.backends.{name}:{location}")
            reasons = backend.reject(shape.attention, shape.batch, profile)
            if reasons:
                continue
            run = backend.prepare(inputs, {}).run
            accuracy = compare(run(0), reference)
            yield row | {"us": _micro(seconds_per_call(run, inputs.slots)), "correct": accuracy.correct}
        except Exception as error:
            yield row | {"error": f"{type(error).__name__}: {error}"[:160]}
    for variant in tried:
        row = {"shape": shape.name, "backend": "attnroof_triton", "label": variant.label, "tile": asdict(variant.tile)}
        row["asked_splits"] = variant.num_splits
        if variant.tile in errors:
            yield row | {"error": errors[variant.tile]}
            continue
        try:
            launcher = Launcher(inputs, variant.tile, variant.num_splits, HOPPER_SMS, pdl=True)
            accuracy = compare(launcher.run(0), reference)
            times = seconds_per_call(launcher.run, inputs.slots)
            yield row | {
                "us": _micro(times),
                "splits": launcher.schedule.num_splits,
                "programs": len(launcher.schedule.work) * launcher.form.kv_heads,
                "correct": accuracy.correct,
                "error_over_tolerance": accuracy.max_error / accuracy.tolerance,
            }
        except Exception as error:
            yield row | {"error": f"{type(error).__name__}: {error}"[:160]}
    torch.cuda.empty_cache()


def _micro(times: list[float]) -> float:
    return round(statistics.median(times) * 1e6, 2)


def _line(row: dict[str, object]) -> str:
    tile = row.get("tile")
    what = ""
    if isinstance(tile, dict):
        named = (("kv_major", "T"), ("tma", "D"), ("heads_inner", "h"), ("specialized", "W"))
        flags = "".join(f if tile[n] else "-" for n, f in named)
        sizes = f"{tile['block_m']}x{tile['block_n']} w{tile['num_warps']} s{tile['num_stages']}"
        what = f"{sizes} {flags} splits {row.get('splits')}"
    state = "" if row.get("correct", True) else "  INCORRECT"
    return f"  {row['backend']:16} {what:36} {row.get('us', row.get('error'))}{state} {row.get('label', '')}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", help="Shapes whose name holds this text; may be repeated.")
    parser.add_argument("--quick", action="store_true", help="The own choice only.")
    parser.add_argument("--out", type=Path, help="Write every row as a JSON line.")
    options = parser.parse_args()
    started = time.perf_counter()
    chosen = [s for s in shapes() if any(text in s.name for text in options.only or [""])]
    tried = {s.name: variants(s, options.quick) for s in chosen}
    tasks = {(s.attention, s.small, v.tile) for s in chosen for v in tried[s.name]}
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        results = list(pool.map(compile_variant, tasks, chunksize=2))
    errors = {tile: error for tile, error in results if error}
    print(f"{len(tasks)} kernels compiled in {time.perf_counter() - started:.0f} s, {len(errors)} refused", flush=True)
    rows = []
    ratios: dict[str, float] = {}
    for shape in chosen:
        print(shape.name, flush=True)
        for row in measure(shape, tried[shape.name], errors):
            rows.append(row)
            print(_line(row), flush=True)
        own, best = _ratios(rows, shape.name)
        print(f"  ratio to the best library: default {own:.3f}, best {best:.3f}")
        ratios[shape.name] = own
    for kind in ("mla", "prefill", "extend", "decode"):
        of_kind = [r for name, r in ratios.items() if name.startswith(kind) and r == r]
        if of_kind:
            mean = statistics.geometric_mean(of_kind)
            print(f"{kind}: geometric mean {mean:.3f}, worst {max(of_kind):.3f} of {len(of_kind)} shapes at default")
    if options.out:
        options.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{time.perf_counter() - started:.0f} s in all")
    return 0


def _ratios(rows: list[dict[str, object]], name: str) -> tuple[float, float]:
    """Give the time of the own choice and of the best variant over that of the best library; NaN without one."""
    timed = [r for r in rows if r["shape"] == name and "us" in r and r["correct"]]
    library = [float(str(r["us"])) for r in timed if r["backend"] in LIBRARIES]
    own = {str(r["label"]): float(str(r["us"])) for r in reversed(timed) if r["backend"] == "attnroof_triton"}
    times = [float(str(r["us"])) for r in timed if r["backend"] == "attnroof_triton"]
    if not library or not times:
        return float("nan"), float("nan")
    return own.get("default", float("nan")) / min(library), min(times) / min(library)


if __name__ == "__main__":
    sys.exit(main())
