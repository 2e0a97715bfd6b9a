"""What runs when nothing is tuned: the backends that SGLang chooses by itself."""

from collections.abc import Callable

from costmodel import Model, sglang_resolve
from hwprofiles import Profile

Defaults = Callable[[str], tuple[str, ...]]
"""Phase to backends, first choice first."""


def engine_defaults(
    model: Model, profile: Profile, tensor_parallel: int, page_size: int, kv_dtype: str = "auto"
) -> Defaults:
    """Ask SGLang's own rules for the model on the device.

    Verification of drafts runs on the prefill backend, as SGLang does by default.
    """
    arguments = ["--tp-size", str(tensor_parallel)]
    if page_size != 1:
        arguments += ["--page-size", str(page_size)]
    if kv_dtype != "auto":
        arguments += ["--kv-cache-dtype", kv_dtype]
    resolved = sglang_resolve(model, profile, arguments)
    return lambda phase: tuple(
        name for name in ((resolved.decode if phase == "decode" else resolved.prefill),) if name is not None
    )
