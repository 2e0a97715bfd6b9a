"""Fill a configuration's tables between their rows with what the model says."""

from collections.abc import Mapping

from costmodel import Attention, Batch, Incompatible, Phase, UnknownBackend, predict
from executors.outcome import Candidate
from hwprofiles import MissingValue, Profile
from tuner.between import Between, Predict, between_rows
from tuner.configuration import Configuration

FILLED: tuple[Phase, ...] = ("decode", "extend", "verify")


def fill_between(configuration: Configuration, profile: Profile) -> Configuration:
    """Work out the winners between the measured rows of each phase."""
    attention = configuration.to_attention()
    grids: Mapping[Phase, Between | None] = {
        phase: between_rows(
            attention, configuration.page_size, phase, configuration.table(phase).values(), model(profile)
        )
        for phase in FILLED
    }
    return configuration.model_copy(update={"between": {k: grid for k, grid in grids.items() if grid is not None}})


def model(profile: Profile) -> Predict:
    """The cost model as a function of attention, batch and candidate."""

    def ask(attention: Attention, batch: Batch, candidate: Candidate) -> float | None:
        try:
            return predict(attention, batch, backend=candidate.backend, profile=profile, knobs=candidate.knobs).seconds
        except (Incompatible, UnknownBackend, MissingValue, ValueError):
            return None

    return ask
