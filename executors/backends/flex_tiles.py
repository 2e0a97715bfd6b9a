"""Tiles of FlexAttention's kernel for many queries, and the shared memory that they take on compute capability 9.0."""

from costmodel import Attention
from costmodel.attention import DTYPE_BYTES

SHORT = 128
"""Fewer query rows than this take PyTorch's decoding kernel, where query heads per KV head are a power of two."""
STAGES = 3
"""Keys and values in flight at once, in PyTorch's choice."""
TILES = {64: (128, 128), 128: (128, 64), 256: (64, 32)}
TILES_FP32 = {64: (128, 32), 128: (32, 64), 256: (32, 32)}
"""Query rows and keys that PyTorch 2.11 takes for a head dim (torch/_inductor/template_heuristics/triton.py)."""
OTHER = (64, 64)
"""The same for head dims up to 256 that the tables leave out."""
WIDE = {"fp32": (32, 16)}
"""The same above 256; 64 x 32 in 16 bit."""


def is_tiled(attention: Attention, rows: int) -> bool:
    """Whether a call with so many query rows takes the kernel for many queries."""
    group = attention.group_size
    return rows >= SHORT or group & (group - 1) != 0


def tile(attention: Attention) -> tuple[int, int]:
    """Query rows and keys of PyTorch's own tile on compute capability 9.0."""
    if attention.head_dim > max(TILES):
        return WIDE.get(attention.dtype, (64, 32))
    tiles = TILES_FP32 if attention.dtype == "fp32" else TILES
    return tiles.get(attention.head_dim, OTHER)


def shared_bytes(attention: Attention, rows: int, keys: int) -> int:
    """Shared memory of one block: its queries, and `STAGES` tiles of keys and values, widths rounded to powers of two.

    For head dims of 576 and 512 it agrees to the byte with what Triton 3.6 asked an H200 for: 425,984 with 64 rows and
    32 keys, 720,896 with 64 keys, 2,490,368 with 256.
    """
    width, value_width = _power_of_two(attention.head_dim), _power_of_two(attention.value_dim)
    return int((rows * width + STAGES * keys * (width + value_width)) * DTYPE_BYTES[attention.dtype])


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()
