"""What FlashMLA's sparse decode reads: an fp8 cache of 656 bytes a token, and selections as rows of that cache."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from executors.inputs import Inputs

LATENT, ROPE, SCALES = 512, 64, 4
"""Values a token: the latent in fp8, one float32 scale for each 128 of them, the rotary part in bf16."""
TOKEN_BYTES = LATENT + 4 * SCALES + 2 * ROPE
SELECTED_MULTIPLE = 64
"""A selection's length is a multiple of this."""
HEADS = (64, 128)


def pack(cache: "Tensor") -> "Tensor":
    """Lay an fp8 cache out anew; nothing is rounded, since its scale is 1.

    Args:
        cache: fp8 `[pages, page_size, 1, 576]`, the latent first.

    Returns:
        fp8 `[pages, page_size, 1, 656]`.
    """
    import torch

    packed = torch.empty(*cache.shape[:-1], TOKEN_BYTES, dtype=torch.uint8, device=cache.device)
    scales = torch.ones(SCALES, dtype=torch.float32, device=cache.device)
    packed[..., :LATENT] = cache[..., :LATENT].view(torch.uint8)
    packed[..., LATENT : LATENT + 4 * SCALES] = scales.view(torch.uint8)
    packed[..., LATENT + 4 * SCALES :] = cache[..., LATENT:].to(torch.bfloat16).view(torch.uint8)
    return packed.view(cache.dtype)


def selected_rows(inputs: "Inputs") -> "Tensor":
    """Turn positions within requests into rows of the cache.

    Returns:
        int32 `[requests, query_len, selected]`, -1 where nothing is selected.
    """
    import torch

    chosen = inputs.sparse_indices
    assert chosen is not None, "the layer is not sparse"
    first = inputs.cu_kv[:-1].repeat_interleave(inputs.q_lens.long())[:, None]
    rows = inputs.token_slots[first + chosen.clamp(min=0)]
    rows = torch.where(chosen < 0, -1, rows).to(torch.int32)
    return rows.view(inputs.batch.size, -1, chosen.shape[1])
