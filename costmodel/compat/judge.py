"""`judge`: what SGLang's 24 backend names do with a model on a device, per phase and layer group."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from costmodel.compat.device import Device, contradiction, describe
from costmodel.compat.facts import Options, group_facts, phase_facts, server_facts
from costmodel.compat.packages import package_reasons
from costmodel.compat.rules import Fact, Facts, Rule
from costmodel.compat.tables import BackendTable, load_tables
from costmodel.compat.versions import CURRENT, parse_version
from costmodel.layer_group import Model
from hwprofiles import Profile

Verdict = Literal["compatible", "incompatible", "rewritten", "unknown"]
JudgedPhase = Literal["extend", "decode", "verify", "draft"]
PHASES: tuple[JudgedPhase, ...] = ("extend", "decode", "verify", "draft")


@dataclass(frozen=True, slots=True)
class Row:
    """The verdict on one name for one phase and layer group."""

    backend: str
    alias_of: str | None
    phase: JudgedPhase
    layer_group: int
    """Index into the model's layer groups."""
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    """Why not, what is rewritten, or what is not known; empty where plainly compatible."""
    notes: tuple[str, ...] = ()
    """Remarks that change no verdict."""
    settings: Mapping[str, Fact] = field(default_factory=dict)
    """Settings as the server will have them, where it changes or fixes them."""
    instead: tuple[str, ...] = ()
    """Where it does not run: the names that do, for the same phase and layer group."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """All verdicts for one model, device and set of options."""

    model: str
    device: str
    sglang_version: str
    rows: tuple[Row, ...]
    extra: tuple[Row, ...]
    """Names beyond the documented 24."""
    warnings: tuple[str, ...] = ()


def judge(
    model: Model,
    profile: Profile,
    options: Options | None = None,
    names: Collection[str] | None = None,
    draft_model: Model | None = None,
) -> Judgement:
    """Judge every backend name, phase and layer group.

    Args:
        model: The model, before tensor parallelism.
        profile: The device of every rank.
        options: Serving options; None means the defaults.
        names: Only these backend names; None means all.
        draft_model: The speculative draft model, whose layer groups the draft rows are about; None means the model's.

    Raises:
        ValueError: Heads do not divide by the TP size.
        ConfigError: The SGLang version is no release number.
    """
    options = options or Options()
    tables = load_tables(options.sglang)
    device = describe(profile)
    shared = server_facts(model, device, options)
    cases = _cases(model, profile, options, [phase for phase in PHASES if phase != "draft"])
    cases += _cases(draft_model or model, profile, options, ["draft"])
    alike = shared if draft_model is None else {}
    known = {**tables.backends, **tables.extra}
    wanted = known.keys() if names is None else names
    targets = {name: _server(known[name], alike) for name in _with_targets(known, wanted)}
    rows = [_row(t, targets, *case, options) for t in tables.backends.values() if t.name in wanted for case in cases]
    extra = [_row(t, targets, *case, options) for t in tables.extra.values() if t.name in wanted for case in cases]
    running = _running(rows)
    return Judgement(
        model.name,
        profile.id,
        options.sglang,
        tuple(_with_instead(row, running) for row in rows),
        tuple(_with_instead(row, running) for row in extra),
        _warnings(profile, device, options),
    )


def _cases(
    model: Model, profile: Profile, options: Options, phases: list[JudgedPhase]
) -> list[tuple[JudgedPhase, int, Facts]]:
    """The facts of each phase and layer group."""
    auto_kv, sms = load_tables(options.sglang).auto_kv, profile.num_sms
    shared = server_facts(model, describe(profile), options)
    groups = [
        _with_auto_kv({**shared, **group_facts(model, group, options, sms)}, auto_kv, options)
        for group in model.layer_groups
    ]
    return [(phase, i, {**facts, **phase_facts(phase, options)}) for phase in phases for i, facts in enumerate(groups)]


def _with_targets(known: Mapping[str, BackendTable], wanted: Collection[str]) -> set[str]:
    """The wanted names that exist, and what their aliases stand for."""
    found = {name for name in wanted if name in known}
    aliases = [alias for name in found if (alias := known[name].alias) is not None]
    return found.union(*((alias.target, alias.extend_target) for alias in aliases))


def _running(rows: list[Row]) -> dict[tuple[str, int], tuple[str, ...]]:
    """The names that run each phase and layer group, those without changes first."""
    running: dict[tuple[str, int], tuple[str, ...]] = {}
    for verdict in ("compatible", "rewritten"):
        for row in rows:
            if row.verdict == verdict and row.alias_of is None:
                key = (row.phase, row.layer_group)
                running[key] = (*running.get(key, ()), row.backend)
    return running


def _with_instead(row: Row, running: Mapping[tuple[str, int], tuple[str, ...]]) -> Row:
    if row.verdict in ("compatible", "rewritten"):
        return row
    return replace(row, instead=running.get((row.phase, row.layer_group), ()))


def _with_auto_kv(facts: dict[str, Fact], auto_kv: tuple[Rule, ...], options: Options) -> dict[str, Fact]:
    if options.kv_cache_dtype != "auto":
        return facts
    rule = next((rule for rule in auto_kv if rule.holds(facts)), None)
    return facts if rule is None else {**facts, "kv": rule.settings["kv_cache_dtype"]}


def _server(table: BackendTable, shared: Facts) -> BackendTable:
    """The table without the rules that concern the bare library call or another server."""
    rules = tuple(rule for rule in table.rules if rule.scope != "library" and not rule.excluded(shared))
    return replace(table, rules=rules)


def _row(
    table: BackendTable,
    targets: Mapping[str, BackendTable],
    phase: JudgedPhase,
    group: int,
    facts: Facts,
    options: Options,
) -> Row:
    alias, resolved = table.alias, targets[table.name]
    if alias is not None:
        resolved = targets[alias.extend_target if phase == "extend" else alias.target]
        if alias.settings.get("kv_cache_dtype"):
            facts = {**facts, "kv": alias.settings["kv_cache_dtype"]}
    fired = [rule for rule in resolved.rules if rule.holds(facts)]
    missing = (*_not_there(table, options), *package_reasons(resolved.packages, options.packages))
    verdict, reasons = _decide(fired, facts, missing, alias.reason if alias and alias.settings else None)
    changes = {k: v for rule in fired for k, v in rule.settings.items()}
    return Row(
        table.name,
        alias.target if alias else None,
        phase,
        group,
        verdict,
        reasons,
        ()
        if verdict == "incompatible"
        else _notes(fired, facts, alias.reason if alias and not alias.settings else None),
        {**changes, **(alias.settings if alias else {})} if verdict != "incompatible" else {},
    )


def _not_there(table: BackendTable, options: Options) -> tuple[str, ...]:
    """Names that a later release brought; what a release newer than the tables has is only warned about."""
    if table.alias or table.held or parse_version(options.sglang) > parse_version(CURRENT):
        return ()
    return (f"SGLang {options.sglang} has no backend of this name",)


def _decide(
    fired: list[Rule], facts: Facts, missing: tuple[str, ...], renamed: str | None
) -> tuple[Verdict, tuple[str, ...]]:
    refused = (*(rule.text(facts) for rule in fired if rule.effect == "incompatible"), *missing)
    if refused:
        return "incompatible", tuple(dict.fromkeys(refused))
    unknown = tuple(rule.text(facts) for rule in fired if rule.effect == "unknown")
    if unknown:
        return "unknown", unknown
    changed = tuple(rule.text(facts) for rule in fired if rule.effect == "rewritten")
    if renamed is not None:
        changed = (renamed, *changed)
    return ("rewritten", changed) if changed else ("compatible", ())


def _notes(fired: list[Rule], facts: Facts, renamed: str | None) -> tuple[str, ...]:
    notes = tuple(rule.text(facts) for rule in fired if rule.effect == "note")
    return (renamed, *notes) if renamed else notes


def _warnings(profile: Profile, device: Device, options: Options) -> tuple[str, ...]:
    found: list[str] = []
    conflict = contradiction(profile)
    if conflict is not None:
        found.append(conflict)
    if device.platform == "other":
        found.append(f"{profile.name}: no rules for devices of {profile.vendor}")
    if parse_version(options.sglang) > parse_version(CURRENT):
        found.append(
            f"the tables were not read for SGLang {options.sglang}: verdicts are those of {CURRENT}; "
            "'attnroof conformance WHEEL' names what changed"
        )
    return tuple(found)
