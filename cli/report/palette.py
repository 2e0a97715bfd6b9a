"""Colours by name, for light and dark; a backend keeps its colour in every chart."""

PALETTE: dict[str, tuple[str, str]] = {
    "ink": ("#171a1f", "#e9ecf1"),
    "muted": ("#5a6472", "#9aa5b4"),
    "line": ("#dfe3e9", "#2c333d"),
    "page": ("#f6f7f9", "#0f1216"),
    "card": ("#ffffff", "#171b21"),
    "accent": ("#1f5fc4", "#76a6f7"),
    "fa3": ("#1f5fc4", "#76a6f7"),
    "flashinfer": ("#c2570c", "#f29a57"),
    "triton": ("#0b7d62", "#43c9a6"),
    "flashmla": ("#7548cf", "#ad92f2"),
    "trtllm_mha": ("#b0307a", "#ec86c0"),
    "attnroof_triton": ("#8a6a00", "#d9b746"),
    "fa4": ("#17789c", "#63c4ea"),
    "flex_attention": ("#a83a3a", "#ea8f8f"),
    "torch_native": ("#4d5f74", "#a5b7ca"),
    "other": ("#6b6259", "#b9aea3"),
    "memory": ("#1f5fc4", "#76a6f7"),
    "compute": ("#c2570c", "#f29a57"),
    "softmax": ("#7548cf", "#ad92f2"),
    "latency": ("#0b7d62", "#43c9a6"),
    "host": ("#b0307a", "#ec86c0"),
    "tiles": ("#1f5fc4", "#76a6f7"),
    "merge": ("#c2570c", "#f29a57"),
    "launch": ("#8b94a1", "#6c7684"),
}
"""Name to the light and the dark colour."""
INK_ON_CARD = ("ink", "muted", "accent")
"""Names that colour text."""
SYMBOLS = {"memory": "circle", "compute": "square", "softmax": "diamond", "latency": "triangle-up", "host": "cross"}
"""Bound to the shape of its points, so that colour is not all that tells them apart."""


def colour_of(backend: str) -> str:
    """Give the palette name of a backend."""
    return backend if backend in PALETTE else "other"


def css_variables(theme: int) -> str:
    """Write the palette as CSS custom properties; theme 0 is light, 1 dark."""
    return "".join(f"--{name}:{pair[theme]};" for name, pair in PALETTE.items())
