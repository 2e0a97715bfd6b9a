# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
"""What the warps of the Gluon kernel for latent keys share: their part of the work, tiles and barriers."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier
from triton.language.core import _aggregate as aggregate

ROWS = gl.constexpr(64)
KEYS = gl.constexpr(64)
HALF = gl.constexpr(256)
REST = gl.constexpr(64)
STAGES = gl.constexpr(2)
COPYING_THREADS = gl.constexpr(128)
TILE_LAYOUT = gl.constexpr(gl.NVMMASharedLayout(128, 16, 2))
ROW_LAYOUT = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))
BARRIER_LAYOUT = gl.constexpr(mbarrier.MBarrierLayout())


@aggregate
class Part:
    """One item of the work list but for its request, as in `attend`."""

    row0: gl.tensor
    begin: gl.tensor
    end: gl.tensor
    slot: gl.tensor
    q_start: gl.tensor
    q_len: gl.tensor
    kv_len: gl.tensor

    @gluon.constexpr_function
    def __init__(self, row0, begin, end, slot, q_start, q_len, kv_len):
        self.row0, self.begin, self.end, self.slot = row0, begin, end, slot
        self.q_start, self.q_len, self.kv_len = q_start, q_len, kv_len


@aggregate
class Memory:
    """Shared tiles, each with barriers that say when it is full and when it may be overwritten."""

    gathered: gl.constexpr
    """Keys come row by row, so every copying thread arrives at their barriers."""
    q_left: gl.shared_memory_descriptor
    q_right: gl.shared_memory_descriptor
    q_rest: gl.shared_memory_descriptor
    q_full: gl.shared_memory_descriptor
    k_left: gl.shared_memory_descriptor
    k_right: gl.shared_memory_descriptor
    k_rest: gl.shared_memory_descriptor
    """Copied and freed with `k_right`."""
    left_full: gl.shared_memory_descriptor
    left_free: gl.shared_memory_descriptor
    right_full: gl.shared_memory_descriptor
    right_free: gl.shared_memory_descriptor
    weights: gl.shared_memory_descriptor
    factors: gl.shared_memory_descriptor
    """What the sums so far are multiplied by before the weights of this step count."""
    weights_full: gl.shared_memory_descriptor
    weights_free: gl.shared_memory_descriptor
    shares: gl.shared_memory_descriptor
    """Reciprocals of the rows' total weights."""
    shares_full: gl.shared_memory_descriptor

    @gluon.constexpr_function
    def __init__(self, gathered, queries, keys, exchanged, single_barriers, staged_barriers):
        self.gathered = gl.constexpr(gathered)
        self.q_left, self.q_right, self.q_rest = queries
        self.k_left, self.k_right, self.k_rest = keys
        self.weights, self.factors, self.shares = exchanged
        self.q_full, self.weights_full, self.weights_free, self.shares_full = single_barriers
        self.left_full, self.left_free, self.right_full, self.right_free = staged_barriers


@gluon.jit
def _tile(dtype: gl.constexpr, columns: gl.constexpr):
    return gl.allocate_shared_memory(dtype, [ROWS, columns], TILE_LAYOUT)


@gluon.jit
def _stages(dtype: gl.constexpr, columns: gl.constexpr):
    return gl.allocate_shared_memory(dtype, [STAGES, KEYS, columns], TILE_LAYOUT)


@gluon.jit
def _row_values():
    return gl.allocate_shared_memory(gl.float32, [ROWS], ROW_LAYOUT)


@gluon.jit
def _barrier():
    return gl.allocate_shared_memory(gl.int64, [1], BARRIER_LAYOUT)


@gluon.jit
def _barriers():
    return gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER_LAYOUT)


@gluon.jit
def allocate(dtype: gl.constexpr, gathered: gl.constexpr):
    """Allocate all of it: 225 KiB."""
    return Memory(
        gathered,
        (_tile(dtype, HALF), _tile(dtype, HALF), _tile(dtype, REST)),
        (_stages(dtype, HALF), _stages(dtype, HALF), _stages(dtype, REST)),
        (_tile(dtype, KEYS), _row_values(), _row_values()),
        (_barrier(), _barrier(), _barrier(), _barrier()),
        (_barriers(), _barriers(), _barriers(), _barriers()),
    )


@gluon.jit
def prepare(memory):
    """Set all barriers up, before the warps part; those of no copying threads wait for one arrival."""
    copies: gl.constexpr = COPYING_THREADS if memory.gathered else 1
    mbarrier.init(memory.q_full, count=1)
    mbarrier.init(memory.weights_full, count=1)
    mbarrier.init(memory.weights_free, count=1)
    mbarrier.init(memory.shares_full, count=1)
    for stage in gl.static_range(STAGES):
        mbarrier.init(memory.left_full.index(stage), count=copies)
        mbarrier.init(memory.left_free.index(stage), count=1)
        mbarrier.init(memory.right_full.index(stage), count=copies)
        mbarrier.init(memory.right_free.index(stage), count=1)
    fence_async_shared()
