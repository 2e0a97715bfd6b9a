"""What an emulator says a kernel will do: jobs in launch order, the work of one KV tile, splits and their merge."""

from dataclasses import dataclass, replace

from costmodel.attention import DTYPE_BYTES, Attention
from costmodel.batch import Batch
from costmodel.machine import Machine

CONVERTED_PER_CLK = 10.0
"""Elements of an fp8 cache that one SM turns into bf16 in a clock (seen on an H200 in kernels of two libraries)."""

Job = tuple[int, float]
"""`(count, tiles)`: that many equal jobs in a row, each of that many KV tiles."""

Assigned = tuple[float, int, int]
"""`(tiles, jobs, slots)`: what each of that many CTAs was given by the library's own plan."""


@dataclass(frozen=True, slots=True)
class TileWork:
    """What one KV tile asks of one SM."""

    rows: int
    """Packed query rows of the tile, padding included."""
    keys: int
    """KV tokens of the tile."""
    bytes: float
    """K and V that the tile loads."""
    matrix_seconds: float
    """Both products at the SM's peak rate."""
    exp_seconds: float
    """The exponentials at the SM's peak rate."""
    pages: float = 1.0
    """Pages that the tile's keys lie on."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One launch: enough to time it, and to say in words what it does."""

    variant: str
    """Which parameter set of the backend applies."""
    kernel: str
    """Which compiled kernel of the variant runs, such as `d128` or `d64_g4`: some are slower than their work says."""
    jobs: tuple[Job, ...]
    tile: TileWork
    slots_per_sm: int
    """CTAs that one SM holds at once."""
    dram_bytes: float
    units: str
    """The work before splitting, in words: `8 KV heads x 1 request = 8 tiles`."""
    unit_count: int
    num_splits: int = 1
    """Largest number of KV splits of any request."""
    merge_splits: int = 1
    """Splits that the merge kernel walks through for one row; 1 where no merge is launched."""
    merge_slots: int = 0
    """Splits that the merge kernel is compiled or launched for."""
    merge_launched: bool = False
    merged_rows: float = 0.0
    """Output rows that the merge kernel writes."""
    partial_rows: float = 0.0
    """Rows of partial output that are written and read again."""
    partial_row_bytes: float = 0.0
    empty_ctas: int = 0
    requests: int = 1
    row_fill: float = 0.0
    """Share of the jobs' query rows that are valid, on average."""
    repeats: int = 1
    """How often this launch is made, one after the other."""
    after: tuple["Plan", ...] = ()
    """Launches that follow this one."""
    extra_seconds: float = 0.0
    """Preparation inside the call that does not depend on the tiles."""
    extra_memory_seconds: float = 0.0
    """Loads before the tiles, such as an indexer's keys, at the peak bandwidth."""
    extra_compute_seconds: float = 0.0
    """Matrix products before the tiles, at their peak rate."""
    workspace_bytes: int = 0
    assigned: tuple[Assigned, ...] = ()
    """Where the library assigns work to CTAs itself instead of launching jobs in order."""
    splittable: bool = True

    @property
    def job_count(self) -> int:
        """Jobs that have work to do."""
        return sum([count for count, _ in self.jobs])

    @property
    def total_tiles(self) -> float:
        """KV tiles of all jobs."""
        return sum([count * tiles for count, tiles in self.jobs])

    @property
    def all_dram_bytes(self) -> float:
        """DRAM traffic of every launch."""
        return self.dram_bytes * self.repeats + sum(following.all_dram_bytes for following in self.after)

    def assigned_loads(self, job_tiles: float) -> list[tuple[float, int]]:
        """Give `(load, slots)` in tiles of the library's own assignment, lightest first."""
        loads: dict[float, int] = {}
        for tiles, jobs, slots in self.assigned:
            load = tiles + jobs * job_tiles
            loads[load] = loads.get(load, 0) + slots
        return sorted(loads.items())


def tile_work(machine: Machine, attention: Attention, rows: int, keys: int, page_size: int = 1 << 20) -> TileWork:
    """Work of one `rows` x `keys` tile on the matrix units, the exponential unit and the load path."""
    dim, value_dim = attention.head_dim, attention.value_dim
    width = dim if attention.is_latent else dim + value_dim
    dtype = attention.dtype
    flops = 2.0 * rows * keys * (dim + value_dim)
    exps = rows * keys * (2.0 if attention.logit_soft_cap else 1.0)
    return TileWork(
        rows=rows,
        keys=keys,
        bytes=keys * width * DTYPE_BYTES[attention.kv_dtype],
        matrix_seconds=flops / machine.sm_matrix_rate(dtype),
        exp_seconds=exps / machine.sm_exp_per_s,
        pages=max(1.0, keys / page_size),
    )


def converting_tile(machine: Machine, attention: Attention, rows: int, keys: int, page_size: int = 1 << 20) -> TileWork:
    """Work of one tile of a kernel whose products are in the dtype of the queries: an fp8 cache is converted first."""
    tile = tile_work(machine, attention, rows, keys, page_size)
    if not attention.kv_dtype.startswith("fp8"):
        return tile
    elements = keys * (attention.head_dim if attention.is_latent else attention.head_dim + attention.value_dim)
    return replace(tile, matrix_seconds=tile.matrix_seconds + elements / (CONVERTED_PER_CLK * machine.clock_hz))


def count_of(n: int, word: str) -> str:
    """Give `1 request` or `3 requests`."""
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def kernel_name(attention: Attention, batch: Batch | None = None) -> str:
    """Name the compiled kernel by what its code depends on: head dim, KV dtype, window and tree mask."""
    name = f"d{attention.head_dim}"
    if attention.kv_dtype != attention.dtype:
        name += f"_{attention.kv_dtype}"
    if attention.sliding_window is not None:
        name += "_window"
    return f"{name}_tree" if batch is not None and batch.topk > 1 else name
