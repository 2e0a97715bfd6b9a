"""The tile that the project's own kernels choose for a workload, and how many programs of it fit an SM."""

from dataclasses import dataclass

from costmodel.attention import DTYPE_BYTES
from costmodel.call import Call

SHARED_BYTES = 227 * 1024
PROGRAM_BYTES = 1024
"""Shared memory that the system keeps for each program."""
L2_BYTES = 50e6
"""Keys and values of all heads beyond this: head by head."""
STEP_BYTES = 32 * 1024
FEW_ROWS, MATRIX_ROWS = 32, 64
REGISTERS_PER_SM, MOST_REGISTERS = 65536, 255
LATENT_SIZES = (64, 64, 8, 2)
TMA_CAPABILITY, WGMMA_CAPABILITY = (9, 0), (9, 0)

Sizes = tuple[int, int, int, int]
"""Rows, keys, warps, stages."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the choice depends on, dims rounded as the kernel pads them."""

    group: int
    rows: int
    """Packed rows of the longest request."""
    columns: int
    value_block: int
    head_dim: int
    kv_bytes: int
    latent: bool
    widen: bool
    tree: bool
    window: bool
    fresh: bool
    page_size: int
    tma: bool
    wgmma: bool
    plain: bool
    """No mask but the causal one, no soft-capping, no sinks."""
    aligned: bool


@dataclass(frozen=True, slots=True)
class Tile:
    """One program's tile and the path that it takes."""

    rows: int
    keys: int
    warps: int
    stages: int
    specialized: bool
    transposed: bool
    """Computed with keys as rows of the matrix product."""
    tma: bool
    gathered: bool
    """Keys of one step lie on several pages."""
    programs_per_sm: int

    @property
    def asynchronous(self) -> bool:
        """Whether the matrix products are Hopper's asynchronous ones."""
        return self.transposed or self.rows >= MATRIX_ROWS


def shape_of(call: Call) -> Shape:
    """Read a call."""
    attention, batch, capability = call.attention, call.batch, call.machine.capability
    main = 1 << (attention.head_dim.bit_length() - 1)
    rest = attention.head_dim - main
    value_block = power_of_2(attention.value_dim)
    most = max(batch.q_lens)
    tree = batch.phase == "verify" and batch.topk > 1
    masks = attention.sliding_window or attention.chunk_size or attention.logit_soft_cap or attention.sinks
    return Shape(
        group=attention.group_size,
        rows=most * attention.group_size,
        columns=main + (max(16, power_of_2(rest)) if rest else 0) + (0 if attention.is_latent else value_block),
        value_block=value_block,
        head_dim=attention.head_dim,
        kv_bytes=int(DTYPE_BYTES[attention.kv_dtype]),
        latent=attention.is_latent,
        widen=attention.kv_dtype.startswith("fp8"),
        tree=tree,
        window=attention.sliding_window is not None,
        fresh=batch.q_lens == batch.kv_lens and not attention.is_latent and most > 1,
        page_size=batch.page_size,
        tma=capability >= TMA_CAPABILITY,
        wgmma=capability[0] == WGMMA_CAPABILITY[0],
        plain=not masks and not tree,
        aligned=attention.head_dim % 16 == 0 and attention.value_dim % 16 == 0,
    )


def choose_tile(call: Call) -> Tile:
    """Give the tile with the call's knobs applied; 0 keeps the own choice."""
    shape = shape_of(call)
    names = ("block_m", "block_n", "num_warps", "num_stages")
    sizes = [call.number(name) or own for name, own in zip(names, own_sizes(shape), strict=True)]
    return _complete(shape, (sizes[0], sizes[1], sizes[2], sizes[3]))


def own_sizes(shape: Shape) -> Sizes:
    """Choose the sizes by what bounds the workload: memory with few rows, matrix units with many."""
    few = max(16, power_of_2(shape.rows))
    if _takes_latent(shape):
        return LATENT_SIZES
    if shape.latent:
        return (64, 64, 8, 2) if few > FEW_ROWS else (few, 64, 8, 3)
    if few <= FEW_ROWS:
        keys = 1 << (int(STEP_BYTES / (shape.columns * shape.kv_bytes)).bit_length() - 1)
        inside_page = shape.widen and shape.page_size % 64 == 0 and shape.page_size % keys > 0
        return few, max(32, min(keys, 64 if shape.window or inside_page else 128)), 4, 3
    warps = 8 if shape.tree else 4
    narrow = shape.columns <= 128 and not shape.window and not shape.tree
    for keys, stages in ((128, 3), (64, 3), (64, 2)) if narrow else ((64, 3), (64, 2)):
        tile = _complete(shape, (MATRIX_ROWS, keys, warps, stages))
        if (tile.tma or keys == 64) and 2 * (_shared_bytes(shape, tile) + PROGRAM_BYTES) <= SHARED_BYTES:
            return MATRIX_ROWS, keys, warps, stages
    return (128, 64, 8, 2) if few > MATRIX_ROWS else (MATRIX_ROWS, 64, warps, 3)


def by_head(call: Call, tile: Tile) -> bool:
    """Say whether neighbouring programs work on the same KV head, so that the L2 holds it."""
    attention = call.attention
    width = attention.num_kv_heads * (attention.head_dim + attention.value_dim)
    return tile.rows >= MATRIX_ROWS and call.batch.total_kv * width * DTYPE_BYTES[attention.kv_dtype] > L2_BYTES


def power_of_2(value: int) -> int:
    """Round up to a power of two."""
    return 1 << (value - 1).bit_length()


def _takes_latent(shape: Shape) -> bool:
    widths = (shape.head_dim, shape.value_block) == (576, 512)
    return shape.wgmma and shape.plain and shape.latent and not shape.widen and widths


def _complete(shape: Shape, sizes: Sizes) -> Tile:
    rows, keys, warps, stages = sizes
    long_rows = rows >= MATRIX_ROWS
    inside_page = shape.page_size % keys == 0
    usable = shape.tma and shape.aligned and not shape.latent
    tma = usable and (long_rows or shape.widen) and (shape.fresh or inside_page)
    tile = Tile(
        rows=rows,
        keys=keys,
        warps=warps,
        stages=stages,
        specialized=_takes_latent(shape) and sizes == LATENT_SIZES,
        transposed=not (long_rows or shape.widen or shape.latent),
        tma=tma,
        gathered=not inside_page and not (shape.fresh and tma),
        programs_per_sm=1,
    )
    return Tile(**{**{n: getattr(tile, n) for n in Tile.__slots__}, "programs_per_sm": _programs(shape, tile)})


def _programs(shape: Shape, tile: Tile) -> int:
    threads = 32 * tile.warps
    converted = 0.35 * tile.keys * shape.columns if shape.widen and not tile.tma else 0.0
    registers = min(MOST_REGISTERS, 84 + (1.5 * tile.rows * shape.value_block + converted) / threads)
    by_shared = SHARED_BYTES // (int(_shared_bytes(shape, tile)) + PROGRAM_BYTES)
    return max(1, min(by_shared, int(REGISTERS_PER_SM // (registers * threads))))


def _shared_bytes(shape: Shape, tile: Tile) -> float:
    stages = max(1, tile.stages - (not tile.asynchronous))
    return tile.keys * shape.columns * shape.kv_bytes * stages + tile.rows * shape.head_dim * 2
