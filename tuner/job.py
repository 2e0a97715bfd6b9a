"""From a model's config.json and a device to a tuning run that is ready to start."""

from collections.abc import Sequence
from dataclasses import dataclass

from costmodel import Batch, LayerGroup, Model, Phase, group_per_rank, load_model
from costmodel.predict import kv_cache_bytes
from executors.measurer import Measurer
from hwprofiles import Profile
from tuner.buckets import choose_buckets, tokens_that_fit
from tuner.defaults import engine_defaults
from tuner.dtype import choose_dtype
from tuner.events import Note, Observer
from tuner.request import CPU_SPECS, Request, make_request
from tuner.search import Tools
from tuner.setup import Options, make_tools
from tuner.spec import spec_of
from tuner.strategy import Effort

BUCKETS: dict[Effort, dict[Phase, int]] = {
    "quick": {"extend": 6, "decode": 10, "verify": 2},
    "full": {"extend": 14, "decode": 32, "verify": 8},
}
"""Batches per phase and attention shape."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person asked to tune."""

    model: str
    """A config.json or the folder that holds it."""
    specs: tuple[str, ...] = ()
    """Batches in vLLM's grammar; none means the device's default ones."""
    tensor_parallel: int = 1
    page_size: int = 1
    kv_dtype: str = "auto"
    dtype: str = "auto"


@dataclass(frozen=True, slots=True)
class Job:
    """A run that can start."""

    request: Request
    tools: Tools
    model: Model


def prepare_job(asked: Asked, options: Options, measurer: Measurer, profile: Profile, observe: Observer) -> Job:
    """Read the model, choose workloads and dtype, open the storage.

    Raises:
        ValueError: The model, a batch, the folder or the storage cannot be used; the message says why.
    """
    model = load_model(asked.model)
    groups = [group_per_rank(g, asked.tensor_parallel, asked.kv_dtype) for g in model.layer_groups]
    dtype = _dtype(asked, groups, measurer, profile, observe)
    specs = asked.specs or (CPU_SPECS if profile.kind == "cpu" else _bucket_specs(asked, groups, profile, options))
    request = make_request(
        groups,
        specs,
        model=model.name,
        page_size=asked.page_size,
        tensor_parallel=asked.tensor_parallel,
        dtype=dtype,
    )
    check_memory(request, profile)
    for note in request.notes:
        observe(Note(note))
    defaults = engine_defaults(model, profile, asked.tensor_parallel, asked.page_size, asked.kv_dtype)
    return Job(request, make_tools(options, measurer, profile, defaults, observe), model)


def check_memory(request: Request, profile: Profile) -> None:
    """See that the KV cache of one layer fits the device.

    Raises:
        ValueError: It does not; the message gives both sizes.
    """
    memory = profile.memory_bytes
    for workload in request.workloads:
        needed = kv_cache_bytes(workload.attention, workload.batch)
        if memory is not None and needed > memory:
            raise ValueError(
                f"batch spec {workload.spec}: the KV cache of one layer takes {needed / 1e9:.1f} GB, "
                f"{profile.name} has {memory / 1e9:.1f} GB of memory; use fewer or shorter requests or a larger --tp"
            )


def _bucket_specs(asked: Asked, groups: Sequence[LayerGroup], profile: Profile, options: Options) -> list[str]:
    """Batches at which the model says that the winner changes, for the group with the most layers."""
    group = max((g for g in groups if not g.cross_attention), key=lambda g: g.layers, default=groups[0])
    fit = tokens_that_fit(profile, sum(g.layers * g.attention.kv_bytes_per_token for g in groups))
    limits = BUCKETS[options.effort]
    batches = choose_buckets(group.attention, profile, page_size=asked.page_size, limits=limits, most_tokens=fit)
    return [spec_of(batch) for batch in batches]


def _dtype(
    asked: Asked, groups: Sequence[LayerGroup], measurer: Measurer, profile: Profile, observe: Observer
) -> str | None:
    if asked.dtype != "auto":
        return asked.dtype
    if profile.kind != "cpu":
        return None
    choice = choose_dtype(measurer, groups[0].attention, Batch.decode([4096]), profile)
    observe(Note(str(choice)))
    return choice.dtype
