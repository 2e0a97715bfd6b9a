"""A weight matrix of one layer and how tensor parallelism splits it."""

from dataclasses import dataclass
from typing import Literal

Split = Literal["n", "k", "none"]


@dataclass(frozen=True, slots=True)
class Projection:
    """`[tokens, k] x [k, n]` before tensor parallelism."""

    name: str
    n: int
    k: int
    split: Split = "n"
    """Which side ranks share; `none` where every rank holds all of it."""

    def on_rank(self, tp: int) -> tuple[int, int]:
        """Give n and k on one of `tp` ranks."""
        n = share(self.n, tp) if self.split == "n" else self.n
        k = share(self.k, tp) if self.split == "k" else self.k
        return n, k


def share(size: int, parts: int) -> int:
    """Give the largest of `parts` nearly equal shares."""
    return -(-size // parts)
