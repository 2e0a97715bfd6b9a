"""What an exception of a candidate means: rejected, out of memory or crashed, and whether the device survived it."""

from costmodel.errors import Incompatible
from executors.outcome import Failed, Outcome, Rejected

_MEMORY_TEXTS = ("out of memory", "can't allocate memory", "cannot allocate memory", "std::bad_alloc")
MAX_TEXT = 500


class DeviceLost(Exception):
    """A candidate destroyed the CUDA context: nothing more can run in this process."""

    def __init__(self, key: str, message: str) -> None:
        self.key = key
        self.message = message
        super().__init__(f"{key}: {message}")


def describe(error: Exception) -> Outcome:
    """Turn a candidate's exception into its outcome.

    `Incompatible`, `NotImplementedError` and `ValueError` say that the call cannot be made; anything else is a failure.
    """
    if isinstance(error, Incompatible):
        return Rejected(error.reasons)
    if isinstance(error, (NotImplementedError, ValueError)):
        return Rejected((text_of(error),))
    text = text_of(error)
    if isinstance(error, MemoryError) or any(m in text.lower() for m in _MEMORY_TEXTS):
        return Failed("oom", text)
    return Failed("crashed", text)


def text_of(error: BaseException) -> str:
    """Type and first lines of an error, shortened."""
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text}"[:MAX_TEXT]


def device_is_lost(device: str) -> bool:
    """Whether the CUDA context answers no more."""
    if not device.startswith("cuda"):
        return False
    import torch

    try:
        torch.cuda.synchronize(device)
    except Exception:
        return True
    return False
