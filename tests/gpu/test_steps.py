"""A decoder stack gives on the GPU what a float64 pass gives, launched one by one and as one CUDA graph."""

import pytest

from costmodel import Batch
from costmodel.models import read_model
from executors.inputs import make_inputs
from executors.registry import get_backend
from executors.steps.reference import compare_with_reference
from executors.steps.shape import StackShape
from executors.steps.stack import Stack
from executors.steps.weights import make_weights

pytestmark = pytest.mark.gpu

CONFIG = {
    "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "torch_dtype": "bfloat16", "hidden_size": 1024,
    "intermediate_size": 2816, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 4,
    "head_dim": 128, "vocab_size": 4000, "max_position_embeddings": 8192, "tie_word_embeddings": False,
}  # fmt: skip
BATCHES = (Batch.decode([700, 64, 2050], page_size=64), Batch.extend([300, 1, 1], [420, 900, 65], page_size=64))


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: batch.phase)
@pytest.mark.parametrize("name", ["fa3", "flashinfer", "triton"])
def test_a_graph_of_the_stack_repeats_what_a_float64_pass_gives(name: str, batch: Batch) -> None:
    import torch

    if get_backend(name).implementation() is None:
        pytest.skip(f"{name} is not installed: {get_backend(name).install_hint}")
    shape = StackShape(read_model(CONFIG, name="made"))
    with torch.no_grad():
        inputs = make_inputs(shape.attention, batch, "cuda:0", seed=1, slots=2)
        prepared = get_backend(name).prepare(inputs, {})
        stack = Stack(shape, make_weights(shape, "cuda:0", seed=1), inputs, prepared)
        found = compare_with_reference(stack)
        assert found.max_error <= found.tolerance
        once = stack.logits()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            replayed = stack.logits()
        replayed.fill_(float("nan"))
        graph.replay()
        assert float((replayed - once).abs().max()) <= found.tolerance
