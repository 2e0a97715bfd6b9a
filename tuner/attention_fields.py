"""An attention shape as files store it: the fields that are not at their default."""

from dataclasses import fields
from typing import Any

from costmodel import Attention

_ALWAYS = frozenset({"num_qo_heads", "num_kv_heads", "head_dim", "dtype", "kv_dtype"})


def attention_fields(attention: Attention) -> dict[str, Any]:
    """Write an attention as a flat mapping from which `Attention(**mapping)` makes it again."""
    values = {f.name: (getattr(attention, f.name), f.default) for f in fields(attention)}
    return {name: value for name, (value, default) in values.items() if name in _ALWAYS or value != default}
