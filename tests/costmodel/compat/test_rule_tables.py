"""The tables as data: complete, well formed, and a law that holds for every model and device."""

import sys
from dataclasses import replace
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import MODELS, device, judged, made, published, rows

from costmodel import ConfigError
from costmodel.compat import Options, Row, backend_names, judge
from costmodel.compat.rules import KNOWN_FACTS, RuleError, read_rule
from costmodel.compat.tables import load_tables
from costmodel.compat.versions import in_range, parse_version
from hwprofiles import list_profiles

TABLES = load_tables()
NAMES = sorted(path.stem for path in MODELS.glob("*.json"))
DEVICES = [profile.id for profile in list_profiles()]


def test_a_file_for_each_name_that_is_no_alias() -> None:
    stems = {path.name.removesuffix(".toml") for path in files("costmodel.compat").joinpath("data/backends").iterdir()}
    aliases = {name for name, table in TABLES.backends.items() if table.alias}
    assert stems == (set(TABLES.backends) | set(TABLES.extra)) - aliases | {"tokenspeed_mla"}


@pytest.mark.parametrize("table", [*TABLES.backends.values(), *TABLES.extra.values()], ids=lambda table: table.name)
def test_rules_say_where_they_come_from(table) -> None:
    assert table.what
    for rule in table.rules:
        assert rule.source or rule.effect == "unknown" or rule.scope == "library", rule.reason
        assert rule.when or table.name in ("cutlass_mla", "wave"), rule.reason


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"effect": "maybe", "reason": "x"}, "effect='maybe'"),
        ({"effect": "note"}, "needs an effect and a reason"),
        ({"effect": "note", "reason": "x", "when": {"colour": "red"}}, "unknown fact 'colour'"),
        ({"effect": "note", "reason": "x", "when": {"page.near": 64}}, "unknown operator 'near'"),
        ({"effect": "note", "reason": "x", "wehn": {}}, "unknown key 'wehn'"),
    ],
)
def test_malformed_rules_are_refused(entry: dict, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        read_rule(entry, "here")


def test_conditions() -> None:
    rule = read_rule(
        {
            "effect": "note",
            "reason": "{page} on {arch}",
            "when": {"arch": ["sm_90"], "page.not": [64], "topk.below": 2},
        },
        "here",
    )
    facts = {"arch": "sm_90", "page": 16, "topk": 1}
    assert rule.holds(facts)
    assert rule.text(facts) == "16 on sm_90"
    assert not rule.holds(facts | {"page": 64})
    assert not rule.holds(facts | {"page": None})
    assert rule.excluded({"arch": "sm_100"})
    assert not rule.excluded({"arch": "sm_90"})


@pytest.mark.parametrize(
    ("version", "clauses", "inside"),
    [
        ("0.5.23", ">=0.5.20,<0.6", True),
        ("0.5.23.post1", ">=0.5.23", True),
        ("0.5.22", ">=0.5.23", False),
        ("0.6", "<0.6.0", False),
        ("0.5.20", "==0.5.20", True),
        ("0.5.20", "", True),
    ],
)
def test_version_ranges(version: str, clauses: str, inside: bool) -> None:
    assert in_range(parse_version(version), clauses) is inside


def test_releases_beside_those_that_were_read() -> None:
    assert not judged(made(), "h200", sglang="0.5.21").warnings
    assert "not read for SGLang 0.9.0" in judged(made(), "h200", sglang="0.9.0").warnings[0]
    for old in ("0.4", "0.5.19"):
        with pytest.raises(ConfigError, match="older than these tables"):
            judged(made(), "h200", sglang=old)


def test_a_name_that_a_later_release_brought_is_not_in_an_older_one(monkeypatch: pytest.MonkeyPatch) -> None:
    table = replace(TABLES.backends["triton"], held=False)
    older = replace(load_tables("0.5.21"), backends=load_tables("0.5.21").backends | {"triton": table})
    monkeypatch.setattr(sys.modules[judge.__module__], "load_tables", lambda version: older)
    row = rows(judged(made(), "h200", sglang="0.5.21"), "triton")[0]
    assert (row.verdict, row.reasons) == ("incompatible", ("SGLang 0.5.21 has no backend of this name",))


def test_versions_that_are_none() -> None:
    with pytest.raises(ConfigError, match="release number"):
        parse_version("main")


@given(
    model=st.sampled_from(NAMES),
    gpu=st.sampled_from(DEVICES),
    page=st.sampled_from([None, 1, 16, 64, 128]),
    kv=st.sampled_from(["auto", "bf16", "fp8_e4m3", "fp8_e5m2", "nvfp4"]),
    topk=st.sampled_from([None, 1, 4]),
    deterministic=st.booleans(),
)
def test_every_verdict_is_explained(model, gpu, page, kv, topk, deterministic) -> None:
    options = Options(page_size=page, kv_cache_dtype=kv, spec_topk=topk, deterministic=deterministic)
    judgement = judge(published(model), device(gpu), options)
    assert len(judgement.rows) == len(backend_names()) * 4 * len(published(model).layer_groups)
    for row in judgement.rows:
        assert bool(row.reasons) == (row.verdict != "compatible")
        assert all(reason and "{" not in reason for reason in (*row.reasons, *row.notes))
        assert row.backend not in row.instead
        assert row.verdict not in ("compatible", "rewritten") or not row.instead


@given(model=st.sampled_from(NAMES), gpu=st.sampled_from(DEVICES), page=st.sampled_from([1, 16, 32, 64, 128, 256]))
def test_a_rewritten_page_size_is_then_kept(model: str, gpu: str, page: int) -> None:
    for row in judge(published(model), device(gpu), Options(page_size=page)).rows:
        changed = row.settings.get("page_size")
        if row.verdict != "rewritten" or not isinstance(changed, int):
            continue
        again = judge(published(model), device(gpu), Options(page_size=changed), names={row.backend})
        (same,) = [r for r in again.rows if (r.phase, r.layer_group) == (row.phase, row.layer_group)]
        assert same.settings.get("page_size", changed) == changed


@given(model=st.sampled_from(NAMES), gpu=st.sampled_from(DEVICES), names=st.sets(st.sampled_from(backend_names())))
def test_asked_names_are_judged_as_among_all(model: str, gpu: str, names: set[str]) -> None:
    def verdicts(rows: tuple[Row, ...]) -> list[Row]:
        return [replace(row, instead=()) for row in rows if row.backend in names]

    everything = judge(published(model), device(gpu))
    assert verdicts(everything.rows) == verdicts(judge(published(model), device(gpu), names=names).rows)


def test_all_known_facts_are_used() -> None:
    used = {c.fact for t in (*TABLES.backends.values(), *TABLES.extra.values()) for r in t.rules for c in r.when}
    assert KNOWN_FACTS - used <= {"backend", "tree", "prefill", "decode", "v_dim", "dtype", "kind", "uniform_q"}
