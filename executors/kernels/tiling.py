"""How a workload is cut into tiles: the default for each shape, and the alternatives worth trying."""

from collections.abc import Mapping
from dataclasses import dataclass

from costmodel import Attention, Batch
from costmodel.attention import DTYPE_BYTES
from executors.kernels.form import Form, Source, next_power_of_2

SHARED_BYTES = 227 * 1024
"""Shared memory that one program may use on Hopper."""
SIZES = {
    "block_m": (16, 32, 64, 128, 256),
    "block_n": (16, 32, 64, 128, 256),
    "num_warps": (1, 2, 4, 8, 16),
    "num_stages": (1, 2, 3, 4, 5, 6, 7, 8),
}
"""Knobs of a tile, in the order of `shape_tile`, and what each may be."""
WGMMA_ROWS = 64
"""Rows of one Hopper matrix instruction; smaller row tiles are computed transposed."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Compile-time shape of one program's work."""

    block_m: int
    """Packed rows: query tokens times heads of the group."""
    block_n: int
    """Keys per step."""
    num_warps: int
    num_stages: int
    kv_major: bool
    """Compute the tile transposed, keys as rows of the matrix product; fp8 keys are converted in registers instead."""
    source: Source
    tma: bool
    """Load keys and values through TMA descriptors."""
    mask_all: bool
    """One loop that masks every step, instead of masking the edges only."""
    heads_inner: bool
    """Neighbouring programs work on neighbouring KV heads."""

    @property
    def key_axis(self) -> int:
        """Axis of the score tile that runs over keys."""
        return 0 if self.kv_major else 1


def shared_bytes(form: Form, tile: Tile, kv_bytes: float) -> float:
    """Estimate the shared memory of one program: the stages of keys and values, and the queries."""
    stages = max(1, tile.num_stages)
    return tile.block_n * form.columns * kv_bytes * stages + tile.block_m * form.head_dim * 2


def default_tile(attention: Attention, batch: Batch, *, tma: bool) -> Tile:
    """Choose the tile of a workload on Hopper.

    Args:
        attention: The layer.
        batch: The requests.
        tma: Whether the device has the tensor memory accelerator.
    """
    form = Form.of(attention, batch)
    rows = max(batch.q_lens) * form.group
    wide = form.columns > 256
    if rows <= WGMMA_ROWS // 2:
        block_m = max(16, next_power_of_2(rows))
        block_n, warps, stages = (32, 8, 3) if form.latent else (32 if wide else 64, 4, 3)
    elif form.latent:
        block_m, block_n, warps, stages = 64, 32, 8, 3
    elif rows <= WGMMA_ROWS:
        block_m, block_n, warps, stages = 64, 64, 8 if form.tree else 4, 3
    else:
        block_m, block_n, warps, stages = 128, 64, 8, 2 if wide else 3
    return shape_tile(attention, batch, (block_m, block_n, warps, stages), tma=tma)


def shape_tile(attention: Attention, batch: Batch, sizes: tuple[int, int, int, int], *, tma: bool) -> Tile:
    """Complete a tile of `sizes` (block_m, block_n, num_warps, num_stages) for a workload."""
    block_m, block_n, warps, stages = sizes
    form = Form.of(attention, batch)
    fresh = batch.q_lens == batch.kv_lens and not form.latent and max(batch.q_lens) > 1
    inside_page = form.page_size % block_n == 0
    long_rows = block_m >= WGMMA_ROWS
    aligned = form.head_dim % 16 == 0 and form.value_dim % 16 == 0
    use_tma = tma and long_rows and not form.latent and aligned and (fresh or inside_page)
    source: Source = "fresh" if fresh and use_tma else "page" if inside_page else "gather"
    return Tile(
        block_m=block_m,
        block_n=block_n,
        num_warps=warps,
        num_stages=stages,
        kv_major=not (long_rows or form.widen),
        source=source,
        tma=use_tma,
        mask_all=not long_rows or form.latent,
        heads_inner=not long_rows,
    )


def tile_of(attention: Attention, batch: Batch, knobs: Mapping[str, object], *, tma: bool) -> Tile:
    """Apply knobs to the default tile; None keeps the default.

    Raises:
        ValueError: A knob is unknown or out of range.
    """
    chosen = _whole_numbers(knobs)
    default = default_tile(attention, batch, tma=tma)
    sizes = {name: chosen.get(name) or int(getattr(default, name)) for name in SIZES}
    for name, allowed in SIZES.items():
        if sizes[name] not in allowed:
            raise ValueError(f"{name}={sizes[name]} must be one of {', '.join(map(str, allowed))}")
    block_m, block_n, num_warps, num_stages = sizes.values()
    return shape_tile(attention, batch, (block_m, block_n, num_warps, num_stages), tma=tma)


def _whole_numbers(knobs: Mapping[str, object]) -> dict[str, int]:
    chosen = {}
    for name, value in knobs.items():
        if name != "num_splits" and name not in SIZES:
            raise ValueError(f"unknown knob {name!r}; attnroof_triton has num_splits, {', '.join(SIZES)}")
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"{name}={value!r} must be a whole number")
        chosen[name] = value
    return chosen


def fits(attention: Attention, batch: Batch, knobs: Mapping[str, object], *, tma: bool) -> bool:
    """Say whether the tile that these knobs give fits shared memory."""
    tile = tile_of(attention, batch, knobs, tma=tma)
    return shared_bytes(Form.of(attention, batch), tile, DTYPE_BYTES[attention.kv_dtype]) <= SHARED_BYTES
