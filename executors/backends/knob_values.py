"""Knob values of one call, checked, and the split counts worth trying."""

from collections.abc import Mapping

from executors.base import Knobs, KnobValue


def knob_values(backend: str, knobs: Knobs, defaults: Mapping[str, KnobValue]) -> dict[str, KnobValue]:
    """Fill in defaults.

    Raises:
        ValueError: A knob is not among the defaults.
    """
    unknown = sorted(set(knobs) - set(defaults))
    if unknown:
        known = ", ".join(sorted(defaults)) or "none"
        raise ValueError(f"{backend} has no knob {', '.join(unknown)}; its knobs: {known}")
    return {**defaults, **knobs}


def whole(backend: str, name: str, value: KnobValue, low: int, high: int) -> int:
    """Check a whole number.

    Raises:
        ValueError: It is not one from `low` to `high`.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{backend}: {name}={value!r} must be a whole number from {low} to {high}")
    return value


def split_ladder(limit: int) -> tuple[int, ...]:
    """Split counts up to `limit`: each to 16, every second to 32, every fourth to 64, then 96 and 128."""
    ladder = (*range(1, 17), *range(18, 33, 2), *range(36, 65, 4), 96, 128)
    return tuple(s for s in ladder if s <= limit)
