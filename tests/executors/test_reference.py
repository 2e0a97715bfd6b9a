"""The reference agrees with attention written as loops, for every mask and form, and finds what is wrong."""

import math
from dataclasses import replace

import pytest
import torch

from costmodel import Attention, Batch
from executors.compare import compare, same_bits
from executors.inputs import Inputs, make_inputs
from executors.reference import make_reference
from executors.rows import SAMPLED_ROWS, plan_rows

CASES = {
    "decode": (Attention(4, 2, 8), Batch.decode([5, 17], page_size=4)),
    "extend": (Attention(4, 2, 8), Batch.extend([4, 1], [9, 6], page_size=2)),
    "window": (Attention(2, 1, 8, sliding_window=3), Batch.extend([4, 2], [9, 2])),
    "chunk": (Attention(2, 1, 8, chunk_size=4), Batch.extend([6, 1], [9, 8])),
    "sinks": (Attention(4, 2, 8, sinks=True), Batch.decode([3, 6])),
    "soft cap": (Attention(2, 2, 8, logit_soft_cap=0.5), Batch.extend([3], [7])),
    "not causal": (Attention(2, 2, 8, causal=False), Batch.extend([3], [7])),
    "tree": (Attention(2, 1, 8), Batch.verify([8, 6], 4, topk=2)),
    "sparse": (Attention.sparse(Attention(2, 1, 8), top_k=2, block=2), Batch.extend([3], [9])),
    "lengths computed together": (Attention(4, 2, 8), Batch.decode([5, 7, 6, 4], page_size=4)),
    "trees computed together": (Attention(2, 1, 8), Batch.verify([7, 6, 5], 4, topk=2)),
    "not causal, together": (Attention(2, 2, 8, causal=False), Batch.extend([3, 3], [7, 5])),
    "latent": (Attention.mla(2, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=4), Batch.decode([5])),
    "fp8 cache": (Attention(2, 1, 8, kv_dtype="fp8_e4m3"), Batch.decode([9])),
}


def _sees(inputs: Inputs, request: int, row: int, key: int) -> bool:
    """Whether a query sees a key, said as plainly as it can be."""
    attention, batch = inputs.attention, inputs.batch
    q, kv = batch.q_lens[request], batch.kv_lens[request]
    position = kv - q + row
    if attention.causal and key > position:
        return False
    if attention.sliding_window is not None and key <= position - attention.sliding_window:
        return False
    if attention.chunk_size is not None and key // attention.chunk_size != position // attention.chunk_size:
        return False
    if inputs.tree_mask is not None:
        start = sum(a * b for a, b in zip(batch.q_lens[:request], batch.kv_lens[:request], strict=True))
        return bool(inputs.tree_mask[start + row * kv + key])
    if inputs.sparse_indices is not None:
        return key in inputs.sparse_indices[sum(batch.q_lens[:request]) + row].tolist()
    return True


def _loops(inputs: Inputs) -> torch.Tensor:
    attention, batch = inputs.attention, inputs.batch
    output = torch.zeros(batch.total_q, attention.num_qo_heads, attention.value_dim, dtype=torch.float64)
    token = 0
    for request, (q, kv) in enumerate(zip(batch.q_lens, batch.kv_lens, strict=True)):
        slots = inputs.token_slots[int(inputs.cu_kv[request]) :].tolist()
        for row in range(q):
            for head in range(attention.num_qo_heads):
                kv_head = head // attention.group_size
                weights, values = [], []
                for key in range(kv):
                    if not _sees(inputs, request, row, key):
                        continue
                    page, offset = divmod(slots[key], batch.page_size)
                    k = inputs.k_cache[0][page, offset, kv_head].double()
                    logit = float(inputs.q[token, head].double() @ k) * inputs.scale
                    if attention.logit_soft_cap:
                        logit = attention.logit_soft_cap * math.tanh(logit / attention.logit_soft_cap)
                    weights.append(math.exp(logit))
                    values.append(inputs.v_cache[0][page, offset, kv_head].double())
                total = sum(weights) + (math.exp(float(inputs.sinks[head])) if inputs.sinks is not None else 0.0)
                output[token, head] = sum(w * v for w, v in zip(weights, values, strict=True)) / total
            token += 1
    return output


@pytest.mark.parametrize("case", CASES)
def test_the_reference_agrees_with_attention_written_as_loops(case: str) -> None:
    inputs = make_inputs(*CASES[case], seed=4, slots=1)
    reference = make_reference(inputs)
    assert reference.precision == "float64"
    assert reference.fraction == 1.0
    expected = _loops(inputs)[reference.rows]
    assert torch.allclose(reference.output, expected, rtol=1e-11, atol=1e-13)


def test_two_keys_by_hand() -> None:
    """Logits 0 and ln 3 weigh the values 1 and 5 with 1/4 and 3/4: the answer is 4."""
    inputs = make_inputs(Attention(1, 1, 1, dtype="fp32", kv_dtype="fp32"), Batch.decode([2]), seed=0, slots=1)
    keys, values = inputs.k_cache[0].flatten(), inputs.v_cache[0].flatten()
    keys[inputs.token_slots] = torch.tensor([0.0, math.log(3.0)])
    values[inputs.token_slots] = torch.tensor([1.0, 5.0])
    inputs.q.fill_(1.0)
    assert float(make_reference(inputs).output) == pytest.approx(4.0, rel=1e-7)


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_a_missing_key_is_found(dtype: str) -> None:
    attention = Attention(8, 2, 32, dtype=dtype, kv_dtype=dtype)
    inputs = make_inputs(attention, Batch.decode([500, 400]), seed=0, slots=1)
    reference = make_reference(inputs)
    shorter = replace(inputs, batch=Batch.decode([499, 400]), token_slots=inputs.token_slots[torch.arange(900) != 499])
    wrong = make_reference(shorter).output.to(inputs.q.dtype)
    assert not compare(wrong, reference).correct
    assert compare(reference.output.to(inputs.q.dtype), reference).correct


def test_rows_over_many_keys_have_a_smaller_tolerance_than_rows_over_few() -> None:
    inputs = make_inputs(Attention(4, 2, 32), Batch.decode([2, 2000]), seed=0, slots=1)
    tolerance = dict(
        zip(*(t.tolist() for t in (make_reference(inputs).rows, make_reference(inputs).tolerance)), strict=True)
    )
    assert tolerance[1] < tolerance[0] / 4


def test_the_tolerance_follows_the_precision() -> None:
    def widest(dtype: str, kv_dtype: str) -> float:
        inputs = make_inputs(Attention(4, 2, 32, dtype=dtype, kv_dtype=kv_dtype), Batch.decode([300]), seed=0, slots=1)
        return float(make_reference(inputs).tolerance.max())

    assert widest("fp32", "fp32") < widest("fp16", "fp16") < widest("bf16", "bf16") < widest("bf16", "fp8_e4m3")


def test_nan_is_never_right_and_another_shape_is_an_error() -> None:
    inputs = make_inputs(*CASES["decode"], seed=0, slots=1)
    reference = make_reference(inputs)
    right = torch.zeros(2, 4, 8, dtype=torch.float64)
    right[reference.rows] = reference.output
    assert compare(right, reference).max_error == 0.0
    right[0, 0, 0] = float("nan")
    assert not compare(right, reference).correct
    with pytest.raises(ValueError, match=r"output has shape \[2, 4, 4\]"):
        compare(right[:, :, :4], reference)


def test_same_bits_tells_apart_what_equality_does_not() -> None:
    zero, nan = torch.zeros(2), torch.full((2,), float("nan"))
    assert same_bits(nan, nan.clone())
    assert not same_bits(zero, -zero)


def test_within_the_limit_all_rows_are_checked_and_beyond_it_a_sample_with_the_longest_request() -> None:
    attention, batch = Attention(8, 2, 64), Batch.extend([300, 2000, 10], [300, 9000, 10])
    everything = plan_rows(attention, batch, "cpu", seed=0, limit_seconds=1e9)
    assert everything.fraction == 1.0
    some = plan_rows(attention, batch, "cpu", seed=0, limit_seconds=1e-2)
    assert len(some.rows[1]) == SAMPLED_ROWS
    assert {0, 1999} <= set(some.rows[1])
    assert some.fraction < 0.2


def test_sampled_rows_have_the_values_of_the_full_reference() -> None:
    inputs = make_inputs(Attention(2, 1, 16), Batch.extend([200, 30], [300, 30]), seed=0, slots=1)
    full, part = make_reference(inputs), make_reference(inputs, limit_seconds=1e-4)
    assert len(part.rows) < len(full.rows) == 230
    whole = torch.zeros(230, 2, 16, dtype=torch.float64)
    whole[full.rows] = full.output
    assert torch.allclose(whole[part.rows], part.output, rtol=1e-12, atol=1e-14)
