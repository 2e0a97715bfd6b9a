"""How a workload is cut into tiles: the default for each shape, and the alternatives worth trying."""

from collections.abc import Mapping
from dataclasses import dataclass

from costmodel import Attention, Batch
from costmodel.attention import DTYPE_BYTES
from executors.kernels.form import Form, Source, next_power_of_2

SHARED_BYTES = 227 * 1024
"""Shared memory that one program may use on Hopper."""
L2_BYTES = 50e6
"""Level-2 cache of the H100 and H200."""
STEP_BYTES = 32 * 1024
"""Keys and values that one step of a few rows brings: less and its latency shows, more and the tail is coarse."""
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
class Target:
    """What a device offers beyond Triton's common ground."""

    tma: bool
    """The tensor memory accelerator, from Hopper on; the interpreter knows it too."""
    wgmma: bool
    """Hopper's warpgroup matrix instructions, which only Hopper has."""


HOPPER = Target(tma=True, wgmma=True)
LATENT_SIZES = (64, 64, 8, 2)
"""The one tile of the Gluon kernel for latent keys: block_m, block_n, consumer warps, stages."""


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
    """Neighbouring programs work on neighbouring KV heads, so the longest work of all heads comes first."""
    specialized: bool = False
    """The Gluon kernel for latent keys, whose warps have different tasks."""

    @property
    def asynchronous(self) -> bool:
        """Whether the matrix products are Hopper's asynchronous ones, which take 64 rows."""
        return self.kv_major or self.block_m >= WGMMA_ROWS

    @property
    def key_axis(self) -> int:
        """Axis of the score tile that runs over keys."""
        return 0 if self.kv_major else 1


def shared_bytes(form: Form, tile: Tile, kv_bytes: float) -> float:
    """Estimate the shared memory of one program: the stages of keys and values, and the queries.

    Synchronous matrix products release their stage before the next copy starts: one stage less.
    """
    stages = max(1, tile.num_stages - (not tile.asynchronous))
    return tile.block_n * form.columns * kv_bytes * stages + tile.block_m * form.head_dim * 2


def default_tile(attention: Attention, batch: Batch, *, target: Target) -> Tile:
    """Choose the tile of a workload on Hopper.

    Few rows wait for memory: three stages of `STEP_BYTES` in four warps leave room for several programs on an SM.
    Latent keys take 72 KiB a stage, so one program has the SM to itself. Many rows are bound by the matrix units: two
    programs of 64 rows on an SM hide each other's softmax better than one of 128; where only one fits, 128 rows read
    each key half as often.

    Args:
        attention: The layer.
        batch: The requests.
        target: What the device offers.
    """
    form = Form.of(attention, batch)
    kv_bytes = DTYPE_BYTES[attention.kv_dtype]
    few = max(16, next_power_of_2(max(batch.q_lens) * form.group))
    if form.latent and target.wgmma and _latent_kernel_takes(form):
        sizes = LATENT_SIZES
    elif form.latent:
        sizes = (64, 64, 8, 2) if few > WGMMA_ROWS // 2 else (few, 64, 8, 3)
    elif few <= WGMMA_ROWS // 2:
        sizes = (few, _keys_for_memory(form, kv_bytes), 4, 3)
    else:
        sizes = _sizes_for_products(attention, batch, few, target)
    return shape_tile(attention, batch, sizes, target=target)


def _keys_for_memory(form: Form, kv_bytes: float) -> int:
    """Choose the keys of a step of few rows: `STEP_BYTES` of keys and values.

    Windows read no more than 64 keys beyond their edges, and fp8 keys of pages of 64 stay within one for TMA.
    """
    keys = 1 << (int(STEP_BYTES / (form.columns * kv_bytes)).bit_length() - 1)
    inside_page = form.widen and form.page_size % 64 == 0 and form.page_size % keys > 0
    return max(32, min(keys, 64 if form.window or inside_page else 128))


def _sizes_for_products(attention: Attention, batch: Batch, few: int, target: Target) -> tuple[int, int, int, int]:
    """Choose the sizes of a tile of many rows: as many keys and stages as leave room for two programs on an SM."""
    form = Form.of(attention, batch)
    warps = 8 if form.tree else 4
    narrow = form.columns <= 128 and not form.window and not form.tree
    ladder = ((128, 3), (64, 3), (64, 2)) if narrow else ((64, 3), (64, 2))
    for keys, stages in ladder:
        sizes = (WGMMA_ROWS, keys, warps, stages)
        tile = shape_tile(attention, batch, sizes, target=target)
        by_page = tile.tma or keys == 64
        if by_page and 2 * (shared_bytes(form, tile, DTYPE_BYTES[attention.kv_dtype]) + 1024) <= SHARED_BYTES:
            return sizes
    return (128, 64, 8, 2) if few > WGMMA_ROWS else (WGMMA_ROWS, 64, warps, 3)


def shape_tile(attention: Attention, batch: Batch, sizes: tuple[int, int, int, int], *, target: Target) -> Tile:
    """Complete a tile of `sizes` (block_m, block_n, num_warps, num_stages) for a workload."""
    block_m, block_n, warps, stages = sizes
    form = Form.of(attention, batch)
    fresh = batch.q_lens == batch.kv_lens and not form.latent and max(batch.q_lens) > 1
    inside_page = form.page_size % block_n == 0
    long_rows = block_m >= WGMMA_ROWS
    aligned = form.head_dim % 16 == 0 and form.value_dim % 16 == 0
    specialized = target.wgmma and sizes == LATENT_SIZES and _latent_kernel_takes(form)
    use_tma = target.tma and (long_rows or form.widen) and not form.latent and aligned and (fresh or inside_page)
    source: Source = "fresh" if fresh and use_tma else "page" if inside_page else "gather"
    return Tile(
        block_m=block_m,
        block_n=block_n,
        num_warps=warps,
        num_stages=stages,
        kv_major=not (long_rows or form.widen or form.latent),
        source=source,
        tma=use_tma,
        mask_all=not long_rows or form.latent,
        heads_inner=not long_rows or _cached_bytes(attention, batch) <= L2_BYTES,
        specialized=specialized,
    )


def _cached_bytes(attention: Attention, batch: Batch) -> float:
    """Add up the keys and values of all heads: beyond the L2 cache, working head by head reads them less often."""
    columns = attention.num_kv_heads * (attention.head_dim + attention.value_dim)
    return sum(batch.kv_lens) * columns * DTYPE_BYTES[attention.kv_dtype]


def _latent_kernel_takes(form: Form) -> bool:
    """Say whether the Gluon kernel computes this form: 512 + 64 latent columns, no masks but the causal one."""
    plain = not (form.window or form.chunk or form.soft_cap or form.sinks or form.tree or form.widen)
    return plain and form.latent and (form.head_dim, form.value_dim) == (576, 512)


def tile_of(attention: Attention, batch: Batch, knobs: Mapping[str, object], *, target: Target) -> Tile:
    """Apply knobs to the default tile; None keeps the default.

    Raises:
        ValueError: A knob is unknown or out of range.
    """
    chosen = _whole_numbers(knobs)
    default = default_tile(attention, batch, target=target)
    sizes = {name: chosen.get(name) or int(getattr(default, name)) for name in SIZES}
    for name, allowed in SIZES.items():
        if sizes[name] not in allowed:
            raise ValueError(f"{name}={sizes[name]} must be one of {', '.join(map(str, allowed))}")
    block_m, block_n, num_warps, num_stages = sizes.values()
    return shape_tile(attention, batch, (block_m, block_n, num_warps, num_stages), target=target)


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


def fits(attention: Attention, batch: Batch, knobs: Mapping[str, object], *, target: Target) -> bool:
    """Say whether the tile that these knobs give fits shared memory."""
    tile = tile_of(attention, batch, knobs, target=target)
    return shared_bytes(Form.of(attention, batch), tile, DTYPE_BYTES[attention.kv_dtype]) <= SHARED_BYTES
