"""A batch written in vLLM's batch grammar."""

from itertools import groupby

from costmodel import Batch


def spec_of(batch: Batch) -> str:
    """Write a batch as `(<n>)q<len>[k][s<len>[k]]` joined by `_`, order kept."""
    parts = []
    for (q, kv), run in groupby(zip(batch.q_lens, batch.kv_lens, strict=True)):
        count = sum(1 for _ in run)
        context = "" if kv == q else f"s{_length(kv)}"
        parts.append(f"{count if count > 1 else ''}q{_length(q)}{context}")
    return "_".join(parts)


def _length(n: int) -> str:
    return f"{n // 1024}k" if n % 1024 == 0 else str(n)
