"""What a kernel that stored the score matrix would have to hold, beside what attention really moves."""

from costmodel import Attention, Batch
from costmodel.attention import DTYPE_BYTES
from costmodel.work import count_work

UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def score_matrix_bytes(attention: Attention, batch: Batch) -> float:
    """Bytes of one head's scores over all requests, in the dtype of the queries."""
    scores = sum(q * kv for q, kv in zip(batch.q_lens, batch.kv_lens, strict=True))
    return scores * DTYPE_BYTES[attention.dtype]


def score_matrix_words(attention: Attention, batch: Batch) -> str:
    """Say it in one line."""
    head = score_matrix_bytes(attention, batch)
    least = count_work(attention, batch).bytes
    return (
        f"  stored, the scores would take {binary(head)} a head, {binary(head * attention.num_qo_heads)} for "
        f"{attention.num_qo_heads} heads; inputs and output are {binary(least)}"
    )


def binary(count: float) -> str:
    """Write bytes in binary units."""
    for unit, size in UNITS:
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count:.0f} B"
