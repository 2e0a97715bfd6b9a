"""Tables of a tuning run: what was predicted, what was measured, and what won."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from tuner.plan import PlannedWorkload
    from tuner.row import Row
    from tuner.tune import Result
    from tuner.workload import Workload

SHOWN = 5
"""Candidates shown for each workload, besides the default."""


def tuned_table(rows: "Sequence[tuple[Workload, Row]]") -> "Table":
    """Predicted, measured, error and winner, candidate by candidate."""
    from rich.table import Table

    table = Table(title="predicted / measured / error / winner, one layer's attention call", title_justify="left")
    table.add_column("workload and candidates", overflow="fold")
    for name in ("predicted us", "measured us", "error"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("winner", no_wrap=True)
    for workload, row in rows:
        table.add_row(f"{workload.batch.phase} {workload.spec}", style="bold")
        for name, *numbers in _lines(row):
            table.add_row(f"  {name}", *numbers)
        table.add_section()
    return table


def summary(result: "Result") -> list[str]:
    """Say what the table does not: counts, time, what went wrong."""
    lines = [f"{result.trials} trials in {result.seconds:.0f} s"]
    if result.recovered:
        lines.append(f"{result.recovered} unfinished trials of an earlier run were run again")
    for workload, row in result.rows:
        lines.append(f"{workload.spec}: {row.counts}; {_verdict(row)}")
        lines += [f"{workload.spec}: {note}" for note in row.notes]
        lines += [f"{workload.spec}: {_short(name)}: {_cut(why)}" for name, why in row.failures.items() if "[" in name]
    return lines + [f"left out: {text}" for text in result.left_out]


def commands(result: "Result", device: str) -> list[str]:
    """Commands that use the saved files."""
    first = _quoted(str(result.files[0])) if result.files else "FILE"
    return [
        f"attnroof validate --config {first} --device {device}",
        f"attnroof export --config {first} --format sglang",
        f"attnroof diff {first} OTHER.json",
    ]


def result_json(result: "Result", device: str) -> dict[str, Any]:
    """The run as one JSON document."""
    return {
        "device": device,
        "files": [str(path) for path in result.files],
        "trials": result.trials,
        "seconds": round(result.seconds, 3),
        "recovered": result.recovered,
        "left_out": list(result.left_out),
        "rows": [
            {"key": row.key, "spec": w.spec, "attention": w.key.split("/")[0], **row.model_dump(mode="json")}
            for w, row in result.rows
        ],
        "commands": commands(result, device),
    }


def _lines(row: "Row") -> list[tuple[str, str, str, str, str]]:
    from executors.outcome import Candidate

    default = row.sglang_default.candidate.key if row.sglang_default else None
    best = row.best.candidate.key
    if not row.tried:
        predicted = "" if row.best.predicted_us is None else f"{row.best.predicted_us:.1f}"
        return [(_short(Candidate(row.best.backend, row.best.knobs).key), predicted, "-", "-", row.status)]
    shown = [key for i, key in enumerate(row.tried) if i < SHOWN or key in (default, best)]
    out = []
    for key in shown:
        tried = row.tried[key]
        predicted = "-" if tried.predicted_us is None else f"{tried.predicted_us:.1f}"
        error = "-" if tried.predicted_us is None else f"{100 * (tried.predicted_us / tried.measured_us - 1):+.0f} %"
        role = " ".join(name for name, wanted in (("winner", best), ("default", default)) if wanted == key)
        out.append((_short(key), predicted, f"{tried.measured_us:.1f}", error, role))
    return out


def _verdict(row: "Row") -> str:
    if row.gain is None and row.own_gain is None:
        return row.status
    noise = "" if row.noise is None else f" +- {100 * row.noise:.1f} %"
    parts = [str(row.status)]
    if row.own_gain is not None:
        parts.append(f"the project's own kernels take {100 / row.own_gain:.0f} % of the default's time{noise}")
        noise = ""
    if row.gain is not None and row.gain != 1.0:
        parts.append(f"{row.gain:.2f} x the default{noise}")
    elif row.gain is not None:
        parts.append("no serving library beats the default by more than the noise")
    return ", ".join(parts)


def _short(key: str) -> str:
    """A candidate without the knobs that are at their default."""
    from costmodel.knobs import KNOBS

    backend, _, knobs = key.removesuffix("]").partition("[")
    defaults = {f"{spec.name}={spec.default}" for spec in KNOBS.get(backend, ())}
    return " ".join([backend, *(knob for knob in knobs.split(",") if knob and knob not in defaults)])


def _cut(text: str, width: int = 140) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 4]} ..."


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def plan_table(plan: "Sequence[PlannedWorkload]") -> "Table":
    """What would be run and how long it takes."""
    from rich.table import Table

    expected, most = sum(p.seconds for p in plan), sum(p.most_seconds for p in plan)
    title = f"plan: about {expected:.0f} s for the first candidates, at most {most:.0f} s for all that may win"
    table = Table(title=title, title_justify="left")
    table.add_column("workload", no_wrap=True)
    for name in ("candidates", "skipped", "first"):
        table.add_column(name, justify="right")
    table.add_column("model's favourite", overflow="fold")
    table.add_column("predicted us", justify="right")
    table.add_column("expected s", justify="right")
    for p in plan:
        predicted = "-" if p.prediction is None else f"{1e6 * p.prediction.seconds:.1f}"
        name = f"{p.workload.batch.phase} {p.workload.spec}"
        counts = (str(p.candidates), str(p.skipped), str(len(p.first)))
        table.add_row(name, *counts, _short(p.favourite.key), predicted, f"{p.seconds:.0f}-{p.most_seconds:.0f}")
    return table


def plan_json(plan: "Sequence[PlannedWorkload]") -> list[dict[str, Any]]:
    """The plan as JSON."""
    return [
        {
            "phase": p.workload.batch.phase,
            "spec": p.workload.spec,
            "candidates": p.candidates,
            "skipped": p.skipped,
            "first": [{"backend": c.backend, "knobs": dict(c.knobs)} for c in p.first],
            "favourite": {"backend": p.favourite.backend, "knobs": dict(p.favourite.knobs)},
            "predicted_us": None if p.prediction is None else 1e6 * p.prediction.seconds,
            "expected_seconds": p.seconds,
            "most_seconds": p.most_seconds,
        }
        for p in plan
    ]
