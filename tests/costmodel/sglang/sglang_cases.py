"""Models and shorthands that the tests of SGLang's rules share."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from costmodel import Model
from costmodel.sglang import SglangDecision, sglang_resolve
from hwprofiles import Profile, load_profile

DATA = Path(__file__).parents[2] / "data"

EAGLE_CHAIN = ("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3", "--speculative-eagle-topk", "1")
EAGLE_TREE = ("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3", "--speculative-eagle-topk", "4")

DENSE = {
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "torch_dtype": "bfloat16",
}
LATENT = {
    "model_type": "deepseek_v3",
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "torch_dtype": "bfloat16",
}

PROFILE_IDS = {"rtx4090": "nvidia-rtx-4090", "rtx5090": "nvidia-rtx-5090"}
"""Names in the recorded decisions that profiles spell otherwise."""


def model_of(architecture: str | None, /, **fields: Any) -> Model:
    """Make a model from an architecture and config.json fields alone."""
    raw = {**DENSE, **fields}
    if architecture is not None:
        raw["architectures"] = [architecture]
    return bare(raw)


def latent_of(architecture: str, /, **fields: Any) -> Model:
    """Make an MLA model."""
    return bare({**LATENT, **fields, "architectures": [architecture]})


def bare(raw: dict[str, Any]) -> Model:
    """Wrap a parsed config.json whose layers no test here reads."""
    return Model(
        name="test",
        architecture=str((raw.get("architectures") or [""])[0]),
        model_type=str(raw.get("model_type", "")),
        layer_groups=(),
        num_layers=0,
        layers_without_kv=0,
        kv_dtype="bf16",
        context_length=None,
        multimodal=False,
        hybrid_linear=False,
        unread=(),
        notes=(),
        raw=raw,
        quantization=raw.get("quantization_config") or {},
    )


@lru_cache(maxsize=64)
def published(name: str) -> Model:
    """Read a published config.json of the test data."""
    return bare(json.loads((DATA / "models" / name).read_text(encoding="utf-8")))


@lru_cache(maxsize=64)
def device(name: str) -> Profile:
    """Load a profile once."""
    return load_profile(PROFILE_IDS.get(name, name))


def resolve(model: Model, gpu: str, *args: str) -> SglangDecision:
    """Resolve with the newest rules."""
    return sglang_resolve(model, device(gpu), list(args))
