"""Export as a launch line: the pair of backends that one server can be told, checked against the engine's own rules."""

from dataclasses import dataclass
from typing import Literal

from costmodel import LaunchChoice, LaunchPlan, Model, sglang_launch, vllm_launch
from costmodel.models import read_model
from hwprofiles import Profile, load_profile
from tuner.configuration import Configuration, ConfigurationError
from tuner.reduce import Pair, Reduced, reduce_to_pair
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
    pair = reduce_to_pair(configuration, traffic)
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
    write = sglang_launch if engine == "sglang" else vllm_launch
    plan = write(choice, _model(configuration), _profile(configuration))
    notes += [
        f"{name}: {s.missing} of {s.rows} rows have no time for this choice"
        for name, s in _named(pair)
        if s and s.missing
    ]
    return Launch(plan, pair, tuple(notes))


def _named(pair: Pair) -> tuple[tuple[str, Reduced | None], ...]:
    return ("prefill", pair.prefill), ("decode", pair.decode)


def _kv_dtype(configuration: Configuration) -> str:
    attention = configuration.to_attention()
    return "auto" if attention.kv_dtype == attention.dtype else attention.kv_dtype


def _model(configuration: Configuration) -> Model:
    provenance = configuration.provenance
    if not provenance.model_config_json:
        raise ConfigurationError(
            "the configuration does not hold its model's config.json, so no launch line can be checked; tune again"
        )
    return read_model(provenance.model_config_json, name=provenance.model or "model")


def _profile(configuration: Configuration) -> Profile:
    return load_profile(configuration.provenance.profile or configuration.device.name)
