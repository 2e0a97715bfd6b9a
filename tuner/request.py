"""What is to be tuned: a model's attention shapes on one rank, times the batches of a traffic."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from costmodel import Attention, Batch, LayerGroup, parse_batch_spec
from tuner.spec import spec_of
from tuner.workload import Workload

CPU_SPECS = ("q1k", "q256s2k", "4q1s4k", "q1s512_q1s1k_q1s2k_q1s8k")
"""A prefill, a chunk of a chunked prefill, an even and a ragged decode batch, small enough for a few CPU cores."""


@dataclass(frozen=True, slots=True)
class Request:
    """One tuning run."""

    model: str | None
    """Name of the model, for people."""
    workloads: tuple[Workload, ...]
    page_size: int = 1
    tensor_parallel: int = 1
    notes: tuple[str, ...] = ()

    @property
    def attentions(self) -> tuple[Attention, ...]:
        """The different attention shapes, in order."""
        return tuple(dict.fromkeys(w.attention for w in self.workloads))

    def layers(self, attention: Attention) -> int:
        """Layers of the model with that attention."""
        return next(w.layers for w in self.workloads if w.attention == attention)


def make_request(
    groups: Sequence[LayerGroup],
    specs: Iterable[str],
    *,
    model: str | None = None,
    page_size: int = 1,
    tensor_parallel: int = 1,
    dtype: str | None = None,
) -> Request:
    """Combine layer groups, as one rank holds them, with batches.

    Args:
        groups: Layer groups after tensor parallelism.
        specs: Batches in vLLM's grammar.
        model: Name of the model.
        page_size: Tokens in one page of the KV cache.
        tensor_parallel: The TP size behind `groups`.
        dtype: Dtype of queries, output and KV cache, where the model's own does not count (CPU).

    Raises:
        ValueError: No group can be tuned, or a specification cannot be read.
    """
    layers: dict[Attention, int] = {}
    notes = []
    for group in groups:
        if group.cross_attention:
            notes.append(f"{group.layers} cross-attention layers are left out: they read no paged KV of this model")
            continue
        attention = group.attention if dtype is None else replace(group.attention, dtype=dtype, kv_dtype=dtype)
        layers[attention] = layers.get(attention, 0) + group.layers
    if not layers:
        raise ValueError("the model has no self-attention layer with a KV cache: there is nothing to tune")
    batches = [parse_batch_spec(spec, page_size=page_size) for spec in dict.fromkeys(specs)]
    workloads = tuple(_workload(a, b, n) for a, n in layers.items() for b in batches)
    return Request(model, workloads, page_size, tensor_parallel, tuple(notes))


def _workload(attention: Attention, batch: Batch, layers: int) -> Workload:
    return Workload(attention, batch, spec_of(batch), layers)
