"""A batch reduced to the few numbers that a table of tuned choices is keyed by."""

from dataclasses import dataclass

from costmodel import Batch, Phase


@dataclass(frozen=True, slots=True)
class Point:
    """Requests, mean new tokens, mean and largest KV length."""

    phase: Phase
    batch_size: int
    q_len: int
    kv_len: int
    max_kv_len: int
    topk: int = 1

    @classmethod
    def of(cls, batch: Batch) -> "Point":
        """Reduce a batch."""
        n = batch.size
        q, kv = round(batch.total_q / n), round(batch.total_kv / n)
        return cls(batch.phase, n, q, kv, max(batch.kv_lens), batch.topk)

    @property
    def key(self) -> str:
        """`batch:kv_len` for decode, `batch:q_len:kv_len` otherwise; `:max` where lengths differ, `@topk` for trees."""
        middle = "" if self.phase == "decode" else f"{self.q_len}:"
        ragged = "" if self.max_kv_len == self.kv_len else f":{self.max_kv_len}"
        tree = "" if self.topk == 1 else f"@topk{self.topk}"
        return f"{self.batch_size}:{middle}{self.kv_len}{ragged}{tree}"
