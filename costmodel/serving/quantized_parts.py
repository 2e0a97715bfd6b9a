"""Which parts of a model a quantisation leaves out or treats apart, by the module names that checkpoints use."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Literal

from costmodel.layer_group import Model

Part = Literal["attention", "linear", "dense", "shared", "experts"]

_MODULES: dict[Part, tuple[str, ...]] = {
    "attention": ("self_attn.o_proj", "attn.wo_b", "attention.o_proj", "mixer.o_proj"),
    "linear": ("linear_attn.out_proj", "mixer.out_proj", "mamba.out_proj", "self_attn.o_proj"),
    "dense": ("mlp.down_proj", "mixer.down_proj", "feed_forward.down_proj", "ffn.w2"),
    "shared": (
        "mlp.shared_experts.down_proj", "mlp.shared_expert.down_proj", "mixer.shared_experts.down_proj",
        "ffn.shared_experts.w2", "block_sparse_moe.shared_experts.down_proj", "feed_forward.shared_expert.down_proj",
    ),
    "experts": (
        "mlp.experts.0.down_proj", "mixer.experts.0.down_proj", "ffn.experts.0.w2", "block_sparse_moe.experts.0.w2",
        "feed_forward.experts.down_proj",
    ),
}  # fmt: skip
"""One matrix of each part, by the names of several families, inside a layer."""
LEFT_OUT = ("ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers")


def is_left_out(model: Model, part: Part) -> bool:
    """Whether the quantisation leaves a part as it was, judged by one matrix of a layer in the middle of the model."""
    patterns = [
        entry
        for name in LEFT_OUT
        if isinstance(model.quantization.get(name), list)
        for entry in model.quantization[name]
        if isinstance(entry, str)
    ]
    return any(_matches(pattern, name) for name in _names(model, part) for pattern in patterns)


def algorithm_of(model: Model, part: Part) -> str | None:
    """Give the algorithm that `quantized_layers` names for a part; None where it names none."""
    named = model.quantization.get("quantized_layers")
    if not isinstance(named, dict):
        return None
    algorithms = {_from_layer(key): value for key, value in named.items() if isinstance(value, dict)}
    for name in _names(model, part):
        pieces = name.split(".")
        for length in range(len(pieces), 2, -1):
            found = algorithms.get(".".join(pieces[:length]))
            if found is not None:
                return str(found.get("quant_algo") or "").upper()
    return None


def _names(model: Model, part: Part) -> Iterator[str]:
    layers = _layers(model, part)
    middle = layers[len(layers) // 2 :] if part in ("experts", "shared") else [layers[len(layers) // 2]]
    beside = part == "experts" and bool((model.text or model.raw).get("enable_moe_block"))
    for layer in middle[:4]:
        for module in ("experts.0.down_proj",) if beside else _MODULES[part]:
            yield f"layers.{layer}.{module}"


def _layers(model: Model, part: Part) -> list[int]:
    """Layers that may hold the part."""
    if part == "attention":
        return [i for group in model.layer_groups for i in group.layer_indices] or [0]
    kind = "linear" if part == "linear" else "feed_forward"
    return [i for i, mixer in enumerate(model.mixers) if mixer == kind] or list(range(model.num_layers))


def _matches(pattern: str, name: str) -> bool:
    if pattern.startswith("re:"):
        try:
            return re.match(pattern.removeprefix("re:"), f"model.{name}") is not None
        except re.error:
            return False
    if any(char in pattern for char in "*?["):
        return fnmatchcase(f"model.{name}", pattern) or fnmatchcase(name, _from_layer(pattern))
    return f".{_from_layer(pattern)}." in f".{name}."


def _from_layer(name: str) -> str:
    """Drop what comes before the layers, which families name differently."""
    start = name.find("layers.")
    return name[start:] if start > 0 else name
