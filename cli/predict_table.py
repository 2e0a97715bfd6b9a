"""The table of `predict`: one row a backend and knob setting, fastest first."""

from collections.abc import Sequence

from rich.table import Table

from costmodel import Ranked


def predict_table(title: str, rows: Sequence[Ranked], free: dict[str, float]) -> Table:
    """Give the table; rows without an estimate are left out.

    Args:
        title: Its title.
        rows: The ranking.
        free: Seconds per backend where nothing has to be deterministic; empty outside that mode.
    """
    latent = any(row.prediction and row.prediction.mla_form for row in rows)
    table = Table(title=title, title_justify="left")
    for name in ("backend", "knobs", *(["MLA"] if latent else [])):
        table.add_column(name)
    for name in ("latency us", "90 % interval", *(["best otherwise us"] if free else []), "splits"):
        table.add_column(name, justify="right")
    for name in ("bound", "evidence"):
        table.add_column(name)
    for row in rows:
        p = row.prediction
        if p is None:
            continue
        knobs = " ".join(f"{name}={value}" for name, value in row.knobs.items()) or "default"
        cells = [row.backend, knobs, *([p.mla_form or ""] if latent else [])]
        cells += [f"{p.seconds * 1e6:.1f}", f"{p.low * 1e6:.1f}-{p.high * 1e6:.1f}"]
        cells += [_otherwise(row.backend, p.seconds, free)] if free else []
        table.add_row(*cells, str(p.num_splits), p.bound, p.evidence)
    return table


def cascade_verdict(rows: Sequence[Ranked]) -> str | None:
    """Say whether attending a shared prefix once pays; None where nothing can be compared."""
    cascade = next((row.prediction for row in rows if row.prediction and row.knobs.get("cascade")), None)
    plain = [row.prediction for row in rows if row.prediction and not row.knobs.get("cascade")]
    if cascade is None or not plain:
        return None
    read = min(p.seconds for p in plain)
    served = min(p.seconds if p.from_l2_seconds is None else p.from_l2_seconds for p in plain)
    if cascade.seconds < served:
        answer = "pays, even if the L2 serves the prefix"
    elif cascade.seconds < read:
        answer = "pays only if the L2 does not keep the prefix"
    else:
        answer = "does not pay"
    return (
        f"A cascade {answer}: {cascade.seconds * 1e6:.1f} us against {read * 1e6:.1f} us where every request reads the "
        f"prefix from DRAM, {served * 1e6:.1f} us at best from the L2"
    )


def _otherwise(backend: str, seconds: float, free: dict[str, float]) -> str:
    best = free.get(backend)
    return f"{best * 1e6:.1f} ({seconds / best:.2f}x)" if best else ""
