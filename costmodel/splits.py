"""Which split count is best, and which others are as good: the plateau around the minimum."""

from dataclasses import dataclass

from costmodel.call import Call
from costmodel.emulators import Emulator
from costmodel.estimate import time_call
from costmodel.knobs import resolve_knobs
from costmodel.prediction import KnobValue

SPLIT_KNOB = {"fa3": "num_splits", "fa4": "num_splits", "attnroof_triton": "num_splits", "triton": "max_kv_splits"}
"""Knob that sets the split count."""
MODE_KNOB = {"triton": ("split_mode", "fixed")}
"""Further knob that makes the split count literal."""
MAX_SPLITS = 128
GROUPS = 24
"""Groups of similar requests that a ragged batch is reduced to while counts are compared."""
PLATEAU = 0.01
"""Counts within this share of the best are as good as it."""


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """The best split count with its neighbours."""

    best: int
    plateau: tuple[int, ...]
    """All counts within 1 % of the best, smallest first."""
    seconds: dict[int, float]
    """Estimated time by count, over the counts that cut KV differently."""
    own_seconds: float
    """Estimated time with the library's own choice."""
    doubt: float
    """Share of it that the best count must save: less is within what the model errs between counts of one call."""

    @property
    def worth_asking(self) -> bool:
        """Whether the best count is faster than the library's own choice beyond doubt."""
        return is_worth_asking(self.seconds[self.best], self.own_seconds, self.doubt)


def is_worth_asking(seconds: float, own_seconds: float, doubt: float) -> bool:
    """Say whether a split count is to be asked for, by its estimate and that of the library's own choice."""
    return seconds < own_seconds * (1 - doubt)


def choose_splits(emulator: Emulator, call: Call, *, quick: bool = False) -> SplitChoice | None:
    """Find the best split count over all whole numbers; None where the backend has no such knob.

    Counts that cut the KV tiles into parts of the same size differ in empty parts only, so the smallest of them
    stands for all. Of equally good counts the smallest is taken: it needs the least workspace.

    Args:
        emulator: The backend.
        call: The call; its own split count is ignored.
        quick: Look only at steps of about a half and at the counts that fill the device.
    """
    knob = SPLIT_KNOB.get(emulator.name)
    if knob is None or call.machine.kind == "cpu":
        return None
    mode = MODE_KNOB.get(emulator.name)
    knobs = {**call.knobs, mode[0]: mode[1]} if mode else dict(call.knobs)
    call = call.coarse(GROUPS)
    whole = emulator.plan(call.with_knobs({**knobs, knob: 1}))
    tiles = max(1, max(int(n) for _, n in whole.jobs))
    slots = call.machine.sms * whole.slots_per_sm
    exact = call.batch.uniform and not quick
    counts = distinct_counts(tiles) if exact else ladder(tiles, slots / whole.unit_count)
    seconds: dict[int, float] = {}
    seen: dict[object, float] = {}
    for count in counts:
        plan = emulator.plan(call.with_knobs({**knobs, knob: count}))
        key = (plan.jobs, plan.merge_splits, plan.merge_launched, plan.empty_ctas)
        if key not in seen:
            seen[key] = time_call(emulator, call.machine, plan)[0].seconds
        seconds[count] = seen[key]
    least = min(seconds.values())
    plateau = tuple(count for count, value in seconds.items() if value <= least * (1 + PLATEAU))
    best = min(count for count, value in seconds.items() if value <= least * (1 + 1e-9))
    own = call.with_knobs({**call.knobs, **own_choice(emulator.name)})
    timing, resolved = time_call(emulator, call.machine, emulator.plan(own))
    return SplitChoice(best, plateau, seconds, timing.seconds, resolved.split_doubt)


def own_choice(backend: str) -> dict[str, KnobValue]:
    """Give the knobs that leave the split count to the library."""
    default = resolve_knobs(backend, None)
    return {knob: default[knob] for knob in (SPLIT_KNOB[backend], *MODE_KNOB.get(backend, ())[:1])}


def ladder(tiles: int, fill: float) -> list[int]:
    """Split counts to look at first: steps of about a half, and those that give every slot one, two or three parts."""
    steps = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, *(int(k * fill) for k in (1, 2, 3))}
    return sorted(count for count in steps if 1 <= count <= min(tiles, MAX_SPLITS))


def distinct_counts(tiles: int) -> list[int]:
    """Smallest split count for each size that the parts of `tiles` can have, up to `MAX_SPLITS`, fewest first."""
    counts = []
    size = tiles
    while size >= 1:
        count = -(-tiles // size)
        if count > MAX_SPLITS:
            break
        counts.append(count)
        size = -(-tiles // count) - 1
    return counts
