"""What one forward step asks of an attention layer: the requests, their lengths and the page size."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Phase = Literal["decode", "extend", "verify", "mixed"]
PHASES: tuple[Phase, ...] = ("extend", "decode", "verify", "mixed")

MAX_REQUESTS = 1_000_000
MAX_TOKENS = 1 << 31


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of requests in one phase.

    Raises:
        ValueError: Lengths do not fit together; the message names field, value and rule.
    """

    phase: Phase
    q_lens: tuple[int, ...]
    """New query tokens per request, `[requests]`."""
    kv_lens: tuple[int, ...]
    """Visible KV tokens per request, the new ones included, `[requests]`."""
    page_size: int = 1
    """Tokens in one page of the KV cache."""
    topk: int = 1
    """Verify: branches of the draft tree; 1 is a causal chain."""
    layers: int = 1
    """Layers that share one plan."""
    shared_prefix: int = field(default=0, repr=False)
    """First tokens that all requests have in common, on the same pages; not in the repr, whose hash names workloads."""

    def __post_init__(self) -> None:
        """Check every field."""
        if self.phase not in PHASES:
            raise ValueError(f"phase={self.phase!r} is not one of {', '.join(PHASES)}")
        if not self.kv_lens:
            raise ValueError("kv_lens is empty: a batch needs at least one request")
        if len(self.q_lens) != len(self.kv_lens):
            raise ValueError(f"{len(self.q_lens)} q_lens but {len(self.kv_lens)} kv_lens")
        if len(self.kv_lens) > MAX_REQUESTS:
            raise ValueError(f"{len(self.kv_lens)} requests; at most {MAX_REQUESTS}")
        for name, value in (("page_size", self.page_size), ("topk", self.topk), ("layers", self.layers)):
            if not isinstance(value, int) or not 1 <= value <= 1 << 20:
                raise ValueError(f"{name}={value!r} must be a whole number from 1 to {1 << 20}")
        if min(self.q_lens) < 1:
            raise ValueError(f"q_lens holds {min(self.q_lens)}; every request needs at least one query token")
        if max(self.kv_lens) > MAX_TOKENS:
            raise ValueError(f"kv_lens holds {max(self.kv_lens)}; at most {MAX_TOKENS}")
        if self.phase == "decode" and max(self.q_lens) > 1:
            raise ValueError(f"q_lens holds {max(self.q_lens)}; decode has one query token a request")
        for q, kv in zip(self.q_lens, self.kv_lens, strict=True):
            if q > kv:
                raise ValueError(f"kv_lens={kv} is below q_lens={q}: kv_lens include the new tokens")
        if self.shared_prefix:
            self._check_shared_prefix()

    def _check_shared_prefix(self) -> None:
        shared = self.shared_prefix
        if not isinstance(shared, int) or isinstance(shared, bool) or shared < 0:
            raise ValueError(f"shared_prefix={shared!r} must be a whole number of tokens, at least 0")
        most = min(kv - q for q, kv in zip(self.q_lens, self.kv_lens, strict=True))
        if shared > most:
            raise ValueError(f"shared_prefix={shared} but a request has only {most} tokens before its new ones")
        if shared % self.page_size:
            raise ValueError(
                f"shared_prefix={shared} is no multiple of page_size={self.page_size}: pages are shared whole"
            )

    @classmethod
    def decode(cls, kv_lens: Sequence[int], page_size: int = 1, layers: int = 1, *, shared_prefix: int = 0) -> "Batch":
        """Make a decode batch: one new token per request."""
        lens = _lens("kv_lens", kv_lens)
        return cls("decode", (1,) * len(lens), lens, page_size, 1, layers, shared_prefix)

    @classmethod
    def extend(
        cls,
        q_lens: Sequence[int],
        kv_lens: Sequence[int],
        page_size: int = 1,
        layers: int = 1,
        *,
        shared_prefix: int = 0,
    ) -> "Batch":
        """Make a prefill, chunked-prefill or mixed batch; it is `mixed` when some requests decode (q = 1, kv > 1)."""
        q, kv = _lens("q_lens", q_lens), _lens("kv_lens", kv_lens)
        decodes = sum(a == 1 and b > 1 for a, b in zip(q, kv, strict=False))
        phase: Phase = "mixed" if 0 < decodes < len(q) else "extend"
        return cls(phase, q, kv, page_size, 1, layers, shared_prefix)

    @classmethod
    def verify(
        cls, kv_lens: Sequence[int], draft_tokens: int, topk: int = 1, page_size: int = 1, layers: int = 1
    ) -> "Batch":
        """Make a speculative-verification batch of `draft_tokens` queries per request."""
        lens = _lens("kv_lens", kv_lens)
        return cls("verify", (draft_tokens,) * len(lens), lens, page_size, topk, layers)

    @property
    def size(self) -> int:
        """Requests in the batch."""
        return len(self.kv_lens)

    @property
    def uniform(self) -> bool:
        """Whether all requests have the same lengths."""
        n = len(self.kv_lens)
        return self.kv_lens.count(self.kv_lens[0]) == n and self.q_lens.count(self.q_lens[0]) == n

    @property
    def total_q(self) -> int:
        """Query tokens of all requests."""
        return sum(self.q_lens)

    @property
    def total_kv(self) -> int:
        """Visible KV tokens of all requests."""
        return sum(self.kv_lens)


def _lens(name: str, values: Sequence[int]) -> tuple[int, ...]:
    try:
        lens = tuple(values)
    except TypeError:
        raise ValueError(f"{name}={values!r} must be a sequence of whole numbers") from None
    for value in set(lens):
        if type(value) is not int:
            try:
                whole = int(value) == value and not isinstance(value, bool)
            except (TypeError, ValueError, OverflowError):
                whole = False
            if not whole:
                raise ValueError(f"{name} holds {value!r}; lengths are whole numbers")
        if value < 1:
            raise ValueError(f"{name} holds {value}; lengths are at least 1")
    return lens if all(type(v) is int for v in lens) else tuple(int(v) for v in lens)
