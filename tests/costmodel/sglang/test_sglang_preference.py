"""The pair that the cost model would launch instead of SGLang's pick."""

from dataclasses import replace

import pytest
from sglang_cases import DATA, EAGLE_TREE, device

from costmodel import load_model, sglang_resolve
from costmodel.sglang import preferred, without_attention_flags
from costmodel.sglang.preference import Times

LLAMA = load_model(DATA / "models" / "Llama-3.1-8B.json")
GPT_OSS = load_model(DATA / "models" / "gpt-oss-20b.json")


def preference(model, gpu, *args):
    return preferred(model, device(gpu), args, sglang_resolve(model, device(gpu), args))


@pytest.mark.parametrize(
    ("model", "gpu", "args"),
    [
        (LLAMA, "h200", ()),
        (LLAMA, "b200", ("--attention-backend", "fa3")),
        (GPT_OSS, "h200", ("--attention-backend", "flashinfer")),
        (LLAMA, "h200", (*EAGLE_TREE, "--disable-radix-cache")),
        (LLAMA, "h200", ("--kv-cache-dtype", "fp8_e4m3", "--page-size", "64")),
    ],
)
def test_the_preferred_line_starts(model, gpu, args):
    ours = preference(model, gpu, *args)
    decision = sglang_resolve(model, device(gpu), ours.plan.flags)
    assert decision.refused is None
    assert (decision.prefill, decision.decode) == (ours.prefill, ours.decode)
    for option in ("--speculative-eagle-topk", "--disable-radix-cache"):
        assert (option in args) == (option in ours.plan.flags)


def test_nothing_slower_is_preferred():
    ours = preference(LLAMA, "h200")
    assert ours.sglang_times is not None
    assert ours.times.extend[0] + ours.times.decode[0] <= ours.sglang_times.extend[0] + ours.sglang_times.decode[0]


def test_sglangs_pick_stands_within_the_uncertainty():
    ours = preference(LLAMA, "h200")
    same = (1.0, 0.9, 1.1)
    assert replace(ours, times=Times(same, same), sglang_times=Times(same, same)).keeps_sglang
    assert not replace(ours, times=Times(same, (0.5, 0.4, 0.6)), sglang_times=Times(same, same)).keeps_sglang
    traded = Times((2.0, 1.9, 2.1), (0.5, 0.4, 0.6))
    assert replace(ours, times=traded, sglang_times=Times(same, same)).keeps_sglang
    assert not replace(ours, sglang_times=None).keeps_sglang


def test_a_line_that_cannot_be_parsed_has_no_preference():
    assert preference(LLAMA, "h200", "--no-such-flag") is None
    assert without_attention_flags(["--no-such-flag"], "0.5.23") == ()


def test_only_attention_flags_are_dropped():
    line = ["--attention-backend", "fa3", "--tp", "2", "--page-size", "64", "--disable-radix-cache"]
    assert without_attention_flags(line, "0.5.23") == ("--tp-size", "2", "--disable-radix-cache")
