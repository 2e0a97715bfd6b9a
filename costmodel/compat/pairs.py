"""Whether a prefill and a decode backend can serve together, and the page size they then share."""

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from costmodel.compat.device import describe
from costmodel.compat.facts import Options, group_facts, server_facts
from costmodel.compat.judge import Judgement, Row, judge
from costmodel.compat.rules import Rule, read_rule
from costmodel.layer_group import Model
from hwprofiles import Profile


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """What comes of one prefill and one decode backend on one server."""

    prefill: str
    decode: str
    page_size: int | None
    """The page size both work with; None where nothing fixes it or none fits both."""
    reasons: tuple[str, ...]
    """Why they cannot serve together; empty where they can."""
    notes: tuple[str, ...]


def judge_pair(
    model: Model, profile: Profile, prefill: str, decode: str, options: Options | None = None
) -> PairVerdict:
    """Judge a prefill and a decode backend together: each alone, their common page size, and rules on pairs.

    Raises:
        ValueError: Heads do not divide by the TP size.
    """
    options = options or Options()
    rows = _rows(model, profile, prefill, decode, options)
    reasons = [text for row in rows if row.verdict in ("incompatible", "unknown") for text in _told(row)]
    reasons += _pair_rules(model, profile, prefill, decode, options)
    page, conflict = _common_page(model, profile, prefill, decode, options)
    if conflict and not reasons:
        reasons.append(conflict)
    notes = [f"{row.backend}: {text}" for row in rows for text in (*row.notes, *row.reasons)]
    if prefill != decode:
        notes.append("two backends: both hold their workspaces, and SGLang calls the combination experimental")
    return PairVerdict(prefill, decode, page, tuple(dict.fromkeys(reasons)), tuple(dict.fromkeys(notes)))


def _rows(model: Model, profile: Profile, prefill: str, decode: str, options: Options) -> list[Row]:
    """The rows that count: verification runs on the prefill backend unless SGLang is told otherwise."""
    judgement: Judgement = judge(model, profile, options, names={prefill, decode})
    phases = {(prefill, "extend"), (decode, "decode")}
    if options.spec_topk is not None:
        phases.add((prefill, "verify"))
    return [row for row in (*judgement.rows, *judgement.extra) if (row.backend, row.phase) in phases]


def _told(row: Row) -> list[str]:
    return [f"{row.backend} ({row.phase}): {reason}" for reason in row.reasons]


def _common_page(
    model: Model, profile: Profile, prefill: str, decode: str, options: Options
) -> tuple[int | None, str | None]:
    pages = [options.page_size] if options.page_size is not None else []
    rows = _rows(model, profile, prefill, decode, options)
    pages += [page for row in rows if isinstance(page := row.settings.get("page_size"), int)]
    if not pages:
        return None, None
    for page in dict.fromkeys(pages):
        trial = _rows(model, profile, prefill, decode, replace(options, page_size=page))
        if all(row.verdict != "incompatible" and row.settings.get("page_size", page) == page for row in trial):
            return page, None
    wanted = ", ".join(str(page) for page in dict.fromkeys(pages))
    return None, f"{prefill} and {decode} share one page size, and none of {wanted} fits both"


def _pair_rules(model: Model, profile: Profile, prefill: str, decode: str, options: Options) -> list[str]:
    facts = {
        **server_facts(model, describe(profile), options),
        **group_facts(model, model.layer_groups[0], options),
        "prefill": prefill,
        "decode": decode,
    }
    return [rule.text(facts) for rule in _table() if rule.effect == "incompatible" and rule.holds(facts)]


@cache
def _table() -> tuple[Rule, ...]:
    text = files("costmodel.compat").joinpath("data/pairs.toml").read_text("utf-8")
    return tuple(read_rule(entry, "pairs.toml") for entry in tomllib.loads(text)["rule"])
