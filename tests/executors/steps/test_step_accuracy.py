"""What the packaged steps say of the step model, and what the model's figures were fitted to."""

import statistics
from pathlib import Path

import pytest
from step_cases import PLAIN, shape_of

from costmodel import Batch, load_model
from executors.environment import detect
from executors.steps.accuracy import Compared, compare, table
from executors.steps.calibrate import FITTED_MODELS, calibration
from executors.steps.cases import Case
from executors.steps.measure import StepBench
from executors.steps.records import PartRecord, StepRecord, read_parts, read_steps, recorded_batch
from executors.steps.shape import StackShape, stack_model
from executors.steps.sums import PartTimes, sustained, switch_seconds
from hwprofiles import load_profile

MODELS = Path("examples/models")
TARGET = 0.06


@pytest.fixture(scope="module")
def compared() -> list[Compared]:
    return compare(read_steps(), MODELS)


def dense(rows: list[Compared]) -> list[Compared]:
    return [row for row in rows if "experts" not in row.step.parts]


def errors(rows: list[Compared]) -> list[float]:
    return [abs(row.error(row.predicted)) for row in rows]


def test_every_recorded_step_was_measured_and_is_compared(compared: list[Compared]) -> None:
    steps = read_steps()
    assert len(compared) == len(steps) >= 60
    assert {row.record.batch.phase for row in compared} == {"decode", "extend", "mixed"}
    assert {"fa3", "flashinfer", "triton", "flashmla"} <= {row.record.backend for row in compared}
    assert len(read_parts()) >= 150


def test_half_of_the_steps_are_predicted_within_the_target(compared: list[Compared]) -> None:
    assert statistics.median(errors(dense(compared))) <= TARGET


def test_steps_of_models_that_no_step_was_fitted_on_are_too(compared: list[Compared]) -> None:
    others = [row for row in dense(compared) if row.record.model not in FITTED_MODELS]
    assert len(others) >= 20
    assert statistics.median(errors(others)) <= TARGET


def test_the_table_has_a_row_for_each_model_and_phase(compared: list[Compared]) -> None:
    lines = table(compared).splitlines()
    kinds = {(row.record.model, row.record.batch.phase) for row in compared}
    assert len(lines) == 2 + len(kinds) + 2
    assert lines[-1].startswith(f"| all |  | {len(compared)} |")


def test_switching_is_what_steps_take_beyond_their_parts() -> None:
    model = stack_model(load_model(MODELS / "Llama-3.1-8B"), 3)
    shape, batch = StackShape(model), Batch.decode([100] * 8, page_size=64, layers=3)
    parts = [p for p in read_parts() if p.tokens == 8 and p.model == "Llama-3.1-8B"]
    times = PartTimes.of(parts)
    layer, ends = times.layer(shape, 8), times.ends(shape, 8)
    assert layer is not None
    assert ends is not None
    total = 3 * (sum(layer) + 20e-6) + sum(ends) + 0.5e-6 * (3 * (len(layer) + 1) + len(ends))
    fields = {"attention_us": 20.0, "latency_us": total * 1e6, "batch": recorded_batch(batch), "layers": 3}
    record = read_steps()[0].model_copy(update=fields)
    assert switch_seconds([(record, shape)], times) == pytest.approx(0.5e-6)
    with pytest.raises(ValueError, match="no decode step"):
        switch_seconds([(record, shape)], PartTimes.of(parts[:-2]))


def test_only_calls_that_long_runs_slow_down_get_a_factor() -> None:
    profile = load_profile("h200")
    shaped = [(r, StackShape(stack_model(load_model(MODELS / r.model)), r.tp)) for r in of_fitted_models()]
    found = sustained(shaped, profile)
    assert "fa3.decode" in found
    assert "flashinfer.decode" not in found
    slower = [(r.model_copy(update={"attention_us": 1.2 * (r.attention_us or 0)}), s) for r, s in shaped]
    again = sustained(slower, profile)
    assert again["fa3.decode"].slowdown > found["fa3.decode"].slowdown + 0.15
    assert "flashinfer.decode" in again


def of_fitted_models() -> list[StepRecord]:
    return [r for r in read_steps() if r.model in FITTED_MODELS]


def test_a_device_without_parts_cannot_be_fitted() -> None:
    with pytest.raises(ValueError, match="no parts of"):
        calibration(read_parts(), [], load_profile("a100"), "")


def test_a_bench_on_this_machine_gives_parts_that_could_be_fitted() -> None:
    parts: list[PartRecord] = list(StepBench(shape_of(PLAIN), detect("cpu")).parts(1, set()))
    times = PartTimes.of(parts)
    assert times.layer(shape_of(PLAIN), 1) is not None
    assert times.layer(shape_of(PLAIN), 2) is None
    step = StepBench(shape_of(PLAIN), detect("cpu")).step(Case("1q1s8", "torch_native", 4))
    assert step.attention_us is not None
