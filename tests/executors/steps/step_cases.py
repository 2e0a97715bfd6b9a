"""Small decoders and prepared stacks for the tests of whole steps."""

from costmodel import Batch
from costmodel.models import read_model
from executors.inputs import make_inputs
from executors.registry import get_backend
from executors.steps.shape import StackShape
from executors.steps.stack import Stack
from executors.steps.weights import make_weights

PLAIN = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "torch_dtype": "float32", "hidden_size": 96,
    "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
    "head_dim": 16, "vocab_size": 120, "max_position_embeddings": 512, "tie_word_embeddings": False,
}  # fmt: skip
NORMED = {**PLAIN, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
LATENT = {
    **PLAIN, "model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "num_key_value_heads": 6,
    "q_lora_rank": 48, "kv_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16,
}  # fmt: skip
EXPERTS = {
    **PLAIN, "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_experts": 8,
    "num_experts_per_tok": 2, "moe_intermediate_size": 64, "norm_topk_prob": True, "decoder_sparse_step": 1,
}  # fmt: skip
DECODE = Batch.decode([5, 17, 33], page_size=8)
PREFILL = Batch.extend([7, 12], [7, 30], page_size=8)
MIXED = Batch.extend([9, 1, 1], [20, 12, 5], page_size=8)


def shape_of(config: dict, tp: int = 1, **changed: object) -> StackShape:
    return StackShape(read_model({**config, **changed}, name="made"), tp)


def make_stack(shape: StackShape, batch: Batch, seed: int = 3, slots: int | None = None) -> Stack:
    inputs = make_inputs(shape.attention, batch, "cpu", seed=seed, slots=slots or shape.layers)
    prepared = get_backend("torch_native").prepare(inputs, {})
    return Stack(shape, make_weights(shape, "cpu", seed=seed), inputs, prepared, seed=seed)
