"""Numbers and workloads as people read them."""

from costmodel import Attention, Batch, Knobs
from costmodel.knobs import KNOBS

PHASE_NAMES = {"decode": "decode", "extend": "prefill", "verify": "verify", "mixed": "mixed"}


def shape_name(a: Attention) -> str:
    """Name an attention shape: `GQA 32/8, head 128`."""
    dims = f"{a.head_dim}" if a.value_dim == a.head_dim else f"{a.head_dim}/{a.value_dim}"
    parts = [f"{a.family.upper()} {a.num_qo_heads}/{a.num_kv_heads}", f"head {dims}"]
    if a.dtype != "bf16":
        parts.append(a.dtype)
    if a.kv_dtype != a.dtype:
        parts.append(f"{a.kv_dtype} KV")
    if a.sliding_window is not None:
        parts.append(f"window {a.sliding_window}")
    if a.chunk_size is not None:
        parts.append(f"chunk {a.chunk_size}")
    if a.top_k is not None:
        parts.append(f"top {a.top_k}")
    if a.sinks:
        parts.append("sinks")
    if a.logit_soft_cap is not None:
        parts.append(f"soft cap {a.logit_soft_cap:g}")
    if not a.causal:
        parts.append("not causal")
    return ", ".join(parts)


def batch_name(b: Batch) -> str:
    """Name a batch: `8 requests x 4k`, `2 x 2k new of 18k`."""
    kv = tokens(max(b.kv_lens)) if b.uniform else f"up to {tokens(max(b.kv_lens))}"
    if b.phase == "decode":
        return f"{b.size} × {kv}"
    new = tokens(max(b.q_lens)) if b.uniform else f"up to {tokens(max(b.q_lens))}"
    return f"{b.size} × {new}" if b.q_lens == b.kv_lens else f"{b.size} × {new} of {kv}"


def count_of(n: int, word: str, words: str = "") -> str:
    """Write `1 split` or `3 splits`."""
    return f"{n:,} {word}" if n == 1 else f"{n:,} {words or word + 's'}"


def tokens(n: float) -> str:
    """Write a token count: 4096 as `4k`, 1500 as `1500`."""
    return f"{n / 1024:.0f}k" if n >= 1024 and n % 1024 == 0 else f"{n:.0f}"


def microseconds(seconds: float) -> str:
    """Write a time with three digits: `13.3 µs`, `1.57 ms`."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def percent(share: float, digits: int = 1) -> str:
    """Write a share as per cent."""
    return f"{100 * share:.{digits}f} %"


def knob_text(backend: str, knobs: Knobs) -> str:
    """Write the knobs that are not at their default: `num_splits=8`; empty for defaults."""
    defaults = {spec.name: spec.default for spec in KNOBS.get(backend, ())}
    changed = [f"{k}={v}" for k, v in knobs.items() if k not in defaults or v != defaults[k]]
    return " ".join(changed)


def at_defaults(backend: str, knobs: Knobs) -> bool:
    """Whether every knob has the value that the backend takes by itself."""
    return not knob_text(backend, knobs)
