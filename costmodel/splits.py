"""Which split count is best, and which others are as good: the plateau around the minimum."""

from dataclasses import dataclass

from costmodel.call import Call
from costmodel.emulators import Emulator
from costmodel.plan import Plan
from costmodel.predict import time_call

SPLIT_KNOB = {"fa3": "num_splits", "fa4": "num_splits", "attnroof_triton": "num_splits", "triton": "max_kv_splits"}
"""Knob that sets the split count."""
MODE_KNOB = {"triton": ("split_mode", "fixed")}
"""Further knob that makes the split count literal."""
MAX_SPLITS = 128
PLATEAU = 0.01
"""Counts within this share of the best are as good as it."""


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """The best split count with its neighbours."""

    best: int
    plateau: tuple[int, ...]
    """All counts within 1 % of the best, smallest first."""
    seconds: dict[int, float]
    """Estimated time by count, over all counts that can be asked for."""


def choose_splits(emulator: Emulator, call: Call) -> SplitChoice | None:
    """Try every split count; None where the backend has no such knob.

    Of equally good counts the smallest is taken: it needs the least workspace.
    """
    knob = SPLIT_KNOB.get(emulator.name)
    if knob is None or call.machine.kind == "cpu":
        return None
    mode = MODE_KNOB.get(emulator.name)
    extra = {mode[0]: mode[1]} if mode else {}
    seconds: dict[int, float] = {}
    seen: dict[object, float] = {}
    for count in range(1, most_splits(emulator, call) + 1):
        plan = emulator.plan(Call(call.attention, call.batch, call.machine, {**call.knobs, **extra, knob: count}))
        key = _key(plan)
        if key not in seen:
            seen[key] = time_call(emulator, call.machine, plan)[0].seconds
        seconds[count] = seen[key]
    least = min(seconds.values())
    plateau = tuple(count for count, value in seconds.items() if value <= least * (1 + PLATEAU))
    best = min(count for count, value in seconds.items() if value <= least * (1 + 1e-9))
    return SplitChoice(best, plateau, seconds)


def most_splits(emulator: Emulator, call: Call) -> int:
    """Give the largest count worth asking for: one KV tile a split."""
    knob = SPLIT_KNOB[emulator.name]
    tile = emulator.plan(Call(call.attention, call.batch, call.machine, {**call.knobs, knob: 1})).tile
    return max(1, min(MAX_SPLITS, -(-max(call.batch.kv_lens) // tile.keys)))


def _key(plan: Plan) -> object:
    return (plan.jobs, plan.merge_splits, plan.merge_launched, plan.empty_ctas, plan.partial_rows)
