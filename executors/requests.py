"""A batch cut into its requests, for backends that make one library call a request."""

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from executors.inputs import Inputs


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One request: where its queries are, and the keys that any of them can see."""

    index: int
    q: slice
    """Its rows of `Inputs.q`."""
    tokens: "Tensor"
    """int64 `[keys]`: flat cache rows of the visible keys."""
    first_key: int
    """Position of the first visible key; keys before it are outside every query's window or chunk."""
    prefix: int
    """Position of its first query."""

    @property
    def q_len(self) -> int:
        """New tokens."""
        return int(self.q.stop - self.q.start)

    @property
    def keys(self) -> int:
        """Visible keys."""
        return self.tokens.shape[0]


def split_requests(inputs: "Inputs") -> list[Request]:
    """Cut the batch into requests; keys that no query of a request sees are left out."""
    attention, batch = inputs.attention, inputs.batch
    kv_starts, q_starts = [0, *accumulate(batch.kv_lens)], [0, *accumulate(batch.q_lens)]
    requests = []
    for index, (q, kv) in enumerate(zip(batch.q_lens, batch.kv_lens, strict=True)):
        prefix = kv - q
        first = 0
        if attention.sliding_window is not None:
            first = max(first, prefix - attention.sliding_window + 1)
        if attention.chunk_size is not None:
            first = max(first, prefix // attention.chunk_size * attention.chunk_size)
        tokens = inputs.token_slots[kv_starts[index] + first : kv_starts[index + 1]]
        requests.append(Request(index, slice(q_starts[index], q_starts[index + 1]), tokens, first, prefix))
    return requests


def request_mask(inputs: "Inputs", request: Request) -> "Tensor | None":
    """Say which keys each query of a request sees, bool `[q_len, keys]`; None where all see all."""
    import torch

    from executors.visibility import Reach

    query = torch.arange(request.prefix, request.prefix + request.q_len, device=inputs.device)[:, None]
    key = torch.arange(request.first_key, request.first_key + request.keys, device=inputs.device)
    mask = Reach.of(inputs.attention).sees(query, key)
    if inputs.tree_mask is not None:
        batch = inputs.batch
        start = sum(q * kv for q, kv in zip(batch.q_lens[: request.index], batch.kv_lens, strict=False))
        kv = batch.kv_lens[request.index]
        tree = inputs.tree_mask[start : start + request.q_len * kv].view(request.q_len, kv)
        mask = mask & tree[:, request.first_key :]
    return None if bool(mask.all()) else mask
