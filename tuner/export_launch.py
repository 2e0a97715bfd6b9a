"""Export as a launch line: the pair of backends that one server can be told, checked against the engine's own rules."""

from dataclasses import dataclass, replace
from typing import Literal

from costmodel import LaunchChoice, LaunchPlan, Model, sglang_launch, vllm_launch
from costmodel.models import read_model
from executors.outcome import Candidate
from hwprofiles import Profile, load_profile
from tuner.between import Estimator
from tuner.configuration import Configuration, ConfigurationError
from tuner.fill import model
from tuner.plain_model import TORCH_DTYPES
from tuner.reduce import Estimate, Pair, Reduced, reduce_to_pair
from tuner.row import Row
from tuner.traffic import Traffic

Engine = Literal["sglang", "vllm"]


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch line and what it loses against the table."""

    plan: LaunchPlan
    pair: Pair
    notes: tuple[str, ...]


def launch(configuration: Configuration, engine: Engine, traffic: Traffic | None = None) -> Launch:
    """Reduce a configuration to what a server can be told.

    Raises:
        NothingReachable: The table holds nothing that the server can be told.
        costmodel.LaunchRefused: The engine's rules refuse the pair.
        ConfigurationError: The configuration does not say which model it is of.
    """
    profile = _profile(configuration)
    pair = reduce_to_pair(configuration, traffic, estimator(configuration, profile))
    sides = (pair.prefill, pair.decode)
    notes = [f"no rows for {name}: the other side's backend is used" for name, side in _named(pair) if side is None]
    prefill, decode = (side or next(s for s in sides if s is not None) for side in sides)
    choice = LaunchChoice(
        prefill=prefill.choice.backend,
        decode=decode.choice.backend,
        page_size=configuration.page_size,
        kv_cache_dtype=_kv_dtype(configuration),
        prefill_knobs=prefill.choice.knobs,
        decode_knobs=decode.choice.knobs,
        tensor_parallel=configuration.provenance.tensor_parallel,
    )
    written = _model(configuration)
    dtype = _dtype(configuration, written)
    if engine == "sglang":
        plan = sglang_launch(replace(choice, other_flags=dtype), written, profile)
    else:
        plan = vllm_launch(choice, written, profile)
        plan = replace(plan, flags=(*plan.flags, *dtype))
    for name, side in _named(pair):
        if side is not None and side.estimated:
            notes.append(f"{name}: {side.estimated} of {side.rows} rows are estimated for this choice by the model")
        if side is not None and side.missing:
            notes.append(f"{name}: {side.missing} of {side.rows} rows have no time for this choice and are left out")
    return Launch(plan, pair, tuple(notes))


def estimator(configuration: Configuration, profile: Profile) -> Estimate:
    """Estimate unmeasured choices by the model, moved by their measurements in other rows of the phase."""
    attention, page_size, predict = configuration.to_attention(), configuration.page_size, model(profile)

    def estimate(row: Row, candidate: Candidate) -> float | None:
        rows = [r for r in configuration.table(row.phase).values() if not r.ragged and r.topk == 1]
        table = Estimator(attention, page_size, row.phase, rows, predict)
        seconds = table.seconds(candidate, (row.batch_size, row.q_len, row.kv_len))
        return None if seconds is None else 1e6 * seconds

    return estimate


def _named(pair: Pair) -> tuple[tuple[str, Reduced | None], ...]:
    return ("prefill", pair.prefill), ("decode", pair.decode)


def _kv_dtype(configuration: Configuration) -> str:
    attention = configuration.to_attention()
    return "auto" if attention.kv_dtype == attention.dtype else attention.kv_dtype


def _dtype(configuration: Configuration, written: Model) -> tuple[str, ...]:
    """Name the dtype where it is not the model's own: a CPU is tuned in what it runs fastest."""
    dtype = configuration.to_attention().dtype
    return () if dtype == written.dtype or dtype not in TORCH_DTYPES else ("--dtype", TORCH_DTYPES[dtype])


def _model(configuration: Configuration) -> Model:
    provenance = configuration.provenance
    if not provenance.model_config_json:
        raise ConfigurationError(
            "the configuration does not hold its model's config.json, so no launch line can be checked; tune again"
        )
    return read_model(provenance.model_config_json, name=provenance.model or "model")


def _profile(configuration: Configuration) -> Profile:
    return load_profile(configuration.provenance.profile or configuration.device.name)
