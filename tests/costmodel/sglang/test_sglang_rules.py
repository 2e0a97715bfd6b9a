"""The rule engine, the argument parser and the tables they read."""

import pytest
from sglang_cases import device, model_of

from costmodel.sglang.arguments import BadArguments, parse_arguments
from costmodel.sglang.facts import OPTIONS, Facts, gather_facts
from costmodel.sglang.rules import evaluate, read_rules
from costmodel.sglang.tables import (
    latest_version,
    load_flags,
    load_tables,
    sglang_aliases,
    supported_versions,
)
from costmodel.sglang.version import version_key

ROW = {"when": "cuda and page in (1, None)", "set": {"page": 64}, "why": "a reason", "source": "file.py:1"}


def test_a_rule_reads_facts():
    (rule,) = read_rules([ROW], "0.5.23")
    assert evaluate(rule.when, Facts({"cuda": True, "page": None}))
    assert not evaluate(rule.when, Facts({"cuda": True, "page": 16}))
    assert rule.settings[0].of(Facts({})) == 64


def test_settings_may_be_expressions():
    (rule,) = read_rules([{**ROW, "set": {"page": "{128 if npu else 1}"}}], "0.5.23")
    assert rule.settings[0].of(Facts({"npu": True})) == 128


@pytest.mark.parametrize(
    "expression", ["__import__('os').system('true')", "page.real", "[x for x in choices]", "lambda: 1", "page := 3"]
)
def test_expressions_are_names_and_comparisons_only(expression):
    with pytest.raises((ValueError, SyntaxError)):
        read_rules([{**ROW, "when": expression}], "0.5.23")


@pytest.mark.parametrize("row", [{**ROW, "refuse": "resolve"}, {**ROW, "colour": 1}, {k: ROW[k] for k in ("when",)}])
def test_incomplete_rows_are_refused(row):
    with pytest.raises(ValueError, match="exactly one of set and refuse"):
        read_rules([row], "0.5.23")


def test_rules_are_bound_to_versions():
    rows = [{**ROW, "since": "0.5.23"}, {**ROW, "until": "0.5.22"}, ROW]
    assert [len(read_rules(rows, version)) for version in ("0.5.22", "0.5.23")] == [2, 2]
    assert len(read_rules([{**ROW, "since": "0.5.23"}], "0.5.22")) == 0


def test_an_unknown_fact_is_an_error():
    with pytest.raises(NameError, match="no fact named 'colour'"):
        Facts({})["colour"]


@pytest.mark.parametrize("version", supported_versions())
@pytest.mark.parametrize("gpu", ["h200", "b200", "mi300x", "intel-xeon-6980p", "huawei-ascend-910b2", "intel-arc-b580"])
def test_every_rule_of_every_version_can_be_evaluated(version, gpu):
    tables = load_tables(version)
    facts = gather_facts(model_of("LlamaForCausalLM"), device(gpu), {"page_size": 1}, tables)
    facts |= {"steps": 3, "topk": 1, "draft_tokens": 4, "page": 1, "capability_major": facts["capability_major"] or 0}
    for rule in tables.rules:
        evaluate(rule.when, facts)
        for setting in rule.settings:
            assert setting.field in OPTIONS or setting.field in ("mamba", "dtype", "m3_nvfp4")
            setting.of(facts)
        rule.why.format_map({name: facts[name] for name in names_in(rule.why)})
        assert rule.source.count(":") == 1


def names_in(text):
    return [part.split("}")[0] for part in text.split("{")[1:]]


@pytest.mark.parametrize("version", supported_versions())
def test_names_in_the_tables_agree(version):
    tables = load_tables(version)
    assert set(tables.aliases) | set(tables.aliases.values()) <= set(tables.choices)
    assert set(tables.draft_choices) | set(tables.deterministic_radix) <= set(tables.choices)
    assert set(tables.registry) <= set(tables.choices)
    flags = {name for flag in load_flags(version) for name in flag["flags"]}
    assert {"--" + option.replace("_", "-") for option, _ in OPTIONS.values()} <= flags
    backends = next(flag for flag in load_flags(version) if "--attention-backend" in flag["flags"])
    assert tuple(backends["choices"]) == tables.choices


def test_aliases_depend_on_the_version():
    assert dict(sglang_aliases("0.5.22")) == {"nsa": "dsa", "compressed": "dsv4"}
    assert set(sglang_aliases("0.5.23")) == {"nsa", "compressed", "tokenspeed_mla"}
    assert dict(sglang_aliases("0.5.20")) == dict(sglang_aliases("0.5.22"))
    assert sglang_aliases() == sglang_aliases(latest_version())
    assert version_key("0.5.10.post1") < version_key("0.5.23")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["--tp-size", "8"], {"tp_size": 8}),
        (["--tp", "8"], {"tp_size": 8}),
        (["--tensor-parallel-size=4"], {"tp_size": 4}),
        (["--disable-radix-cache"], {"disable_radix_cache": True}),
        (["--cuda-graph-bs-decode", "1", "2", "4"], {"cuda_graph_bs_decode": [1, 2, 4]}),
        (["--model-path", "x", "--page-size", "64"], {"model_path": "x", "page_size": 64}),
        ([], {}),
    ],
)
def test_arguments(line, expected):
    assert parse_arguments(line, latest_version()) == expected


@pytest.mark.parametrize(
    "line", [["--no-such-flag"], ["--page-size"], ["--page-size", "x"], ["--kv-cache-dtype", "int3"], ["stray"], [3]]
)
def test_bad_arguments(line):
    with pytest.raises(BadArguments):
        parse_arguments(line, latest_version())
