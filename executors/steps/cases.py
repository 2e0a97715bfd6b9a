"""The steps that are recorded: models at the sizes of one rank, batches in vLLM's grammar, and backends."""

from collections.abc import Sequence
from dataclasses import dataclass

from costmodel import Batch
from costmodel.batch_spec import parse_batch_spec

PAGE = 64
ALL = ("fa3", "flashinfer", "triton")


@dataclass(frozen=True, slots=True)
class Case:
    """One batch on one backend."""

    spec: str
    backend: str
    page_size: int = PAGE

    def batch(self) -> Batch:
        """Give the batch."""
        return parse_batch_spec(self.spec, page_size=self.page_size)


@dataclass(frozen=True, slots=True)
class ModelCases:
    """What is run of one model."""

    model: str
    """A folder of `examples/models`."""
    tp: int
    cases: tuple[Case, ...]
    tokens: tuple[int, ...]
    """Tokens that the parts are measured with."""
    layers: int | None = None
    """Fewer layers than the model has; None runs it whole."""


def _cases(specs: str, *backends: str, page_size: int = PAGE) -> tuple[Case, ...]:
    return tuple(Case(spec, backend, page_size) for spec in specs.split() for backend in backends)


DECODE_TOKENS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
TOKENS = (*DECODE_TOKENS, 384, 512, 768, 1024, 2048, 4096, 8192)

LLAMA_8B = ModelCases(
    "Llama-3.1-8B",
    1,
    _cases("1q1s2k 8q1s32k 32q1s4k 64q1s8k 128q1s1k 256q1s2k", *ALL)
    + _cases("q2k 2q512s2k_64q1s2k", *ALL)
    + _cases("q512 4q512 q8k q2ks18k q1k_31q1s4k", "fa3")
    + _cases("16q1s6k 100q1s3000", "fa3", page_size=1),
    TOKENS,
)
QWEN_8B = ModelCases(
    "Qwen3-8B",
    1,
    _cases("1q1s32k 8q1s1k 32q1s16k 64q1s2k 128q1s4k 256q1s1k", "fa3")
    + _cases("8q1s1k 64q1s2k 256q1s1k", "flashinfer", "triton")
    + _cases("q1k q4k q2ks10k q512_63q1s2k 20q1s700_7q1s9000", "fa3")
    + _cases("q1k q512_63q1s2k", "flashinfer"),
    TOKENS,
)
LLAMA_70B = ModelCases(
    "Llama-3.1-70B",
    8,
    _cases("1q1s8k 8q1s4k 32q1s32k 64q1s16k 128q1s8k 256q1s4k", "fa3")
    + _cases("8q1s4k 64q1s16k", "flashinfer", "triton")
    + _cases("q512 q2k q8k q4ks20k q1k_31q1s4k", "fa3")
    + _cases("q2k", "flashinfer"),
    TOKENS,
)
DEEPSEEK = ModelCases(
    "DeepSeek-V3",
    8,
    _cases("1q1s4k 8q1s8k 32q1s4k 64q1s8k 128q1s4k 256q1s2k", "flashmla")
    + _cases("8q1s8k 64q1s8k", "flashinfer", "triton"),
    DECODE_TOKENS,
)
"""Every layer with the dense MLP that the first three have."""

MIXTRAL = ModelCases(
    "Mixtral-8x7B-v0.1",
    2,
    _cases("1q1s2k 8q1s2k 32q1s4k 128q1s1k q512 q2k", "fa3"),
    (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048),
    layers=16,
)
MODELS = (LLAMA_8B, QWEN_8B, LLAMA_70B, DEEPSEEK, MIXTRAL)


def find(names: Sequence[str]) -> tuple[ModelCases, ...]:
    """Give the models of these names; none named gives all.

    Raises:
        ValueError: A name is unknown.
    """
    known = {cases.model: cases for cases in MODELS}
    for name in names:
        if name not in known:
            raise ValueError(f"model {name!r} is not one of {', '.join(known)}")
    return tuple(known[name] for name in names) if names else MODELS
