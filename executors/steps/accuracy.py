"""Recorded steps beside predicted ones, on the same parts."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from costmodel import load_model
from costmodel.serving import Deployment, Parallel, Step, StepModel
from executors.steps.records import StepRecord
from executors.steps.shape import stack_model
from hwprofiles import load_profile

LEFT_OUT = ("plan", "scheduler", "all_reduce")
"""Parts of a server's step that a recorded graph does not hold."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One recorded step with what the step model says of it."""

    record: StepRecord
    step: Step

    @property
    def measured(self) -> float:
        """Seconds of the recorded graph."""
        return (self.record.latency_us or 0.0) * 1e-6

    @property
    def predicted(self) -> float:
        """Seconds of the parts that the graph holds."""
        return sum(part.seconds for name, part in self.step.parts.items() if name not in LEFT_OUT)

    @property
    def with_recorded_attention(self) -> float:
        """The same with attention as it was recorded alone: what is left is the error of all other parts."""
        attention = (self.record.attention_us or 0.0) * 1e-6 * self.record.layers
        return self.predicted - self.step.attention.seconds + attention

    @property
    def inside(self) -> bool:
        """Whether the measurement lies in the interval of the parts."""
        parts = [part for name, part in self.step.parts.items() if name not in LEFT_OUT]
        return sum(p.low for p in parts) <= self.measured <= sum(p.high for p in parts)

    def error(self, seconds: float) -> float:
        """Relative error of a prediction, signed."""
        return seconds / self.measured - 1


def compare(records: Iterable[StepRecord], models: Path) -> list[Compared]:
    """Predict every measured step; `models` holds one folder with a config.json for each model."""
    return [Compared(r, _model(r, models).of(r.to_batch())) for r in records if r.outcome == "measured"]


def table(compared: Sequence[Compared]) -> str:
    """Write errors by model and phase as a Markdown table."""
    groups: defaultdict[tuple[str, str], list[Compared]] = defaultdict(list)
    for row in compared:
        name = row.record.model if row.record.tp == 1 else f"{row.record.model}, 1 of {row.record.tp} ranks"
        groups[(name, row.record.batch.phase)].append(row)
    lines = [
        "| model | phase | steps | ms | median error | p90 | worst | median with recorded attention |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [_line(model, phase, rows) for (model, phase), rows in groups.items()]
    dense = [row for row in compared if "experts" not in row.step.parts]
    return "\n".join([*lines, _line("all with a dense MLP", "", dense), _line("all", "", compared)]) + "\n"


def _line(model: str, phase: str, rows: Sequence[Compared]) -> str:
    errors = sorted(abs(row.error(row.predicted)) for row in rows)
    others = [abs(row.error(row.with_recorded_attention)) for row in rows]
    times = [1e3 * row.measured for row in rows]
    figures = (statistics.median(errors), errors[round(0.9 * (len(errors) - 1))], errors[-1], statistics.median(others))
    shown = " | ".join(f"{100 * value:.1f} %" for value in figures)
    return f"| {model} | {phase} | {len(rows)} | {min(times):.1f}–{max(times):.1f} | {shown} |"


def _model(record: StepRecord, models: Path) -> StepModel:
    kind = (record.model, record.layers, record.device.name, record.tp, record.batch.page_size)
    return _models(models, record.backend, *kind)


@cache
def _models(folder: Path, backend: str, name: str, layers: int, device: str, tp: int, page_size: int) -> StepModel:
    model = stack_model(load_model(folder / name), layers)
    return StepModel(Deployment(model, load_profile(device), backend, backend, Parallel(tp), page_size))
