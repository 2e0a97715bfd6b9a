"""Steps and parts are measured on a device that is at hand, written, read back and packed."""

import json
import re
from pathlib import Path

import pytest
from step_cases import DECODE, EXPERTS, LATENT, NORMED, PLAIN, make_stack, shape_of

from executors.environment import detect
from executors.steps import __main__ as command
from executors.steps import cases, records
from executors.steps.cases import Case, ModelCases
from executors.steps.measure import StepBench
from executors.steps.parts import parts_of

SMALL = ModelCases("small", 1, (Case("3q1s20", "torch_native", 4), Case("q6s9_2q1s12", "torch_native", 4)), (1, 5, 8))


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "models" / "small").mkdir(parents=True)
    (tmp_path / "models" / "small" / "config.json").write_text(json.dumps(NORMED))
    monkeypatch.setattr(cases, "MODELS", (SMALL,))
    return tmp_path / "models"


def run(*words: object) -> int:
    return command.main([str(word) for word in words])


def test_a_run_leaves_steps_and_parts_that_can_be_read(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("run", "--models", models, "--device", "cpu", "--out", out, "--budget-seconds", 30) == 0
    steps, parts = records.read_steps(out), records.read_parts(out)
    assert [step.batch.phase for step in steps] == ["decode", "mixed"]
    for step in steps:
        assert step.outcome == "measured", step.reason
        assert 0 < (step.attention_us or 0) * step.layers < step.latency_us
        assert (step.layers, step.to_batch().layers, step.model) == (2, 2, "small")
        assert step.implementation == "torch"
    names = {"qkv", "o", "gate_up", "down", "head", "embed", "argmax", "add_norm", "gate", "rotate", "kv_write"}
    for tokens in (1, 8):
        assert {part.name for part in parts if part.tokens == tokens} == names
    assert {part.part for part in parts if part.tokens == 5} == {"gemm"}
    assert len({(part.part, part.n, part.k, part.tokens) for part in parts}) == len(parts)
    packed = tmp_path / "packed"
    assert run("pack", "--models", out, "--out", packed) == 0
    assert records.read_steps(packed) == steps
    assert records.read_parts(packed) == parts


def test_a_check_says_how_far_the_logits_are_off(models: Path, tmp_path: Path, capsys) -> None:
    assert run("check", "--models", models, "--device", "cpu", "--out", tmp_path) == 0
    said = capsys.readouterr().out
    assert said.count("right small") == 2
    assert len(records.read_steps(tmp_path / "checks")) == 2


def test_a_step_that_fails_leaves_its_reason(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = ModelCases("small", 1, (Case("2q1s20", "fa3", 4), SMALL.cases[0]), ())
    monkeypatch.setattr(cases, "MODELS", (broken,))
    assert run("run", "--models", models, "--device", "cpu", "--out", tmp_path) == 0
    failed, measured = records.read_steps(tmp_path)
    assert (failed.outcome, measured.outcome) == ("failed", "measured")
    assert re.search(r"flash_attn", failed.reason or "")


def test_without_time_nothing_is_measured(models: Path, tmp_path: Path) -> None:
    assert run("run", "--models", models, "--device", "cpu", "--out", tmp_path, "--budget-seconds", 0) == 0
    assert records.read_steps(tmp_path) == []


def test_unknown_models_and_devices_are_wrong_usage(models: Path, capsys) -> None:
    assert run("run", "--only", "large") == 2
    assert "'large' is not one of small" in capsys.readouterr().err
    assert run("run", "--models", models, "--device", "tpu") == 2


@pytest.mark.parametrize("config", [PLAIN, LATENT, EXPERTS])
def test_parts_have_the_sizes_of_the_models_products(config) -> None:
    shape = shape_of(config)
    bench = make_stack(shape, DECODE)
    found = {part.name: part for part in parts_of(shape, bench.weights, 4, "cpu")}
    for product in shape.weights.products:
        if product.name != "kv_b":
            assert (found[product.name].n, found[product.name].k) == (product.n, product.k)
    assert ("gate" in found) != ("experts" in found)
    for part in found.values():
        for layer in range(shape.layers):
            part.run(layer)


def test_a_rank_of_every_listed_model_has_a_shape_and_its_cases_run() -> None:
    from costmodel import load_model
    from executors.steps.shape import StackShape, stack_model

    for listed in cases.find(()):
        shape = StackShape(stack_model(load_model(f"examples/models/{listed.model}")), listed.tp)
        assert all(shape.runs(case.batch()) for case in listed.cases)
        assert len(set(listed.cases)) == len(listed.cases)


def test_the_same_seed_draws_the_same_stack() -> None:
    benches = [StepBench(shape_of(PLAIN), detect("cpu"), seed=seed) for seed in (4, 4, 5)]
    errors = [bench.checked(SMALL.cases[0]).max_error for bench in benches]
    assert errors[0] == errors[1] != errors[2]
