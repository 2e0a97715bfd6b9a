"""The KV write of the new tokens, one layer: what a step adds to every attention call."""

from typing import TYPE_CHECKING

from executors.base import Prepared

if TYPE_CHECKING:
    from torch import Tensor

    from executors.inputs import Inputs


def prepare_write(inputs: "Inputs") -> Prepared:
    """Build the call that stores the new tokens' K and V in the cache; latents are stored once."""
    pairs = [(inputs.k_cache, inputs.k_new)]
    if not inputs.attention.is_latent:
        pairs.append((inputs.v_cache, inputs.v_new))
    sources = [_raw(new).contiguous() for _, new in pairs]
    targets = [[_raw(copy).flatten(0, 1) for copy in caches] for caches, _ in pairs]

    def run(slot: int) -> "Tensor":
        for target, source in zip(targets, sources, strict=True):
            target[slot][inputs.new_slots] = source
        return inputs.q

    return Prepared(run=run, path="index_put")


def _raw(tensor: "Tensor") -> "Tensor":
    """The tensor's bits as integers where it is fp8, which PyTorch cannot index."""
    import torch

    return tensor.view(torch.uint8) if tensor.dtype.itemsize == 1 else tensor
