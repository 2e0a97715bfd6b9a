"""FlashAttention-3 before Hopper: its kernels of compute capability 8 have other tiles and no specialised warps.

Source: `tile_size_fwd_sm8x` and `flash_fwd_kernel_sm80.h` in Dao-AILab/flash-attention `hopper/` at 0251105.
"""

from costmodel.attention import Attention

ROWS = 128
TWO_CTA_WARPS = 4
"""Warps of a CTA of which an SM holds two; of those with twice the warps it holds one."""
SMALL_SHARED = ((8, 6), (8, 9))
"""Compute capabilities with 100 KB of shared memory an SM."""


def tile_and_warps(attention: Attention, capability: tuple[int, int], *, split: bool) -> tuple[int, int, int]:
    """Query rows, keys and warps of the kernel for a paged call of requests of different lengths."""
    dim, windowed, small = attention.head_dim, attention.sliding_window is not None, capability in SMALL_SHARED
    if dim <= 64:
        return ROWS, 80 if split else 96 if windowed else 112, 4
    if dim <= 96:
        return ROWS, 48 if split or windowed else 64, 4
    if dim <= 128:
        if split or small:
            return ROWS, 96 if windowed else 112 if split else 128, 8
        return ROWS, 48 if windowed else 64, 4
    if dim <= 192:
        return ROWS, 64, 8
    if small:
        return ROWS, 48 if split or windowed else 64, 8
    return ROWS, 64 if split or windowed else 96, 8


def slots_per_sm(warps: int) -> int:
    """CTAs that an SM holds."""
    return 2 if warps == TWO_CTA_WARPS else 1
