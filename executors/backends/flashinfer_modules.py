"""FlashInfer compiles a kernel when it is first needed; where that is forbidden, one that is missing is a reason."""

from collections.abc import Iterator
from contextlib import contextmanager

from costmodel import Incompatible


@contextmanager
def modules(backend: str) -> Iterator[None]:
    """Load or compile FlashInfer's modules inside.

    Raises:
        Incompatible: A module is missing, and `FLASHINFER_DISABLE_JIT` forbids to compile it.
    """
    try:
        yield
    except RuntimeError as error:
        if type(error).__name__ != "MissingJITCacheError":
            raise
        reason = "FlashInfer has no compiled module for this call, and FLASHINFER_DISABLE_JIT forbids to compile one"
        raise Incompatible(backend, [reason]) from error
