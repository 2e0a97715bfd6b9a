"""The name of a tuned configuration, in the manner of SGLang's and vLLM's tuned files."""

import re

from costmodel import Attention
from costmodel.record import RecordedDevice


def configuration_name(device: RecordedDevice, attention: Attention, page_size: int = 1) -> str:
    """Name the file; optional parts appear only where they are not the default, heads are per rank."""
    a = attention
    parts: list[tuple[str, object]] = [
        ("device_name", slug(device.name)),
        ("family", a.family),
        ("qo", a.num_qo_heads),
        ("kv", a.num_kv_heads),
        ("hd", a.head_dim),
        ("vd", a.value_dim if a.value_dim != a.head_dim else None),
        ("window", a.sliding_window),
        ("chunk", a.chunk_size),
        ("sinks", 1 if a.sinks else None),
        ("softcap", None if a.logit_soft_cap is None else f"{a.logit_soft_cap:g}"),
        ("topk", a.top_k),
        ("block", a.block if a.block > 1 else None),
        ("causal", None if a.causal else 0),
        ("form", a.form if a.form == "expanded" else None),
        ("page", page_size if page_size > 1 else None),
        ("dtype", a.dtype),
        ("kv_dtype", "auto" if a.kv_dtype == a.dtype else a.kv_dtype),
    ]
    return ",".join(["attn", *(f"{name}={value}" for name, value in parts if value is not None)]) + ".json"


def slug(name: str) -> str:
    """A device name as it stands in file names: anything that is not a letter, digit, dot or dash becomes `_`."""
    return re.sub(r"[^A-Za-z0-9.\-]+", "_", name).strip("_")
