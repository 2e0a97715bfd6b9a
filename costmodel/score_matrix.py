"""The teaching baseline: attention in three steps, with the score matrix in memory between them."""

from dataclasses import dataclass

from costmodel.attention import DTYPE_BYTES, Attention
from costmodel.batch import Batch
from costmodel.machine import Machine
from costmodel.work import count_work

PASSES = 4
"""The products write the scores, the softmax reads and writes them, the second product reads them."""


@dataclass(frozen=True, slots=True)
class StoredScores:
    """What attention with a stored score matrix holds and moves, and the least time that takes."""

    head_bytes: float
    """Scores of one head over all requests, in the dtype of the queries; the mask saves nothing."""
    heads: int
    least_bytes: float
    """Inputs and output, each moved once: what attention without the matrix needs."""
    moved_bytes: float
    """Inputs, output and every pass over the scores of all heads."""
    seconds: float
    """No implementation is faster: bytes at the datasheet bandwidth or products at the matrix peak."""

    @property
    def bytes(self) -> float:
        """Scores of all heads."""
        return self.head_bytes * self.heads


def stored_scores(attention: Attention, batch: Batch, machine: Machine) -> StoredScores:
    """Count attention that stores its scores: 32,768 queries over as many keys take 2 GiB a head in 16 bit."""
    scores = sum(q * kv for q, kv in zip(batch.q_lens, batch.kv_lens, strict=True))
    head = scores * DTYPE_BYTES[attention.dtype]
    least = count_work(attention, batch).bytes
    moved = least + PASSES * head * attention.num_qo_heads
    flops = 2.0 * scores * attention.num_qo_heads * (attention.head_dim + attention.value_dim)
    seconds = max(moved / machine.memory_bytes_per_s, flops / machine.matrix_rate(attention.dtype))
    return StoredScores(head, attention.num_qo_heads, least, moved, seconds)
