"""The table of backends: name to where its class lives; a backend's file is imported when it is asked for."""

from functools import cache
from importlib import import_module

from costmodel.errors import UnknownBackend
from executors.base import Backend

BACKENDS: dict[str, str] = {
    "torch_native": "executors.backends.torch_native:TorchNative",
    "flex_attention": "executors.backends.flex_attention:FlexAttention",
}


def backend_names() -> tuple[str, ...]:
    """Names of all registered backends, in the table's order."""
    return tuple(BACKENDS)


@cache
def get_backend(name: str) -> Backend:
    """Give one backend.

    Args:
        name: A registered name, or `package.module:Class` for one outside the table.

    Raises:
        UnknownBackend: No backend of that name; the message lists the nearest.
    """
    location = BACKENDS.get(name, name)
    module, separator, attribute = location.partition(":")
    if not separator:
        raise UnknownBackend(name, BACKENDS)
    backend = getattr(import_module(module), attribute)()
    assert isinstance(backend, Backend)
    return backend
