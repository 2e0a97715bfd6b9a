"""Verdicts against recorded decisions of SGLang's own argument resolution."""

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from judging import MODELS, ORDER, device, published, rows

from costmodel.compat import Judgement, Options, judge
from hwprofiles import UnknownProfile

RECORDED = Path(__file__).parents[2] / "data" / "sglang" / "decisions.jsonl.xz"
READ = {
    "--tp-size": "tp",
    "--page-size": "page_size",
    "--kv-cache-dtype": "kv_cache_dtype",
    "--speculative-eagle-topk": "spec_topk",
}
IGNORED = {"--speculative-num-steps", "--speculative-num-draft-tokens", "--speculative-algorithm"}
BACKENDS = {"--attention-backend", "--prefill-attention-backend", "--decode-attention-backend"}

ENTRIES_NO_RULE_SEES = {"OpenELM-1_1B.json"}
"""SGLang cannot read this configuration at all, whatever the backend."""


def parsed(args: list[str]) -> tuple[dict[str, Any], dict[str, str]] | None:
    """Options of the judge and backend flags; None where the line asks for something the judge does not know."""
    options: dict[str, Any] = {}
    named: dict[str, str] = {}
    rest = list(args)
    while rest:
        flag = rest.pop(0)
        if flag == "--enable-deterministic-inference":
            options["deterministic"] = True
        elif flag in READ:
            value = rest.pop(0)
            options[READ[flag]] = value if flag == "--kv-cache-dtype" else int(value)
        elif flag in BACKENDS:
            named[flag] = rest.pop(0)
        elif flag in IGNORED:
            rest.pop(0)
        else:
            return None
    dtype = options.get("kv_cache_dtype", "auto")
    options["kv_cache_dtype"] = {"bfloat16": "bf16"}.get(dtype, dtype)
    return (options, named) if options["kv_cache_dtype"] not in ("mxfp8", "fp4_mx_block16") else None


@cache
def decisions() -> list[dict[str, Any]]:
    with lzma.open(RECORDED, "rt") as file:
        return [json.loads(line) for line in file]


def worst(judgement: Judgement, backend: str, phase: str) -> str:
    return max((row.verdict for row in rows(judgement, backend, phase)), key=ORDER.index)


def cases() -> list[tuple[dict[str, Any], dict[str, Any], dict[str, str]]]:
    found = []
    for decision in decisions():
        read = parsed(decision["args"])
        if read is not None and (MODELS / decision["model"]).exists():
            found.append((decision, *read))
    return found


@pytest.mark.skipif(not RECORDED.exists(), reason="recorded decisions are not in this checkout")
def test_what_sglang_refuses_is_never_called_compatible() -> None:
    contradicted, checked = [], 0
    for decision, options, named in cases():
        base = named.get("--attention-backend")
        prefill = named.get("--prefill-attention-backend", base)
        decode = named.get("--decode-attention-backend", base)
        split_cutedsl = named.get("--prefill-attention-backend") == "cutedsl_mla"
        if decision["refused"] is None or prefill is None or decode is None or split_cutedsl:
            continue
        try:
            profile = device(decision["gpu"])
        except UnknownProfile:
            continue
        if decision["model"] in ENTRIES_NO_RULE_SEES:
            continue
        checked += 1
        judgement = judge(
            published(decision["model"].removesuffix(".json")), profile, Options(**options), {prefill, decode}
        )
        if "incompatible" not in (worst(judgement, prefill, "extend"), worst(judgement, decode, "decode")):
            contradicted.append((decision["model"], decision["gpu"], decision["args"]))
    assert checked > 200
    assert contradicted == []


EXPECTED_DISAGREEMENTS = {
    "aiter": "speculative topk",
    "dsa": "sparse MLA kernels",
    "fa3": "FlashAttention-3",
    "trtllm_mha": "fp8_e5m2",
    "trtllm_mla": "deterministic",
}
"""Defaults of SGLang that pass its checks although the kernels cannot run: backend to a word of the reason."""


@pytest.mark.skipif(not RECORDED.exists(), reason="recorded decisions are not in this checkout")
def test_the_defaults_of_sglang_run_but_for_known_exceptions() -> None:
    surprising, checked = [], 0
    for decision, options, named in cases():
        if decision["refused"] is not None or named:
            continue
        try:
            profile = device(decision["gpu"])
        except UnknownProfile:
            continue
        checked += 1
        names = {decision["prefill"], decision["decode"]}
        judgement = judge(published(decision["model"].removesuffix(".json")), profile, Options(**options), names)
        for phase, name in (("extend", decision["prefill"]), ("decode", decision["decode"])):
            for row in rows(judgement, name, phase):
                told = "; ".join(row.reasons)
                word = EXPECTED_DISAGREEMENTS.get(name)
                if row.verdict == "incompatible" and (word is None or (word not in told and "192/128" not in told)):
                    surprising.append((decision["model"], decision["gpu"], decision["args"], name, told))
    assert checked > 400
    assert surprising == []
