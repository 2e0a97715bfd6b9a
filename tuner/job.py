"""From a model's config.json and a device to a tuning run that is ready to start."""

from collections.abc import Sequence
from dataclasses import dataclass

from costmodel import Batch, LayerGroup, Model, group_per_rank, load_model
from executors.measurer import Measurer
from hwprofiles import Profile
from tuner.defaults import engine_defaults
from tuner.dtype import choose_dtype
from tuner.events import Note, Observer
from tuner.request import CPU_SPECS, GPU_SPECS, Request, make_request
from tuner.search import Tools
from tuner.setup import Options, make_tools


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
    request = make_request(
        groups,
        asked.specs or (CPU_SPECS if profile.kind == "cpu" else GPU_SPECS),
        model=model.name,
        page_size=asked.page_size,
        tensor_parallel=asked.tensor_parallel,
        dtype=dtype,
    )
    for note in request.notes:
        observe(Note(note))
    defaults = engine_defaults(model, profile, asked.tensor_parallel, asked.page_size)
    return Job(request, make_tools(options, measurer, profile, defaults, observe), model)


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
