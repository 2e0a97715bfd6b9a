"""What `predict` is asked to assume beyond model, device and batch, and the estimates under it."""

from dataclasses import dataclass, field
from typing import Literal

from costmodel import (
    Attention,
    Batch,
    Incompatible,
    Knobs,
    Ranked,
    form_for,
    predict,
    rank,
    rank_as_served,
    served_form,
)
from costmodel.deterministic import deterministic_knobs
from costmodel.emulators import EMULATORS
from hwprofiles import Profile

FormChoice = Literal["auto", "absorbed", "expanded"]


@dataclass(frozen=True, slots=True)
class Asked:
    """Backends, knobs and mode of serving."""

    backends: tuple[str, ...] = ()
    """Only these; empty means all."""
    knobs: Knobs = field(default_factory=dict)
    deterministic: bool = False
    mla_form: FormChoice = "auto"
    context_len: int | None = None
    """Longest context that the server allows: what deterministic Triton decode launches its grid for."""

    def form(self, attention: Attention, batch: Batch, backend: str, profile: Profile) -> Attention:
        """Give the form of MLA to estimate a backend with."""
        if self.mla_form == "absorbed":
            return attention
        if self.mla_form == "expanded":
            return form_for(attention, batch.phase)
        return served_form(attention, batch, backend, profile=profile, deterministic=self.deterministic)


def estimates(attention: Attention, batch: Batch, profile: Profile, asked: Asked) -> list[Ranked]:
    """Rank all backends with the knobs worth trying, or estimate the named ones as asked; fastest first."""
    if asked.backends or asked.deterministic:
        rows = [_one(attention, batch, profile, name, asked) for name in asked.backends or EMULATORS]
        return sorted(rows, key=lambda row: row.prediction.seconds if row.prediction else float("inf"))
    if asked.mla_form == "auto":
        return rank_as_served(attention, batch, profile=profile)
    return rank(asked.form(attention, batch, "", profile), batch, profile=profile)


def best_free(attention: Attention, batch: Batch, profile: Profile, asked: Asked) -> dict[str, float]:
    """Give, per backend, the seconds of the best knobs where nothing has to be deterministic."""
    free = Asked(mla_form=asked.mla_form)
    best: dict[str, float] = {}
    for row in estimates(attention, batch, profile, free):
        if row.prediction is not None:
            best.setdefault(row.backend, row.prediction.seconds)
    return best


def _one(attention: Attention, batch: Batch, profile: Profile, name: str, asked: Asked) -> Ranked:
    knobs = dict(asked.knobs)
    if asked.deterministic and name == "triton" and batch.phase == "decode" and asked.context_len:
        knobs = {"context_len": asked.context_len, **knobs}
    form = asked.form(attention, batch, name, profile)
    try:
        p = predict(form, batch, backend=name, profile=profile, knobs=knobs, deterministic=asked.deterministic)
    except Incompatible as error:
        return Ranked(name, knobs, None, error.reasons)
    return Ranked(name, {**knobs, **deterministic_knobs(name, batch)} if asked.deterministic else knobs, p)
