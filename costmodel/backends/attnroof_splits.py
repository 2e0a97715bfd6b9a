"""The split count that the project's own kernels choose, by their own estimate of when the last program ends."""

from collections.abc import Sequence
from dataclasses import dataclass

from costmodel.backends.attnroof_tile import Tile, shape_of
from costmodel.call import Call

BYTES_PER_SECOND_PER_SM = 33e9
FLOPS_PER_SECOND_PER_SM = 4.6e12
STEP_SECONDS, STEP_SECONDS_PER_VALUE = 0.45e-6, 30e-12
SYNCHRONOUS_FACTOR, WIDENED_FACTOR, SPECIALIZED_FACTOR = 1.65, 2.4, 1.1
SHARPNESS = 8
START_SECONDS = 1.5e-6
MERGE_SECONDS, MERGE_SECONDS_PER_PART = 1.5e-6, 0.08e-6
MAX_SPLITS, MAX_WAVES = 128, 4

Lengths = Sequence[tuple[int, int]]
"""`(steps, row tiles)`, longest first, all KV heads counted."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the kernels believe that a step of one program goes."""

    sms: int
    programs_per_sm: int
    step_bytes: float
    step_flops: float
    step_latency: float
    part_bytes: float

    @property
    def slots(self) -> int:
        """Programs that run at a time."""
        return self.sms * self.programs_per_sm

    def step(self, programs: int) -> float:
        """Seconds of one step when so many programs run."""
        memory = programs * self.step_bytes / (BYTES_PER_SECOND_PER_SM * self.sms)
        compute = -(-programs // self.sms) * self.step_flops / FLOPS_PER_SECOND_PER_SM
        total: float = memory**SHARPNESS + compute**SHARPNESS + self.step_latency**SHARPNESS
        return total ** (1 / SHARPNESS)

    def seconds(self, parts: Sequence[tuple[float, int]]) -> float:
        """Time of programs `(steps, count)`, longest first."""
        full = self.step(self.slots)
        programs, steps, slowest = 0, 0.0, 0.0
        for length, count in parts:
            programs += count
            steps += length * count
            waves, rest = divmod(programs, self.slots)
            last = (self.step(rest) if rest else 0.0) * length
            slowest = max(slowest, waves * length * full + last + START_SECONDS * (waves + (rest > 0)))
        running = min(programs, self.slots)
        return max(slowest, steps * self.step(running) / running + START_SECONDS)


def pace_of(call: Call, tile: Tile) -> Pace:
    """Weigh the steps of a tile."""
    attention, shape = call.attention, shape_of(call)
    width = attention.head_dim + (0 if attention.is_latent else attention.value_dim)
    latency = STEP_SECONDS + STEP_SECONDS_PER_VALUE * tile.keys * shape.columns
    if tile.specialized:
        latency *= SPECIALIZED_FACTOR
    elif not tile.asynchronous:
        latency *= WIDENED_FACTOR if shape.widen else SYNCHRONOUS_FACTOR
    return Pace(
        sms=call.machine.sms,
        programs_per_sm=tile.programs_per_sm,
        step_bytes=float(tile.keys * width * shape.kv_bytes),
        step_flops=2.0 * tile.rows * tile.keys * (attention.head_dim + attention.value_dim),
        step_latency=latency,
        part_bytes=8.0 * min(tile.rows, shape.rows) * attention.value_dim,
    )


def own_splits(pace: Pace, lengths: Lengths) -> int:
    """Choose the parts of the longest row tile that finish earliest."""
    longest = lengths[0][0]
    best, best_seconds, last_size = 1, float("inf"), 0
    for splits in range(1, min(longest, MAX_SPLITS) + 1):
        size = -(-longest // splits)
        if size == last_size:
            continue
        last_size = size
        cut = [(steps, count, -(-steps // size)) for steps, count in lengths]
        runs = sorted(((steps / parts, count * parts) for steps, count, parts in cut), key=lambda run: -run[0])
        seconds = pace.seconds(runs)
        if splits > 1:
            partial = sum(count * parts for _, count, parts in cut if parts > 1)
            seconds += partial * pace.part_bytes / (BYTES_PER_SECOND_PER_SM * pace.sms)
            seconds += MERGE_SECONDS + MERGE_SECONDS_PER_PART * cut[0][2]
        if seconds < best_seconds:
            best, best_seconds = splits, seconds
        if sum(count for _, count in runs) > MAX_WAVES * pace.slots:
            break
    return best
