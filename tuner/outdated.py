"""Rows of another library version: still used, with a wider interval and a status that says so."""

from collections.abc import Callable

from costmodel import Attention, Batch
from executors.outcome import Candidate
from tuner.configuration import TABLES, Configuration
from tuner.row import Choice, Row
from tuner.versions import same_implementation

WIDER = 1.25
"""Factor on either side of what was measured: library upgrades have moved attention kernels by about as much."""

Implementation = Callable[[Candidate, Attention, Batch], tuple[str, str] | None]


def mark_outdated(
    configuration: Configuration, implementation: Implementation
) -> tuple[Configuration, tuple[str, ...]]:
    """Mark the rows whose choice was measured with another version than is installed.

    Args:
        configuration: As it was saved; it is not changed on disk.
        implementation: Library and version that run a candidate here; None where it is not installed.

    Returns:
        The configuration with marked rows, and the version changes in words.
    """
    changes: dict[str, None] = {}
    tables = {}
    attention = configuration.to_attention()
    for name in TABLES:
        rows = {}
        for key, row in configuration.table(name).items():
            now = implementation(row.best.candidate, attention, row.batch(configuration.page_size))
            change = _change(row.best, now)
            if change is not None:
                changes[change] = None
            rows[key] = row if change is None else _mark(row, change)
        tables[name] = rows
    return (configuration.model_copy(update=tables), tuple(changes)) if changes else (configuration, ())


def installed(candidate: Candidate, attention: Attention, batch: Batch) -> tuple[str, str] | None:
    """Library and version that run a candidate in this environment; nothing heavy is imported."""
    from costmodel import UnknownBackend
    from executors.registry import get_backend

    try:
        return get_backend(candidate.backend).implementation_for(attention, batch, candidate.knobs)
    except (UnknownBackend, ImportError):
        return None


def _change(choice: Choice, now: tuple[str, str] | None) -> str | None:
    old = (choice.implementation, choice.implementation_version)
    if now is None or same_implementation(old, now):
        return None
    return f"{choice.backend} was measured with {' '.join(old)}, here is {' '.join(now)}"


def _mark(row: Row, change: str) -> Row:
    best = row.best
    middle = best.measured_us or best.predicted_us
    if middle is not None:
        low, high = min(best.low_us or middle, middle / WIDER), max(best.high_us or middle, middle * WIDER)
        best = best.model_copy(update={"low_us": low, "high_us": high})
    return row.model_copy(update={"best": best, "status": "other_version", "notes": (*row.notes, change)})
