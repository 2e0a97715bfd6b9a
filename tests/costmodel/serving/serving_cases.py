"""Models, devices and servers for the tests of serving."""

from functools import cache
from pathlib import Path

from costmodel import Model, load_model
from costmodel.models import read_model
from costmodel.serving import Asked, Memory, Parallel, StepModel, memory_of
from hwprofiles import Profile, load_profile

MODELS = Path(__file__).parents[3] / "examples" / "models"

PLAIN = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16", "hidden_size": 1024,
    "intermediate_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2,
    "head_dim": 128, "vocab_size": 1000, "max_position_embeddings": 8192, "tie_word_embeddings": False,
}  # fmt: skip


def model(name: str = "Llama-3.1-8B") -> Model:
    return _load(name)


@cache
def _load(name: str) -> Model:
    return load_model(MODELS / name)


@cache
def device(name: str = "h200") -> Profile:
    return load_profile(name)


def made(**fields: object) -> Model:
    """A small Llama with changed fields; None takes a field out."""
    config = {key: value for key, value in {**PLAIN, **fields}.items() if value is not None}
    return read_model(config, name="made")


def asked(name: str = "Llama-3.1-8B", gpu: str = "h200", tp: int = 1) -> Asked:
    return Asked(model(name), device(gpu), Parallel(tp))


@cache
def steps(prefill: str = "fa3", decode: str = "fa3", name: str = "Llama-3.1-8B", tp: int = 1) -> StepModel:
    return StepModel(asked(name, tp=tp).deployment(prefill, decode, 1))


def memory(of: StepModel) -> Memory:
    return memory_of(of.deployment, of.weights)


class FixedSteps:
    """A lookup whose steps take round times: prefill 1 ms a token, decode 10 ms."""

    def __init__(self) -> None:
        self.prefills: list[int] = []
        self.batches: list[int] = []

    def extend(self, tokens: int, quadratic: float, weighted_kv: float, sampled: int) -> float:
        self.prefills.append(tokens)
        return 1e-3 * tokens

    def decode(self, batch: int, mean_kv_len: float) -> float:
        self.batches.append(batch)
        return 10e-3

    def verify(self, batch: int, mean_kv_len: float, draft_tokens: int) -> float:
        return 20e-3

    def decode_attention(self, batch: int, mean_kv_len: float) -> float:
        return 1e-3

    def dense_extra(self, tokens: int, further: int) -> float:
        return 1e-3
