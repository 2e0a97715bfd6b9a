"""`load_model`: a config.json as layer groups."""

from pathlib import Path
from typing import Any

from costmodel.errors import ConfigError
from costmodel.layer_group import Model
from costmodel.models.families import UNKNOWN, Family, class_defaults, family_of_architecture, find_family
from costmodel.models.fields import Fields
from costmodel.models.grouping import group_layers
from costmodel.models.layers import Dtypes, attention_layers
from costmodel.models.mixers import Mixer, layer_mixers
from costmodel.models.quantization import activation_dtype, kv_cache_dtype, read_quantization
from costmodel.models.source import find_config, read_object
from costmodel.models.text_config import OTHER_MODALITIES, find_text_config
from costmodel.models.unread import unread_fields

CONTEXT = (
    "max_position_embeddings", "max_sequence_length", "seq_length", "n_positions", "max_seq_len", "n_ctx",
    "max_context_length", "max_target_positions", "model_max_length",
)  # fmt: skip
MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "num_mtp_layers")


def load_model(path: str | Path) -> Model:
    """Read a Hugging Face config.json, or the folder that holds it, as attention layer groups before TP.

    Args:
        path: The file or folder; a hf_quant_config.json beside it is read too.

    Raises:
        ConfigError: It cannot be read as a language model's configuration; the message says what to do.
    """
    file = find_config(path)
    name = file.resolve().parent.name if file.name == "config.json" else file.stem
    printable = "".join(char if char.isprintable() else "?" for char in name)
    return read_model(read_object(file), name=printable, where=str(path), file=file)


def read_model(config: dict[str, Any], *, name: str, where: str = "config.json", file: Path | None = None) -> Model:
    """Read a parsed config.json.

    Args:
        config: The JSON object.
        name: What the model is called in output.
        where: What messages call the file.
        file: Where it was read from, for the hf_quant_config.json beside it.

    Raises:
        ConfigError: See `load_model`.
    """
    text, inside = find_text_config(config, where)
    model_type = _text(text, "model_type") or _text(config, "model_type")
    family = _family(text, config)
    defaults = class_defaults(_text(text, "model_type"), family, nested=bool(inside))
    fields = Fields(text, f"{where}: {inside}" if inside else where, defaults)
    if family.attention_free:
        raise ConfigError(f"{where}: {model_type} has no attention layers; there is no KV cache to judge")
    if family.encoder:
        raise ConfigError(f"{where}: {model_type} is an encoder and keeps no KV cache; there is no decoding to judge")
    notes: list[str] = []
    unread: list[str] = []
    mixers = layer_mixers(fields, family)
    quantization = read_quantization(config, text, file)
    dtype = activation_dtype(fields, family, notes)
    kv_dtype = kv_cache_dtype(quantization, dtype, notes, unread)
    layers = attention_layers(fields, family, mixers, Dtypes(dtype, kv_dtype))
    if not layers:
        raise ConfigError(f"{where}: none of its {len(mixers)} layers attends to a KV cache; nothing to judge")
    mtp = fields.count(*MTP, low=0) or 0
    dual_chunk = isinstance(fields.raw("dual_chunk_attention_config"), dict)
    context = fields.count(*CONTEXT)
    notes += fields.remarks + _assumptions(fields) + _remarks(mixers, mtp, dual_chunk, quantization)
    if family is UNKNOWN:
        unread.append(f"model_type {model_type!r} is not known to this tool; its fields were read by their usual names")
    return Model(
        name=name,
        architecture=_architecture(config) or _architecture(text),
        model_type=model_type,
        layer_groups=group_layers(layers),
        num_layers=len(mixers),
        layers_without_kv=sum(mixer in ("linear", "noop") for mixer in mixers),
        kv_dtype=kv_dtype,
        context_length=context,
        multimodal=_multimodal(config, inside),
        hybrid_linear=family.parallel_linear or "linear" in mixers,
        unread=tuple(unread + unread_fields(fields)),
        notes=tuple(notes),
        raw=config,
        quantization=quantization,
        text=text,
        dtype=dtype,
        mtp_layers=mtp,
        dual_chunk=dual_chunk,
        mixers=mixers,
        parallel_linear=family.parallel_linear,
    )


def _family(text: dict[str, Any], config: dict[str, Any]) -> Family:
    for part in (text, config):
        family = find_family(_text(part, "model_type"))
        if family is not UNKNOWN:
            return family
    named = family_of_architecture(_architecture(text))
    return family_of_architecture(_architecture(config)) if named is UNKNOWN else named


def _text(part: dict[str, Any], name: str) -> str:
    value = part.get(name)
    return value if isinstance(value, str) else ""


def _architecture(config: dict[str, Any]) -> str:
    names = config.get("architectures")
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""


def _multimodal(config: dict[str, Any], inside: str) -> bool:
    if any(isinstance(config.get(part), dict) for part in OTHER_MODALITIES):
        return True
    return "thinker_config" in inside or (bool(inside) and "ForConditionalGeneration" in _architecture(config))


def _assumptions(fields: Fields) -> list[str]:
    default = "is the model class's default; the file leaves it out"
    return [f"{name}={value!r} {default}" for name, value in fields.assumed.items()]  # fmt: skip


def _remarks(mixers: tuple[Mixer, ...], mtp: int, dual_chunk: bool, quantization: dict[str, Any]) -> list[str]:
    remarks: list[str] = []
    noops = mixers.count("noop")
    if noops:
        remarks.append(f"{noops} layers have no attention at all")
    if mtp:
        remarks.append(f"{mtp} multi-token-prediction layers come on top and are not counted here")
    if dual_chunk:
        remarks.append("dual_chunk_attention_config: long prompts attend in two chunks, which one backend implements")
    if not quantization:
        remarks.append(
            "no quantisation is declared; an hf_quant_config.json, if the model has one, belongs beside this file"
        )
    return remarks
