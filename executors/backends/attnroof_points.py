"""Which points of the project's own kernels are worth a measurement: far fewer than all combinations of their knobs."""

from collections.abc import Iterator

from costmodel import Attention, Batch
from executors.kernels.tiling import SIZES, WGMMA_ROWS, Target, Tile, default_tile, fits

MAX_SPLITS = 128
SPLITS = (*range(1, 17), *range(18, 33, 2), *range(36, 65, 4), 96, MAX_SPLITS)
"""Every split count to 16, every second to 32, every fourth to 64, then 96 and 128."""
PROGRAMS_PER_SM = 32
"""Splitting further only adds partial results to merge: it won for 1 of 340 recorded workloads, by 1.5 %."""
ROWS_PER_WARP = 16
"""With more, a warp's sums no longer fit its registers."""
FEW_ROWS = ((128, 8, 3), (128, 4, 3), (64, 4, 4), (32, 4, 4))
"""block_n, num_warps, num_stages that won somewhere in docs/kernels.md's runs while the rows are few."""
MANY_ROWS = (
    (128, 128, 8, 3),
    (128, 128, 8, 2),
    (128, 64, 8, 3),
    (128, 64, 8, 2),
    (64, 128, 4, 3),
    (64, 64, 4, 2),
    (64, 32, 4, 3),
)
"""block_m too, where the matrix units are the limit."""

Sizes = tuple[int, int, int, int]
"""block_m, block_n, num_warps, num_stages."""


def points(attention: Attention, batch: Batch, num_sms: int, *, target: Target) -> Iterator[dict[str, int]]:
    """List knob values to try: the own choice, other splits of its tile, and other tiles with their own splits.

    The planner chooses splits for each tile, and its choice was within 1 % of the best on average, so splits and
    tiles are not combined. The kernel for latent keys has one tile.

    Args:
        attention: The layer.
        batch: The requests.
        num_sms: Processors to fill.
        target: What the device offers.
    """
    default = default_tile(attention, batch, target=target)
    own = _sizes(default)
    for splits in (0, *useful_splits(attention, batch, num_sms, default)):
        yield _point(splits, own)
    for sizes in other_tiles(attention, batch, target=target):
        yield _point(0, sizes)


def useful_splits(attention: Attention, batch: Batch, num_sms: int, tile: Tile) -> list[int]:
    """List split counts that give at most `PROGRAMS_PER_SM` programs a processor, and no empty part; always 1."""
    rows = attention.group_size
    units = [
        (-(-kv // tile.block_n), attention.num_kv_heads * -(-q * rows // tile.block_m))
        for q, kv in zip(batch.q_lens, batch.kv_lens, strict=True)
    ]
    longest = max(steps for steps, _ in units)
    found = [1]
    for splits in SPLITS[1:]:
        size = -(-longest // splits)
        programs = sum(tiles * -(-steps // size) for steps, tiles in units)
        if splits > longest or programs > PROGRAMS_PER_SM * num_sms:
            break
        found.append(splits)
    return found


def other_tiles(attention: Attention, batch: Batch, *, target: Target) -> list[Sizes]:
    """List tiles beside the own choice: one size changed, and combinations that won somewhere."""
    default = default_tile(attention, batch, target=target)
    if default.specialized:
        return []
    own = _sizes(default)
    rows = max(batch.q_lens) * attention.group_size
    changed = [
        (*own[:position], value, *own[position + 1 :])
        for position, values in enumerate(((16, 32, 64, 128), (32, 64, 128), (4, 8), (2, 3, 4)))
        for value in values
    ]
    known = MANY_ROWS if default.block_m >= WGMMA_ROWS else [(default.block_m, *rest) for rest in FEW_ROWS]
    found = dict.fromkeys([*changed, *known])
    found.pop(own, None)
    return [s for s in found if _sensible(s, rows) and fits(attention, batch, _point(0, s), target=target)]


def _sensible(sizes: Sizes, rows: int) -> bool:
    """Say whether the rows fill the tile at least by half and its warps can hold it."""
    block_m, _, warps, _ = sizes
    return (block_m < 2 * rows or block_m == SIZES["block_m"][0]) and block_m <= ROWS_PER_WARP * warps


def _sizes(tile: Tile) -> Sizes:
    return tile.block_m, tile.block_n, tile.num_warps, tile.num_stages


def _point(splits: int, sizes: Sizes) -> dict[str, int]:
    return {"num_splits": splits, **dict(zip(SIZES, sizes, strict=True))}
