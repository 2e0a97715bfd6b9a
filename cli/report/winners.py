"""Who wins where: the model's winner over batch and length for each phase, with the measured winners on top."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import log2

import numpy as np

from cli.report.charts import Axis, Cell, GridChart, Series
from cli.report.palette import colour_of
from cli.report.source import Source, Workload
from cli.report.words import PHASE_NAMES, microseconds, percent, tokens
from costmodel import Attention, Batch, Incompatible, predict
from costmodel.sweep import sweep
from hwprofiles import Profile

SIZES: dict[str, Sequence[int]] = {
    "decode": tuple(2**k for k in range(9)),
    "extend": tuple(2**k for k in range(5)),
    "verify": tuple(2**k for k in range(8)),
}
LENS = {
    "decode": tuple(2**k for k in range(7, 18)),
    "extend": tuple(2**k for k in range(7, 16)),
    "verify": tuple(2**k for k in range(8, 17)),
}
DRAFT_TOKENS = 4
CLEAR = 0.3
"""Margin from which a field has its full colour."""
PAGE = 64


def winner_maps(source: Source) -> list[GridChart]:
    """Draw one map a shape and phase that was measured with more than one backend."""
    charts = []
    for shape, workloads in source.shapes.items():
        for phase in SIZES:
            own = [w for w in workloads if w.batch.phase == phase]
            backends = sorted({name for w in own for name in w.defaults})
            if len(backends) > 1:
                chart = _map(source.profile, (shape, phase), own, backends)
                if chart is not None:
                    charts.append(chart)
    return charts


def _map(
    profile: Profile, what: tuple[str, str], workloads: Sequence[Workload], backends: list[str]
) -> GridChart | None:
    shape, phase = what
    attention = workloads[0].attention
    pairs, times = _times(attention, profile, phase, backends)
    if not times:
        return None
    points = _measured(workloads, phase)
    cells = [_cell(pair, {name: float(own[i]) for name, own in times.items()}) for i, pair in enumerate(pairs)]
    shown = tuple(_quiet(cell, points) for cell in cells if cell is not None)
    owners = sorted({cell.owner for cell in shown})
    shares = ", ".join(f"{name} {percent(sum(c.owner == name for c in shown) / len(shown), 0)}" for name in owners)
    length = {"decode": "KV tokens of a request", "extend": "new tokens of a request", "verify": "KV tokens"}[phase]
    return GridChart(
        name=f"winners-{phase}",
        title=f"{PHASE_NAMES[phase].capitalize()}: fastest backend at default knobs",
        alt=f"{shape}, {PHASE_NAMES[phase]}: predicted winner over batch size and length: {shares}",
        x=Axis(length, ticks=tuple((log2(n), tokens(n)) for n in LENS[phase])),
        y=Axis("requests", ticks=tuple((log2(n), str(n)) for n in SIZES[phase])),
        cells=shown,
        points=points,
        tags={"shape": shape, "phase": phase},
    )


def _times(
    attention: Attention, profile: Profile, phase: str, backends: Iterable[str]
) -> tuple[list[tuple[int, int]], dict[str, Sequence[float]]]:
    memory = profile.require("memory_bytes")
    least = 1 if phase == "decode" else DRAFT_TOKENS
    pairs = [
        (n, length)
        for n in SIZES[phase]
        for length in LENS[phase]
        if n * length * attention.kv_bytes_per_token <= memory and length > least
    ]
    times: dict[str, Sequence[float]] = {}
    for backend in backends:
        try:
            if phase == "decode":
                times[backend] = sweep(attention, pairs, backend=backend, profile=profile, page_size=PAGE).tolist()
            else:
                times[backend] = [_seconds(attention, profile, phase, backend, pair) for pair in pairs]
        except Incompatible:
            continue
    return pairs, times


def _seconds(attention: Attention, profile: Profile, phase: str, backend: str, pair: tuple[int, int]) -> float:
    size, length = pair
    if phase == "extend":
        batch = Batch.extend([length] * size, [length] * size, page_size=PAGE)
    else:
        batch = Batch.verify([length] * size, DRAFT_TOKENS, page_size=PAGE)
    try:
        return predict(attention, batch, backend=backend, profile=profile).seconds
    except ValueError:
        return float(np.nan)


def _cell(pair: tuple[int, int], times: Mapping[str, float]) -> Cell | None:
    known = sorted((seconds, name) for name, seconds in times.items() if seconds == seconds)
    if not known:
        return None
    (best, owner), *others = known
    margin = others[0][0] / best if others else 1.0
    size, length = pair
    rest = "".join(f"<br>{name} {microseconds(seconds)}" for seconds, name in others)
    return Cell(
        x=log2(length),
        y=log2(size),
        owner=owner,
        strength=min(1.0, (margin - 1) / CLEAR),
        text=f"{margin:.2f}",
        hover=f"{size} × {tokens(length)}, predicted<br><b>{owner} {microseconds(best)}</b>{rest}",
    )


def _quiet(cell: Cell, points: Iterable[Series]) -> Cell:
    """Drop the number where a dot would lie on it."""
    spots = (spot for series in points for spot in zip(series.x, series.y, strict=True))
    covered = any(abs(x - cell.x) < 0.3 and abs(y - cell.y) < 0.45 for x, y in spots)
    return replace(cell, text="") if covered else cell


def _measured(workloads: Sequence[Workload], phase: str) -> tuple[Series, ...]:
    lows, highs = LENS[phase][0] / 1.4, LENS[phase][-1] * 1.4
    shown = []
    for w in workloads:
        plain = w.batch.uniform and (phase != "extend" or w.batch.q_lens == w.batch.kv_lens)
        inside = lows <= w.batch.kv_lens[0] <= highs and w.batch.size <= SIZES[phase][-1] * 1.4
        if plain and inside and len(w.defaults) > 1:
            shown.append(w)
    series = []
    for name in sorted({next(iter(w.defaults)) for w in shown}):
        own = [w for w in shown if next(iter(w.defaults)) == name]
        series.append(
            Series(
                name=f"measured: {name}",
                x=tuple(log2(w.batch.kv_lens[0]) for w in own),
                y=tuple(log2(w.batch.size) for w in own),
                colour=colour_of(name),
                hover=tuple(_hover(w) for w in own),
            )
        )
    return tuple(series)


def _hover(w: Workload) -> str:
    rows = list(w.defaults.values())
    lines = "".join(f"<br>{r.backend} {microseconds(r.measured)}" for r in rows[1:])
    head = f"{w.batch.size} × {w.batch.kv_lens[0]}, page {w.batch.page_size}, measured"
    return f"{head}<br><b>{rows[0].backend} {microseconds(rows[0].measured)}</b>{lines}"
