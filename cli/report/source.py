"""What a report is made from: the records of one device, or tuned configurations read as records."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from cli.errors import AnswerIsNo, WrongInput
from cli.report.words import at_defaults, shape_name
from costmodel import Attention, Batch, KnobValue, Record
from costmodel.accuracy import Row, rows_of
from costmodel.library import OWN_KERNELS
from costmodel.record import SCHEMA, RecordedBatch

if TYPE_CHECKING:
    from hwprofiles import Profile
    from tuner.configuration import Configuration
    from tuner.row import Choice
    from tuner.row import Row as TunedRow


@dataclass(frozen=True)
class Workload:
    """All that was measured of one batch with one attention shape."""

    attention: Attention
    batch: Batch
    rows: tuple[Row, ...]

    @cached_property
    def shape(self) -> str:
        """Name of the attention shape."""
        return shape_name(self.attention)

    @cached_property
    def rivals(self) -> tuple[Row, ...]:
        """Candidates that a server can be told to use: the project's own kernels are in no comparison of these."""
        return tuple(r for r in self.rows if r.backend != OWN_KERNELS) or self.rows

    @cached_property
    def own(self) -> Row | None:
        """The project's own kernels at their best."""
        return min((r for r in self.rows if r.backend == OWN_KERNELS), key=lambda r: r.measured, default=None)

    @cached_property
    def best(self) -> Row:
        """The fastest rival, whatever its knobs."""
        return min(self.rivals, key=lambda r: r.measured)

    @cached_property
    def defaults(self) -> dict[str, Row]:
        """Rivals at default knobs by backend, fastest first."""
        found: dict[str, Row] = {}
        for row in sorted(self.rivals, key=lambda r: r.measured):
            if at_defaults(row.backend, row.knobs):
                found.setdefault(row.backend, row)
        return found


@dataclass(frozen=True)
class Source:
    """Measured rows of one device with their predictions."""

    profile: "Profile"
    records: tuple[Record, ...]
    rows: tuple[Row, ...]
    name: str
    """Where they come from, for people."""
    configurations: "tuple[Configuration, ...]" = ()
    remarks: tuple[str, ...] = ()

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """Rows by attention and batch."""
        groups: dict[tuple[Attention, Batch], list[Row]] = defaultdict(list)
        for row in self.rows:
            groups[row.attention, row.batch].append(row)
        return tuple(Workload(a, b, tuple(rows)) for (a, b), rows in groups.items())

    @cached_property
    def shapes(self) -> dict[str, tuple[Workload, ...]]:
        """Shape name to its workloads, the shape with the most first."""
        groups: dict[str, list[Workload]] = defaultdict(list)
        for workload in self.workloads:
            groups[workload.shape].append(workload)
        return {name: tuple(own) for name, own in sorted(groups.items(), key=lambda item: -len(item[1]))}


def from_records(path: Path, gpu: str | None = None) -> Source:
    """Read records of one device; of several devices the one with the most.

    Raises:
        WrongInput: There is no such file, or no profile for the device.
        AnswerIsNo: Nothing in it was measured.
    """
    from executors.recordings import read_records

    if not path.exists():
        raise WrongInput(f"no records at {path}: give --records with a .jsonl or .jsonl.xz file, or their folder")
    loaded = read_records(path)
    if loaded.damaged and not loaded.records:
        raise WrongInput(f"{path} holds no records: {loaded.damaged} damaged lines, nothing else")
    remarks = [f"{loaded.damaged} damaged lines were left out"] if loaded.damaged else []
    return _source(loaded.records, str(path), gpu, remarks)


def from_configurations(path: Path, gpu: str | None = None) -> Source:
    """Read a tuned configuration, or all of a folder, as the records that its rows stand for.

    Raises:
        WrongInput: There is none, or no profile for the device.
        AnswerIsNo: No row was measured.
    """
    from dataclasses import replace

    from tuner.configuration import read

    paths = sorted(path.glob("attn,*.json")) if path.is_dir() else [path]
    if not paths:
        raise WrongInput(f"the folder {path} holds no configuration (attn,*.json); `attnroof tune` makes one")
    configurations = [read(p) for p in paths]
    records = [r for c in configurations for row in c.rows for r in _as_records(c, row)]
    source = _source(records, str(path), gpu, [])
    own = tuple(c for c in configurations if c.device.name == source.records[0].device.name)
    return replace(source, configurations=own)


def _source(records: Sequence[Record], name: str, gpu: str | None, remarks: list[str]) -> Source:
    measured = Counter(r.device.name for r in records if r.outcome == "measured")
    if not measured:
        raise AnswerIsNo(f"nothing in {name} was measured; `attnroof tune` measures on a device")
    device, _ = measured.most_common(1)[0]
    others = [f"{n} of {other}" for other, n in measured.items() if other != device]
    if others:
        remarks = [*remarks, f"measurements of other devices were left out: {', '.join(others)}"]
    own = tuple(r for r in records if r.device.name == device)
    profile = _profile(own[0], gpu)
    rows = tuple(rows_of(own, profile))
    if not rows:
        raise AnswerIsNo(f"no record in {name} is a cold measurement of a backend that the model knows")
    return Source(profile, own, rows, name, remarks=tuple(remarks))


def _profile(record: Record, gpu: str | None) -> "Profile":
    from hwprofiles import UnknownProfile, load_profile

    device = record.device
    try:
        profile = load_profile(gpu or device.name)
    except UnknownProfile as error:
        if gpu is None and device.cc is None:
            return _this_cpu(device.name)
        raise WrongInput(f"{error}; name the profile with --gpu") from None
    if profile.compute_capability != device.cc:
        raise WrongInput(
            f"--gpu {gpu} is no profile of {device.name}: compute capability {profile.compute_capability or 'none'} "
            f"instead of {device.cc or 'none'}"
        )
    return profile


def _this_cpu(name: str) -> "Profile":
    """Give this machine's CPU, calibrated quickly where it never was, if the records are its own."""
    from cli.output import stderr_console
    from tuner.setup import device_profile

    profile = device_profile("cpu", lambda text: stderr_console().print(text, markup=False))
    if name not in (profile.name, *profile.driver_names):
        raise WrongInput(
            f"the records are of {name!r} and this machine is {profile.name!r}: calibrate that CPU with "
            "'attnroof hw calibrate --device cpu --out cpu.toml' there and give its file with --gpu"
        )
    return profile


def _as_records(configuration: "Configuration", row: "TunedRow") -> Iterable[Record]:
    choices = {c.candidate.key: c for c in _choices(row)}
    versions = configuration.provenance.implementations
    b = row.batch(configuration.page_size)
    batch = RecordedBatch(phase=b.phase, q_lens=b.q_lens, kv_lens=b.kv_lens, page_size=b.page_size, topk=b.topk)
    for key, tried in row.tried.items():
        backend, knobs = parse_candidate(key)
        choice = choices.get(key)
        library, version = row.versions.get(backend) or versions.get(backend) or ("unknown", "unknown")
        yield Record(
            schema=SCHEMA,
            attention=configuration.attention,
            batch=batch,
            backend=backend,
            implementation=library,
            implementation_version=version,
            knobs=knobs,
            outcome="measured",
            latency_us=tried.measured_us,
            p10_us=choice.p10_us if choice else None,
            p90_us=choice.p90_us if choice else None,
            repeats=choice.repeats if choice else 0,
            device=configuration.device,
            torch=configuration.provenance.torch,
            cuda=configuration.provenance.cuda,
            time=configuration.provenance.created,
        )


def _choices(row: "TunedRow") -> "list[Choice]":
    found = (row.best, row.best_sglang, row.runner_up, row.sglang_default)
    return [choice for choice in found if choice is not None]


def parse_candidate(key: str) -> tuple[str, dict[str, KnobValue]]:
    """Read `fa3[num_splits=4]` as backend and knobs."""
    backend, _, inside = key.removesuffix("]").partition("[")
    pairs = (part.partition("=") for part in inside.split(",") if part)
    return backend, {name: _knob_value(text) for name, _, text in pairs}


def _knob_value(text: str) -> KnobValue:
    words: dict[str, KnobValue] = {"True": True, "False": False, "None": None}
    if text in words:
        return words[text]
    return int(text) if text.lstrip("-").isdecimal() else text
