"""A stack gives what an independent forward pass in float64 gives."""

import dataclasses
import itertools

import pytest
import torch
from step_cases import DECODE, EXPERTS, LATENT, MIXED, NORMED, PLAIN, PREFILL, make_stack, shape_of

from costmodel import load_model
from costmodel.errors import ConfigError
from executors.steps.reference import compare_with_reference
from executors.steps.shape import StackShape, stack_model

CASES = [
    *itertools.product((PLAIN, NORMED), (DECODE, PREFILL, MIXED)),
    (LATENT, DECODE),
    (EXPERTS, DECODE),
    (EXPERTS, MIXED),
]


@pytest.mark.parametrize(("config", "batch"), CASES, ids=lambda x: x["model_type"] if isinstance(x, dict) else x.phase)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_logits_are_those_of_a_float64_pass(config, batch, dtype):
    found = compare_with_reference(make_stack(shape_of(config, torch_dtype=dtype), batch))
    assert 0 < found.max_error <= found.tolerance
    assert found.tolerance < 0.5


@pytest.mark.parametrize("slots", [1, 2])
def test_layers_may_share_a_cache_in_time(slots):
    assert compare_with_reference(make_stack(shape_of(PLAIN), DECODE, slots=slots)).correct


def test_a_wrong_weight_is_seen():
    stack = make_stack(shape_of(PLAIN), DECODE)
    right = stack.logits()
    stack.weights.layers[1].mlp.down[3] += 0.5
    assert (stack.logits() - right).abs().max() > 100 * compare_with_reference(stack).tolerance


def test_a_stack_that_reads_other_pages_is_seen():
    stack = make_stack(shape_of(PLAIN), DECODE)
    stack.inputs = dataclasses.replace(stack.inputs, token_slots=stack.inputs.token_slots.flip(0))
    assert not compare_with_reference(stack).correct


def test_the_step_draws_the_likeliest_token():
    stack = make_stack(shape_of(PLAIN), PREFILL)
    assert torch.equal(stack.step(), stack.logits().argmax(-1))
    assert stack.step().shape == (2,)


def test_a_rank_holds_its_share():
    one, two = shape_of(PLAIN), shape_of(PLAIN, tp=2)
    assert (two.attention.num_qo_heads, two.attention.num_kv_heads) == (3, 1)
    assert two.product("down").k * 2 == one.product("down").k
    assert compare_with_reference(make_stack(two, PREFILL)).correct


def test_a_router_that_picks_the_worst_experts_is_seen():
    stack = make_stack(shape_of(EXPERTS), DECODE)
    route = stack.mlp.route
    stack.mlp.route = lambda x, layer: tuple(
        part.flip(1) if part.dtype.is_floating_point else (part + 1) % 8 for part in route(x, layer)
    )
    with pytest.raises(ValueError, match="not among its best"):
        compare_with_reference(stack)


def test_experts_are_left_out_by_name_only():
    deepseek = load_model("examples/models/DeepSeek-V3")
    with pytest.raises(ConfigError, match="all alike"):
        StackShape(deepseek, 8)
    shape = StackShape(stack_model(deepseek, 6), 8)
    assert (shape.layers, shape.product("gate_up").n) == (6, 2 * 18432 // 8)
    assert shape.runs(DECODE)
    assert not shape.runs(PREFILL)
