"""From what a person asked for to the tools of a run: device, profile, storage, measurer, records."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from costmodel import Model
from executors.environment import Environment
from executors.measurer import Measurer
from executors.outcome import Candidate, Outcome
from executors.recorder import Workload as Measurement
from executors.recorder import append_records, to_record
from hwprofiles import Profile, calibrated_here, detect_devices, detect_profile
from tuner.configuration import ConfigurationError, Provenance
from tuner.cost import TrialCost
from tuner.events import Note, Observer, silent
from tuner.owner import Owner
from tuner.search import Defaults, Tools
from tuner.store import open_store
from tuner.strategy import PLANS, Effort
from tuner.workload import Workload

RECORDS = "records.jsonl"
MAX_PREFIX = 64
"""Longest prefix of the studies' names, in characters."""
MAX_MODEL_JSON = 1 << 16
"""Longest config.json, in characters, that is kept in a configuration."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a run is to be done."""

    device: str
    out: Path
    storage: str | None = None
    """SQLAlchemy URL; None means a SQLite file in `out`."""
    prefix: str = "attnroof"
    effort: Effort = "quick"
    seed: int = 0
    worker: bool = False
    """Whether other workers search the same studies."""
    dry: bool = False
    """Whether nothing is to be written: studies live in memory."""

    def __post_init__(self) -> None:
        """Check the prefix, which databases limit."""
        if not (1 <= len(self.prefix) <= MAX_PREFIX and self.prefix.isprintable()):
            raise ValueError(f"study={self.prefix!r} must have 1 to {MAX_PREFIX} printable characters")

    @property
    def storage_url(self) -> str | None:
        """The storage's URL; None for memory."""
        if self.dry:
            return None
        return self.storage or f"sqlite:///{self.out / 'study.db'}"


def first_device() -> str:
    """The first GPU, else the CPU."""
    return detect_devices()[0].seen.device


def device_profile(device: str, say: Callable[[str], None] = lambda _: None, *, calibrated: bool = True) -> Profile:
    """Profile of a device at hand; a CPU that was never calibrated is calibrated quickly, if it has to be.

    Raises:
        hwprofiles.ProfileError: There is no such device.
    """
    profile = detect_profile(device)
    if calibrated and device == "cpu" and not calibrated_here(profile.files):
        from executors.calibrate import quick_cpu

        say(f"calibrating {profile.name} quickly (attnroof hw calibrate --device cpu keeps a thorough one)")
        return profile.model_copy(update={"measured": quick_cpu()})
    return profile


def make_tools(
    options: Options, measurer: Measurer, profile: Profile, defaults: Defaults, observe: Observer = silent
) -> Tools:
    """Open the storage and bring everything together.

    Raises:
        ConfigurationError: The output folder cannot be written.
        StoreError: The storage cannot be opened.
    """
    try:
        if not options.dry:
            options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot make the folder {options.out}: {error.strerror or error}") from None
    environment = measurer.environment()
    store = open_store(options.storage_url, wait=options.worker)
    store.on_wait = lambda text: observe(Note(text))
    return Tools(
        measurer=measurer,
        profile=profile,
        store=store,
        owner=Owner.me(environment.device),
        cost=TrialCost(environment.kind, PLANS[options.effort].repeats),
        record=Recorder(options.out / RECORDS, measurer),
        defaults=defaults,
        effort=options.effort,
        prefix=options.prefix,
        seed=options.seed,
        observe=observe,
    )


@dataclass(frozen=True, slots=True)
class Recorder:
    """Appends one JSON line per outcome."""

    path: Path
    measurer: Measurer

    def __call__(self, workload: Workload, candidate: Candidate, outcome: Outcome) -> str:
        """Write the record and return its line."""
        what = Measurement(workload.attention, workload.batch, self.measurer.environment())
        record = to_record(
            what, candidate, outcome, self.measurer.implementation_of(candidate, workload.attention, workload.batch)
        )
        append_records(self.path, [record])
        return record.to_line()


def make_provenance(options: Options, environment: Environment, command: str, model: Model, tp: int) -> Provenance:
    """Say where the rows of this run come from."""
    return Provenance(
        tool=f"attnroof {version('attnroof')}",
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        command=command,
        model=model.name,
        model_config_json=model.raw if len(json.dumps(model.raw)) <= MAX_MODEL_JSON else {},
        tensor_parallel=tp,
        seed=options.seed,
        source=environment.source,
        torch=environment.torch,
        cuda=environment.cuda,
        records=RECORDS,
    )
