"""The table of backends: name to where its class lives; a backend's file is imported when it is asked for."""

from functools import cache
from importlib import import_module

from costmodel.errors import UnknownBackend
from executors.base import Backend

BACKENDS: dict[str, str] = {
    "fa3": "executors.backends.fa3:Fa3",
    "flashinfer": "executors.backends.flashinfer:FlashInfer",
    "flashmla": "executors.backends.flashmla:FlashMla",
    "triton": "executors.backends.triton:Triton",
    "attnroof_triton": "executors.backends.attnroof_triton:AttnroofTriton",
    "trtllm_mha": "executors.backends.trtllm:TrtllmMha",
    "fa4": "executors.backends.fa4:Fa4",
    "flash_attn": "executors.backends.flash_attn:FlashAttn2",
    "torch_native": "executors.backends.torch_native:TorchNative",
    "flex_attention": "executors.backends.flex_attention:FlexAttention",
    "trtllm_mla": "executors.backends.refused:trtllm_mla",
    "cutedsl_mla": "executors.backends.refused:cutedsl_mla",
    "tokenspeed_mla": "executors.backends.refused:tokenspeed_mla",
    "aiter": "executors.backends.refused:aiter",
    "wave": "executors.backends.refused:wave",
    "ascend": "executors.backends.refused:ascend",
    "intel_amx": "executors.backends.refused:intel_amx",
    "intel_xpu": "executors.backends.refused:intel_xpu",
    "hpc_ops": "executors.backends.refused:hpc_ops",
    "dsa": "executors.backends.refused:dsa",
    "nsa": "executors.backends.refused:nsa",
    "qsa": "executors.backends.refused:qsa",
    "dsv4": "executors.backends.refused:dsv4",
    "compressed": "executors.backends.refused:compressed",
    "minicpm_flashattn": "executors.backends.refused:minicpm_flashattn",
    "minicpm_flashinfer": "executors.backends.refused:minicpm_flashinfer",
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
