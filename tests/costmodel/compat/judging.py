"""Shorthands for asking the judge."""

from functools import cache
from pathlib import Path
from typing import Any

from costmodel import Model, load_model
from costmodel.compat import Judgement, Options, Row, judge
from costmodel.models import read_model
from hwprofiles import Profile, load_profile

MODELS = Path(__file__).parents[2] / "data" / "models"
RUNS = frozenset({"compatible", "rewritten"})
ORDER = ("compatible", "rewritten", "unknown", "incompatible")


@cache
def published(name: str) -> Model:
    return load_model(MODELS / f"{name}.json")


@cache
def device(name: str) -> Profile:
    return load_profile(name)


def made(**fields: Any) -> Model:
    """A plain grouped-query model with some fields of its own."""
    base = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 4096,
        "num_hidden_layers": 2,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "torch_dtype": "bfloat16",
    }
    return read_model(base | fields, name="made")


def judged(model: Model | str, gpu: str, **options: Any) -> Judgement:
    return judge(published(model) if isinstance(model, str) else model, device(gpu), Options(**options))


def rows(judgement: Judgement, backend: str, phase: str = "decode") -> list[Row]:
    return [r for r in (*judgement.rows, *judgement.extra) if r.backend == backend and r.phase == phase]


def verdict(judgement: Judgement, backend: str, phase: str = "decode") -> str:
    """The worst verdict over the layer groups: one backend serves them all."""
    return max((row.verdict for row in rows(judgement, backend, phase)), key=ORDER.index)


def reasons(judgement: Judgement, backend: str, phase: str = "decode") -> str:
    return "; ".join(reason for row in rows(judgement, backend, phase) for reason in row.reasons)


def running(judgement: Judgement, phase: str = "decode") -> set[str]:
    names = {row.backend for row in judgement.rows}
    return {name for name in names if verdict(judgement, name, phase) in RUNS}
