"""Where a tuned configuration is looked for: explicit file, folder of the environment, cache, packaged, the model."""

import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from costmodel import Attention, Batch, rank
from costmodel.record import RecordedDevice
from executors.outcome import Candidate
from hwprofiles import Profile, ProfileError, UnknownProfile, cache_home, load_profile
from tuner.configuration import Configuration, ConfigurationError, read
from tuner.defaults import engine_defaults
from tuner.filename import configuration_name
from tuner.outdated import installed, mark_outdated
from tuner.plain_model import plain_model
from tuner.policy import Policy, PolicyChoice
from tuner.reachable import OWN_BACKENDS
from tuner.space import pick_default
from tuner.unmeasured import choose_unmeasured
from tuner.versions import device_differences

FOLDER_VARIABLE = "ATTNROOF_CONFIG_FOLDER"
PACKAGED = Path(__file__).parent / "configs"
Source = Literal["explicit", "environment", "cache", "packaged", "model"]

_log = logging.getLogger("attnroof.lookup")
_warned: set[str] = set()


@dataclass(frozen=True, slots=True)
class Found:
    """What the lookup found."""

    configuration: Configuration | None
    path: Path | None
    source: Source
    other_version: tuple[str, ...] = ()
    """Why rows count as another environment's: SM architecture or count, or a library's major.minor, differ."""


def find_configuration(
    attention: Attention, device: RecordedDevice, *, page_size: int = 1, explicit: Path | str | None = None
) -> Found:
    """Look for a configuration by content and device identity; never raises.

    The first place that holds one of this device wins. One of another SM architecture or count is used only where
    there is no better, and named as another version's. What is found nowhere is warned about once, with the path and
    the command that would make it.
    """
    near: Found | None = None
    for source, path in _places(explicit):
        try:
            configuration = read(path)
        except ConfigurationError as error:
            _warn_once(f"ignored: {error}")
            continue
        if configuration.to_attention() != attention or configuration.page_size != page_size:
            continue
        differences = device_differences(configuration.device, device)
        if not differences:
            return _found(configuration, path, source)
        if configuration.device.name == device.name and near is None:
            near = Found(configuration, path, source, tuple(differences))
    if near is not None:
        _warn_once(f"{near.path} is of another version: {'; '.join(near.other_version)}; tune again on this device")
        return near
    name = configuration_name(device, attention, page_size)
    _warn_once(
        f"no tuned configuration for this attention on {device.name}: looked for {cache_folder() / name}; the cost "
        f"model decides. Make it with: attnroof tune --model CONFIG --out {cache_folder()}"
    )
    return Found(None, None, "model")


def _found(configuration: Configuration, path: Path, source: Source) -> Found:
    marked, changes = mark_outdated(configuration, installed)
    if changes:
        _warn_once(f"{path} has rows of other versions: {'; '.join(changes)}; check them with attnroof validate")
    return Found(marked, path, source, changes)


def find_policy(
    attention: Attention, device: RecordedDevice, *, page_size: int = 1, explicit: Path | str | None = None
) -> Policy:
    """Look for a configuration and answer from it, and from the cost model where it says nothing; never raises."""
    found = find_configuration(attention, device, page_size=page_size, explicit=explicit)
    configurations = [found.configuration] if found.configuration else []
    paths = [found.path] if found.path else []
    return Policy(configurations, paths, fallback=model_fallback(device))


def model_fallback(device: RecordedDevice) -> "ModelFallback | None":
    """The cost model for a device, or None where there is no profile of it, or none that can be read."""
    try:
        return ModelFallback(load_profile(device.name))
    except UnknownProfile:
        return None
    except ProfileError as error:
        _warn_once(f"no answers from the cost model: {error}")
        return None


@dataclass(frozen=True, slots=True)
class ModelFallback:
    """Answers from the cost model alone."""

    profile: Profile

    def __call__(self, attention: Attention, batch: Batch) -> PolicyChoice | None:
        """SGLang's own choice, or a predicted one where its gain exceeds the uncertainty."""
        rows = [
            (Candidate(row.backend, dict(row.knobs)), row.prediction)
            for row in rank(attention, batch, profile=self.profile)
            if row.prediction is not None and row.backend not in OWN_BACKENDS
        ]
        if not rows:
            return None
        candidates, predictions = [c for c, _ in rows], {c.key: p for c, p in rows}
        default = pick_default([c for c in candidates if not c.knobs], self._defaults(attention, batch))
        chosen = choose_unmeasured(candidates, default, predictions)
        p = predictions[chosen.key]
        how = "SGLang's default: no predicted gain exceeds its uncertainty" if chosen == default else "the fastest"
        text = f"the cost model alone ({p.evidence}), {how}; {p.implementation} {p.implementation_version}"
        return PolicyChoice(chosen.backend, dict(chosen.knobs), "model", text, 1e6 * p.seconds)

    def _defaults(self, attention: Attention, batch: Batch) -> tuple[str, ...]:
        return engine_defaults(plain_model(attention), self.profile, 1, batch.page_size)(batch.phase)


def cache_folder() -> Path:
    """Folder of the user's own configurations."""
    return cache_home() / "attnroof" / "configs"


def _places(explicit: Path | str | None) -> Iterator[tuple[Source, Path]]:
    if explicit is not None:
        yield from (("explicit", path) for path in _files(Path(explicit)))
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        yield from (("environment", path) for path in _files(Path(folder)))
    yield from (("cache", path) for path in _files(cache_folder()))
    yield from (("packaged", path) for path in _files(PACKAGED))


def _files(place: Path) -> Iterable[Path]:
    try:
        return sorted(place.rglob("attn,*.json")) if place.is_dir() else [place] if place.exists() else []
    except OSError as error:
        _warn_once(f"ignored: cannot read {place}: {error.strerror or error}")
        return []


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        _log.warning("%s", text)
