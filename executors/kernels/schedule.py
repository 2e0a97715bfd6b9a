"""Which program works on what: row tiles cut into ranges of keys, longest first, planned once per forward step."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from costmodel import Attention, Batch
from costmodel.attention import DTYPE_BYTES
from executors.kernels.form import Form
from executors.kernels.tiling import SHARED_BYTES, Tile, shared_bytes

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

BYTES_PER_SECOND_PER_SM = 33e9
"""Share of memory bandwidth of one of Hopper's SMs when all are busy."""
FLOPS_PER_SECOND_PER_SM = 4.6e12
"""Matrix rate that one SM reaches in these kernels."""
STEP_SECONDS, STEP_SECONDS_PER_VALUE = 0.45e-6, 30e-12
"""Latency of one step, and what each value of its keys adds, where matrix products are asynchronous."""
SYNCHRONOUS_FACTOR, WIDENED_FACTOR = 1.65, 2.4
"""Times that latency where they are not, and where keys are converted as well."""
SPECIALIZED_FACTOR = 1.1
SHARPNESS = 8
"""Exponent of the norm that joins bounds: two equal ones cost 9 % more than either."""
START_SECONDS = 1.5e-6
"""Time from the start of a program to its first tile, and from its last tile to its end."""
MERGE_SECONDS = 1.5e-6
MERGE_SECONDS_PER_PART = 0.08e-6
MAX_SPLITS = 128
MAX_WAVES = 4
"""Waves of programs from which on finer parts bring no better balance."""
REGISTERS_PER_SM = 65536


@dataclass(frozen=True, slots=True)
class Schedule:
    """The programs of one forward step."""

    work: npt.NDArray[np.int32]
    """`[items, 8]`: request, first row, first key, end of keys, slot or -1, first token, tokens, visible keys."""
    merges: npt.NDArray[np.int32]
    """`[split tiles, 8]`: first slot, parts, first row, first token, tokens."""
    slots: int
    """Partial results per KV head."""
    num_splits: int
    """Parts of the longest row tile."""


@dataclass(frozen=True, slots=True)
class Machine:
    """How fast a device walks over key tiles."""

    num_sms: int
    programs_per_sm: int
    step_bytes: float
    step_flops: float
    step_latency: float
    """Seconds of one step of a program that has an SM to itself: copy, product, softmax, product in turn."""
    part_bytes: float
    """Bytes of a partial result, written and read once."""

    @classmethod
    def of(cls, num_sms: int, attention: Attention, batch: Batch, tile: Tile) -> "Machine":
        """Count the programs of `tile` that fit an SM, most registers hold the output, and weigh their steps."""
        form = Form.of(attention, batch)
        kv_bytes = DTYPE_BYTES[attention.kv_dtype]
        by_shared = SHARED_BYTES // (int(shared_bytes(form, tile, kv_bytes)) + 1024)
        threads = 32 * tile.num_warps
        converted = 0 if tile.tma or not form.widen else 0.35 * tile.block_n * form.columns
        registers = min(255, 84 + (1.5 * tile.block_m * form.value_block + converted) / threads)
        by_registers = int(REGISTERS_PER_SM // (registers * threads))
        columns = form.head_dim + (0 if form.latent else form.value_dim)
        return cls(
            num_sms=num_sms,
            programs_per_sm=max(1, min(by_shared, by_registers)),
            step_bytes=tile.block_n * columns * kv_bytes,
            step_flops=2.0 * tile.block_m * tile.block_n * (form.head_dim + form.value_dim),
            step_latency=_step_latency(form, tile),
            part_bytes=8.0 * min(tile.block_m, max(batch.q_lens) * form.group) * form.value_dim,
        )

    @property
    def slots(self) -> int:
        """Programs that run at a time."""
        return self.num_sms * self.programs_per_sm

    def pace(self, programs: Ints) -> Reals:
        """Estimate the seconds of one step when so many programs run: whichever of three is slowest, smoothly."""
        memory = programs * self.step_bytes / (BYTES_PER_SECOND_PER_SM * self.num_sms)
        compute = np.ceil(programs / self.num_sms) * self.step_flops / FLOPS_PER_SECOND_PER_SM
        bounds = memory**SHARPNESS + compute**SHARPNESS + self.step_latency**SHARPNESS
        return np.asarray(bounds ** (1 / SHARPNESS))

    def seconds(self, steps: Reals, counts: Ints) -> float:
        """Estimate the time of `counts` programs of `steps` steps each, longest first.

        Two bounds, which longest-first order nearly reaches: all steps at the pace of a full device; and, for each
        length, as many waves as the programs of at least that length need.
        """
        programs = np.cumsum(counts)
        waves, rest = np.divmod(programs, self.slots)
        running = np.minimum(programs, self.slots)[-1:]
        full_pace = self.pace(np.asarray([self.slots]))
        long_ones = steps * (waves * full_pace + self.pace(rest) * (rest > 0)) + START_SECONDS * (waves + (rest > 0))
        all_steps = (steps @ counts) * self.pace(running) / running + START_SECONDS
        return float(max(long_ones.max(), all_steps.max()))


def make_schedule(attention: Attention, batch: Batch, tile: Tile, num_splits: int, num_sms: int) -> Schedule:
    """Cut a batch into programs.

    Args:
        attention: The layer.
        batch: The requests.
        tile: Shape of one program's work.
        num_splits: Parts of the longest row tile, shorter ones get fewer; 0 means the own choice.
        num_sms: Streaming multiprocessors to fill.
    """
    form = Form.of(attention, batch)
    q_lens = np.asarray(batch.q_lens, dtype=np.int64)
    kv_lens = np.asarray(batch.kv_lens, dtype=np.int64)
    q_starts = np.cumsum(q_lens) - q_lens
    row_tiles = -(-q_lens * form.group // tile.block_m)
    request = np.repeat(np.arange(len(q_lens)), row_tiles)
    row0 = (np.arange(len(request)) - np.repeat(np.cumsum(row_tiles) - row_tiles, row_tiles)) * tile.block_m
    low, high = _visible_range(form, tile, row0, q_lens[request], kv_lens[request])
    steps = -(-(high - low) // tile.block_n)
    longest = int(steps.max())
    if num_splits <= 0:
        num_splits = _choose_splits(Machine.of(num_sms, attention, batch, tile), form.kv_heads, steps)
    parts = -(-steps // -(-longest // min(num_splits, longest)))

    index = np.repeat(np.arange(len(parts)), parts)
    part = np.arange(len(index)) - np.repeat(np.cumsum(parts) - parts, parts)
    begin = low[index] + steps[index] * part // parts[index] * tile.block_n
    stop = np.minimum(low[index] + steps[index] * (part + 1) // parts[index] * tile.block_n, high[index])
    split = parts > 1
    first_slot = np.where(split, np.cumsum(parts * split) - parts * split, -1)
    slot = np.where(split[index], first_slot[index] + part, -1)
    owner = request[index]
    work = np.stack(
        [owner, row0[index], begin, stop, slot, q_starts[owner], q_lens[owner], kv_lens[owner]], axis=1
    ).astype(np.int32)
    if not batch.uniform or len(row0) > len(q_lens):
        work = work[np.argsort(begin - stop, kind="stable")]
    merged = request[split]
    merges = np.zeros((len(merged), 8), dtype=np.int32)
    for column, values in enumerate((first_slot[split], parts[split], row0[split], q_starts[merged], q_lens[merged])):
        merges[:, column] = values
    return Schedule(np.ascontiguousarray(work), merges, int((parts * split).sum()), int(parts.max()))


def _step_latency(form: Form, tile: Tile) -> float:
    seconds = STEP_SECONDS + STEP_SECONDS_PER_VALUE * tile.block_n * form.columns
    if tile.specialized:
        return seconds * SPECIALIZED_FACTOR
    if tile.asynchronous:
        return seconds
    return seconds * (WIDENED_FACTOR if form.widen else SYNCHRONOUS_FACTOR)


def _visible_range(form: Form, tile: Tile, row0: Ints, q_len: Ints, kv_len: Ints) -> tuple[Ints, Ints]:
    """Find the keys that the rows of each tile see: aligned first key and end."""
    first = row0 // form.group
    last = np.minimum((row0 + tile.block_m - 1) // form.group, q_len - 1)
    low = np.zeros_like(kv_len)
    if form.window:
        low = np.maximum(low, kv_len - q_len + first - form.window + 1)
    if form.chunk:
        low = np.maximum(low, (kv_len - q_len + first) // form.chunk * form.chunk)
    high = kv_len - q_len + last + 1 if form.causal else kv_len
    return low // tile.block_n * tile.block_n, high


def _choose_splits(machine: Machine, kv_heads: int, steps: Ints) -> int:
    """Choose the parts of the longest tile that finish earliest."""
    lengths, counts = np.unique(-steps, return_counts=True)
    lengths, counts = -lengths, counts * kv_heads
    longest = int(lengths[0])
    best, best_seconds, last_size = 1, float("inf"), 0
    for splits in range(1, min(longest, MAX_SPLITS) + 1):
        size = -(-longest // splits)
        if size == last_size:
            continue
        last_size = size
        parts = -(-lengths // size)
        part_steps, programs = lengths / parts, counts * parts
        order = np.argsort(-part_steps, kind="stable")
        seconds = machine.seconds(part_steps[order], programs[order])
        if splits > 1:
            split_programs = float(programs[parts > 1].sum())
            seconds += split_programs * machine.part_bytes / (BYTES_PER_SECOND_PER_SM * machine.num_sms)
            seconds += MERGE_SECONDS + MERGE_SECONDS_PER_PART * int(parts[0])
        if seconds < best_seconds:
            best, best_seconds = splits, seconds
        if programs.sum() > MAX_WAVES * machine.slots:
            break
    return best
