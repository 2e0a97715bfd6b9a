"""What a kernel that stored the score matrix would have to hold and move, beside what attention really moves."""

from costmodel.score_matrix import PASSES, StoredScores

UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def score_matrix_words(stored: StoredScores) -> str:
    """Say it in two lines."""
    return (
        f"  stored, the scores would take {binary(stored.head_bytes)} a head, {binary(stored.bytes)} for "
        f"{stored.heads} heads; inputs and output are {binary(stored.least_bytes)}\n"
        f"  passing over stored scores {PASSES} times, no kernel would need less than {stored.seconds * 1e6:.1f} us"
    )


def score_matrix_json(stored: StoredScores) -> dict[str, float]:
    """Give it with the units in the names."""
    return {
        "head_bytes": stored.head_bytes,
        "all_heads_bytes": stored.bytes,
        "least_bytes": stored.least_bytes,
        "moved_bytes": stored.moved_bytes,
        "limit_us": stored.seconds * 1e6,
    }


def binary(count: float) -> str:
    """Write bytes in binary units."""
    for unit, size in UNITS:
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count:.0f} B"
