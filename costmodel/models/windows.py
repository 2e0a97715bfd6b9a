"""Which window or chunk limits what each attention layer sees."""

from dataclasses import dataclass

from costmodel.models.families import Family
from costmodel.models.fields import Fields
from costmodel.models.mixers import Mixer

WINDOW_FIELDS = (
    "sliding_window", "sliding_window_size", "attention_window_size", "interleaved_sliding_window", "window_size",
    "local_attn_window_size",
)  # fmt: skip
PATTERN_FIELDS = ("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers")


@dataclass(frozen=True, slots=True)
class Reach:
    """How far back a layer's queries see; both None means everything."""

    window: int | None = None
    chunk: int | None = None


FULL = Reach()


def layer_reaches(fields: Fields, family: Family, mixers: tuple[Mixer, ...]) -> tuple[Reach, ...]:
    """Give each layer's reach; layers that do not attend get `FULL`.

    Raises:
        ConfigError: A window or chunk is negative or missing where layers need it.
    """
    windows = _windows(fields, family, len(mixers))
    chunk = _chunk(fields, family, mixers)
    local = _local_layers(fields, family, mixers, windows)
    reaches: list[Reach] = []
    for i, mixer in enumerate(mixers):
        if mixer == "sliding" or (mixer == "attention" and local[i]):
            if windows[i] is None and fields.present(*WINDOW_FIELDS) is None:
                raise fields.error(f"layer {i} is sliding attention but there is no sliding_window")
            reaches.append(Reach(window=windows[i]))
        elif mixer == "chunked" or (mixer == "attention" and chunk is not None and not windows[i]):
            if mixer == "chunked" and chunk is None:
                raise fields.error(f"layer {i} is chunked attention but there is no attention_chunk_size")
            reaches.append(Reach(chunk=None if mixer == "attention" and _sees_all(fields, family, i) else chunk))
        else:
            reaches.append(FULL)
    return tuple(reaches)


def _windows(fields: Fields, family: Family, layers: int) -> list[int | None]:
    if family.window_by_flag and not fields.flag("use_sliding_window", False):
        fields.seen.update(WINDOW_FIELDS)
        return [None] * layers
    if fields.flag("use_sliding_window", True) is False:
        fields.seen.update(WINDOW_FIELDS)
        return [None] * layers
    blocks = _block_windows(fields, layers)
    if any(blocks):
        return blocks
    name = fields.present(*WINDOW_FIELDS) or WINDOW_FIELDS[0]
    value = fields.raw(*WINDOW_FIELDS)
    if isinstance(value, list):
        if not value:
            return [None] * layers
        cycle = [None if v is None else fields.checked(name, v, 0, 1 << 31) or None for v in value]
        return [cycle[i % len(cycle)] for i in range(layers)]
    window, context = fields.count(*WINDOW_FIELDS, low=0) or None, fields.count("max_position_embeddings")
    if window is not None and context is not None and window >= context:
        fields.remarks.append(f"{name}={window} is not below the context of {context} tokens: it hides nothing")
        window = None
    return [window] * layers


def _block_windows(fields: Fields, layers: int) -> list[int | None]:
    """Windows that block configurations give layer by layer."""
    windows: list[int | None] = [None] * layers
    for i, block in enumerate((fields.items("block_configs") or [])[:layers]):
        attention = block.get("attention") if isinstance(block, dict) else None
        if isinstance(attention, dict):
            part = Fields(attention, f"{fields.where}: block_configs[{i}]")
            windows[i] = part.count("window_length", "sliding_window", "window_size", low=0) or None
            if part.raw("num_sink_tokens", "sparsify"):
                fields.remarks.append(f"block_configs[{i}] keeps sink tokens or is sparsified, which is not read")
    return windows


def _chunk(fields: Fields, family: Family, mixers: tuple[Mixer, ...]) -> int | None:
    chunk = fields.count("attention_chunk_size", low=0) or None
    if chunk is None or "chunked" in mixers or family.chunk_every is not None:
        return chunk
    if fields.count("no_rope_layer_interval", low=0):
        return chunk
    return None


def _sees_all(fields: Fields, family: Family, layer: int) -> bool:
    ropes = fields.counts("no_rope_layers")
    if ropes:
        return layer < len(ropes) and ropes[layer] == 0
    every = fields.count("no_rope_layer_interval", low=0) or family.chunk_every
    if every is None:
        return False
    if not fields.present("no_rope_layer_interval"):
        fields.assumed["no_rope_layer_interval"] = every
    return (layer + 1) % every == 0


def _local_layers(fields: Fields, family: Family, mixers: tuple[Mixer, ...], windows: list[int | None]) -> list[bool]:
    layers = len(mixers)
    if "sliding" in mixers or not any(windows):
        fields.seen.update((*PATTERN_FIELDS, "max_window_layers"))
        return [False] * layers
    pattern = fields.raw(*PATTERN_FIELDS)
    if isinstance(pattern, str) and pattern:
        letters = [pattern[i % len(pattern)].upper() for i in range(layers)]
        if set(letters) - set("LGS"):
            raise fields.error(f"sliding_window_pattern={pattern!r} must be made of L (local) and G (global)")
        return [letter != "G" for letter in letters]
    if isinstance(pattern, list) and pattern:
        flags = fields.counts(*PATTERN_FIELDS, high=1) or []
        return [bool(flag) for flag in fields.per_layer("sliding_window_pattern", flags, layers)]
    if pattern is not None:
        return _all_but_every(fields.count(*PATTERN_FIELDS, low=0) or layers + 1, layers)
    if family.window_by_flag and fields.present("max_window_layers"):
        first = fields.count("max_window_layers", low=0) or 0
        return [i >= first for i in range(layers)]
    if family.window_every is not None:
        if "attention" in mixers:
            fields.assumed["sliding_window_pattern"] = family.window_every
        return _all_but_every(family.window_every, layers)
    return [windows[i] is not None for i in range(layers)]


def _all_but_every(every: int, layers: int) -> list[bool]:
    return [(i + 1) % every != 0 for i in range(layers)]
