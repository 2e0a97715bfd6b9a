"""Finding the language model's part of a configuration that may nest it beside vision and audio."""

from typing import Any

from costmodel.errors import ConfigError
from costmodel.models.fields import short
from costmodel.models.quantization import QUANTIZATION_FIELDS

NESTED = (
    "text_config",
    "llm_config",
    "language_config",
    "language_model_config",
    "lm_config",
    "decoder_config",
    "model",
)
"""Where composite models keep their language model."""
WRAPPERS = ("thinker_config", "llm", "language_model", "text")
"""Objects that hold such a part one level further down."""
PARTS = tuple(name for name in (*NESTED, *WRAPPERS) if name.endswith("_config"))
OTHER_MODALITIES = ("vision_config", "audio_config", "vision_tower_config", "visual", "talker_config", "encoder_config")
HEAD_FIELDS = (
    "num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads", "decoder_attention_heads",
    "attention_heads", "hybrid_override_pattern", "layers_block_type", "kv_lora_rank",
)  # fmt: skip

TOKENIZER_FIELDS = ("tokenizer_class", "added_tokens_decoder", "added_tokens", "chat_template", "model_max_length")
GENERATION_FIELDS = ("temperature", "top_p", "top_k", "do_sample", "max_new_tokens")
PROCESSOR_FIELDS = ("image_processor_type", "processor_class", "feature_extractor_type", "image_mean")


def find_text_config(config: dict[str, Any], where: str) -> tuple[dict[str, Any], str]:
    """Give the object that describes the language model, and the path to it ('' at the top).

    Raises:
        ConfigError: The file describes something else; the message says what it looks like.
    """
    check_identity(config, where)
    nested = _nested(config)
    if nested is not None and (_describes_heads(nested[0]) or not _describes_heads(config)):
        part, path = nested
        top: dict[str, Any] = {
            k: config[k] for k in ("architectures", "torch_dtype", "dtype") if part.get(k) is None and k in config
        }
        return {**top, **part}, path
    if _describes_heads(config):
        return config, ""
    if isinstance(config.get("model_type"), str) and not _looks_like_another_file(config):
        return config, ""
    raise ConfigError(f"{where}: {_what_else(config)}")


def check_identity(part: dict[str, Any], where: str) -> None:
    """Check the fields that say what a configuration is; everything else hangs on them.

    Raises:
        ConfigError: A field is of another type than in any published file.
    """
    names, model_type = part.get("architectures"), part.get("model_type")
    if names is not None and not (isinstance(names, list) and all(_is_name(name) for name in names)):
        raise ConfigError(f"{where}: architectures={short(names)} must be a list of class names")
    if model_type is not None and not (model_type == "" or _is_name(model_type)):
        raise ConfigError(f"{where}: model_type={short(model_type)} must be a name")
    for name in (*PARTS, *QUANTIZATION_FIELDS):
        inner = part.get(name)
        if inner is not None and not isinstance(inner, dict):
            raise ConfigError(f"{where}: {name}={short(inner)} must be an object")
        if inner and name in PARTS:
            check_identity(inner, f"{where}: {name}")


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value.isprintable()


def _nested(config: dict[str, Any]) -> tuple[dict[str, Any], str] | None:
    for name in NESTED:
        part = config.get(name)
        if isinstance(part, dict) and (_describes_heads(part) or "model_type" in part or "hidden_size" in part):
            deeper = _nested(part)
            return (deeper[0], f"{name}.{deeper[1]}") if deeper and not _describes_heads(part) else (part, name)
    for name in WRAPPERS:
        part = config.get(name)
        if isinstance(part, dict):
            deeper = _nested(part)
            if deeper is not None:
                return deeper[0], f"{name}.{deeper[1]}"
            if _describes_heads(part):
                return part, name
    return None


def _describes_heads(part: dict[str, Any]) -> bool:
    return any(part.get(name) is not None for name in HEAD_FIELDS)


def _looks_like_another_file(config: dict[str, Any]) -> bool:
    return any(name in config for name in (*OTHER_MODALITIES, "added_tokens_decoder", "added_tokens"))


def _what_else(config: dict[str, Any]) -> str:
    if not config:
        return "is an empty object; give the model's config.json"
    if "adapter" in str(config.get("peft_type", "")).lower() or "peft_type" in config:
        return "is an adapter's configuration; give the base model's config.json"
    if any(name in config for name in ("added_tokens_decoder", "added_tokens")) or (
        "tokenizer_class" in config and not config.get("model_type")
    ):
        return (
            "is a tokenizer's configuration; give the model's config.json, not tokenizer_config.json or tokenizer.json"
        )
    if any(name in config for name in PROCESSOR_FIELDS):
        return "is a processor's configuration; give the model's config.json"
    if "weight_map" in config:
        return "is an index of weights; give the model's config.json"
    if any(name in config for name in OTHER_MODALITIES):
        return "describes vision or audio only; no language model with attention heads was found in it"
    if sum(name in config for name in GENERATION_FIELDS) >= 2:
        return "is a generation configuration; give the model's config.json"
    return "has no num_attention_heads (nor n_head, num_heads, num_query_heads) and no model_type; is it a config.json?"
