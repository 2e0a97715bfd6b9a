"""Pairs ranked for a load, SGLang's own beside them."""

from dataclasses import replace
from functools import cache

import pytest
from serving_cases import asked

from costmodel import Incompatible, sglang_resolve
from costmodel.compat import judge_pair
from costmodel.serving import (
    DoesNotFit,
    Load,
    Parallel,
    Slo,
    advise,
    best_within,
    disaggregate,
    find_pairs,
    front,
    points,
    to_be_sure,
)
from costmodel.serving.advise import by_reason
from costmodel.serving.choices import Asked, default_pair
from costmodel.serving.verdict import Missing, better_by, decide, metric, supported_first

LOAD = Load(1024, 256, concurrency=16)


@cache
def advised(goal="throughput"):
    return advise(asked(), LOAD, goal)


@pytest.fixture
def advice():
    return advised()


def test_only_pairs_that_can_share_a_cache_are_offered(advice):
    request = asked()
    assert len(advice.choices) > 4
    for choice in advice.choices:
        pair = choice.pair
        assert not judge_pair(request.model, request.profile, pair.prefill, pair.decode).reasons
        decision = sglang_resolve(request.model, request.profile, pair.plan.flags)
        assert decision.refused is None
        assert (decision.prefill, decision.decode, decision.page_size) == (pair.prefill, pair.decode, pair.page_size)


def test_what_cannot_run_is_said(advice):
    assert "MLA" in " ".join(advice.refused["flashmla"])
    assert "cannot be captured" in " ".join(advice.refused["fa3 + torch_native"])


def test_the_default_is_sglangs(advice):
    decision = sglang_resolve(asked().model, asked().profile, [])
    assert (advice.default.pair.prefill, advice.default.pair.decode) == (decision.prefill, decision.decode)


@pytest.mark.parametrize("goal", ["ttft", "tpot", "throughput"])
def test_choices_are_best_first(goal):
    values = [(c.service.evidence == "structure", metric(goal)(c.service.rates)) for c in advised(goal).choices]
    assert values == sorted(values)
    assert {guessed for guessed, _ in values} == {True, False}


def test_a_fixed_rate_ties_throughput_and_tpot_decides():
    found = advise(asked("gpt-oss-20b"), Load(1024, 256, rate=2.0))
    values = [(c.service.evidence == "structure", c.service.rates.tpot_seconds) for c in found.choices]
    assert values == sorted(values)


def test_the_default_stays_unless_another_is_better_beyond_the_intervals(advice):
    if advice.recommended is advice.default:
        assert not any(better_by("throughput", c.service, advice.default.service)[1] for c in advice.choices)
        assert "keep" in advice.verdict
    else:
        assert better_by("throughput", advice.recommended.service, advice.default.service)[1]


def variant(choice, factor, evidence="calibrated", width=0.001, missed=(), **pair):
    """The choice, its throughput times `factor`, attention known to within `width`."""
    service = choice.service
    rates, fast, slow = (
        replace(service.rates, tokens_per_s=service.rates.tokens_per_s * factor * share)
        for share in (1, 1 + width, 1 - width)
    )
    changed = replace(service, rates=rates, fast_attention=fast, slow_attention=slow, evidence=evidence)
    return replace(choice, service=changed, pair=replace(choice.pair, **pair), missed=missed)


def test_a_gain_beyond_the_intervals_wins(advice):
    default = variant(advice.default, 1.0)
    faster = variant(advice.default, 1.05, decode="triton")
    chosen, why = decide("throughput", [faster, default], default)
    assert chosen is faster
    assert "by 5.0 % in throughput, beyond the intervals of attention" in why


def test_among_equals_evidence_counts_then_what_stays_as_it_is(advice):
    default = variant(advice.default, 1.0)
    guessed = variant(advice.default, 1.09, "structure", width=0.03, decode="triton")
    both = variant(advice.default, 1.06, width=0.01, prefill="triton", decode="triton")
    one = variant(advice.default, 1.05, width=0.01, decode="triton")
    worse = variant(advice.default, 1.02, decode="flashinfer")
    assert decide("throughput", [guessed, both, one, worse, default], default)[0] is one


def test_what_nobody_measured_comes_after_what_somebody_did(advice):
    guessed, known = variant(advice.default, 1.5, "structure"), variant(advice.default, 0.9, decode="triton")
    missing = variant(advice.default, 2.0, missed=("TPOT",))
    assert supported_first([missing, guessed, known]) == [known, guessed, missing]
    assert supported_first([guessed]) == [guessed]
    assert decide("throughput", [guessed, known], None, Missing("refused", "refused"))[0] is known


def test_what_nobody_measured_is_never_recommended(advice):
    default = variant(advice.default, 1.0)
    guessed = variant(advice.default, 1.5, "structure", decode="triton")
    chosen, why = decide("throughput", [guessed, default], default)
    assert chosen is default
    assert "50.0 % better" in why
    assert "nobody measured its attention" in why
    unknown = variant(advice.default, 1.0, "structure")
    known = variant(advice.default, 1.5, decode="triton")
    chosen, why = decide("throughput", [known, unknown], unknown)
    assert chosen is unknown
    assert "nobody measured the default's attention" in why


def test_a_measured_gain_counts_behind_a_guessed_one(advice):
    default = variant(advice.default, 1.0)
    guessed = variant(advice.default, 1.5, "structure", decode="flashinfer")
    known = variant(advice.default, 1.05, decode="triton")
    chosen, why = decide("throughput", [guessed, known, default], default)
    assert chosen is known
    assert f"({guessed.name} is predicted faster still, but nobody measured its attention)" in why


def test_the_slo_alone_does_not_recommend_what_nobody_measured(advice):
    default = variant(advice.default, 1.0, missed=("TPOT of 9 ms is above the SLO of 8 ms",))
    guessed = variant(advice.default, 1.5, "structure", decode="triton")
    chosen, why = decide("throughput", [guessed, default], default)
    assert chosen is default
    assert "measure before you use it" in why


@pytest.mark.parametrize(("factor", "width"), [(1.05, 0.2), (1.005, 0.0001)])
def test_doubtful_or_small_gains_keep_the_default(advice, factor, width):
    default = variant(advice.default, 1.0, width=width)
    faster = variant(advice.default, factor, width=width, decode="triton")
    chosen, why = decide("throughput", [faster, default], default)
    assert chosen is default
    assert ("no difference worth having" in why) == (factor > 1.01)


def test_a_default_that_misses_the_slo_is_left(advice):
    default = variant(advice.default, 1.0, missed=("TPOT of 9 ms is above the SLO of 8 ms",))
    slower = variant(advice.default, 0.9, decode="triton")
    chosen, why = decide("throughput", [slower, default], default)
    assert chosen is slower
    assert "misses the SLO (TPOT of 9 ms" in why


def test_a_default_that_cannot_be_predicted_is_said():
    found = advise(asked("Llama-4-Scout-17B-16E-Instruct", tp=8), Load(16384, 64, concurrency=4))
    assert found.default is None
    assert "keep SGLang's default fa3 or measure: it cannot be predicted here" in found.verdict
    assert "chunked attention" in found.verdict
    assert found.recommended is found.choices[0]
    assert found.pair.name == "fa3"


def test_pairs_that_miss_the_slo_come_last_and_say_so():
    free = advised("tpot")
    limit = (free.choices[0].service.rates.tpot_seconds + free.choices[-1].service.rates.tpot_seconds) / 2
    found = advise(asked(), LOAD, "tpot", Slo(tpot_seconds=limit))
    missed = [bool(choice.missed) for choice in found.choices]
    assert missed == sorted(missed)
    assert any(missed)
    assert "above the SLO" in found.choices[-1].missed[0]


@pytest.mark.parametrize("field", ["ttft_seconds", "tpot_seconds"])
def test_impossible_slos_are_refused(field):
    with pytest.raises(ValueError, match=field):
        Slo(**{field: -1.0})


def test_loads_that_do_not_fit_say_by_how_much():
    with pytest.raises(DoesNotFit, match="too much; at most"):
        advise(asked(), Load(100_000, 1000, concurrency=500))


def test_nothing_compatible_lists_why():
    with pytest.raises(Incompatible, match="flashmla"):
        advise(replace(asked("DeepSeek-V3", tp=8), kv_cache_dtype="nvfp4", page_size=7), LOAD)


def test_a_reason_is_said_once():
    pairs = {f"fa3 + {name}": ("no room",) for name in ("a", "b", "c", "d", "e")}
    said = by_reason({"flashmla": ("MLA only", "pages of 64 only"), "trtllm_mla": ("MLA only",), **pairs})
    assert said == ["fa3 + a and 4 others: no room", "flashmla, trtllm_mla: MLA only"]


def test_a_given_page_size_is_kept():
    found = find_pairs(replace(asked(), page_size=64))
    assert found.run
    assert {pair.page_size for pair in found.run} == {64}


def test_expert_parallelism_is_in_the_launch_line():
    request = Asked(asked("Mixtral-8x7B-v0.1").model, asked().profile, Parallel(tp=2, ep=2))
    pair = find_pairs(request).run[0]
    assert pair.plan.flags[-2:] == ("--ep-size", "2")
    assert default_pair(request).plan.flags[-2:] == ("--ep-size", "2")


def test_what_is_approximate_is_said():
    found = advise(asked("Kimi-K3", tp=16), Load(1024, 128, concurrency=4))
    assert any("tp=16 usually spans servers" in note for note in found.notes)
    assert any("latent of 3584" in note for note in found.notes)
    assert any("69 layers of Kimi delta attention" in note for note in found.notes)
    assert advised().notes == ()


def test_latent_models_get_latent_backends():
    found = advise(asked("DeepSeek-V3", tp=8), Load(1024, 128, concurrency=8))
    names = {choice.pair.decode for choice in found.choices}
    assert "flashmla" in names
    assert "trtllm_mha" not in names


def test_sglangs_refusal_is_passed_on():
    refused = default_pair(Asked(asked().model, asked().profile, kv_cache_dtype="fp16"))
    assert isinstance(refused, str)


def test_what_would_settle_it_is_a_command(advice):
    (command,) = to_be_sure(advice, "MODEL")
    assert command.startswith("attnroof tune --model MODEL --device cuda:0")
    assert "--batch-spec 16q1s1152" in command
    assert "--batch-spec q1024s1024" in command


def test_no_point_of_the_front_is_beaten():
    candidates = points(asked(), find_pairs(asked()).run[:9], LOAD)
    kept = front(candidates)
    assert {p.choice.measured for p in candidates} == {True, False}
    candidates = [p for p in candidates if p.choice.measured]
    assert set(map(id, kept)) <= set(map(id, candidates))
    for point in kept:
        assert not any(p.ttft_seconds < point.ttft_seconds and p.tokens_per_s > point.tokens_per_s for p in candidates)
    assert [p.ttft_seconds for p in kept] == sorted(p.ttft_seconds for p in kept)
    assert [p.tokens_per_s for p in kept] == sorted(p.tokens_per_s for p in kept)


def test_most_throughput_within_the_slo():
    candidates = points(asked(), find_pairs(asked()).run[:4], LOAD)
    limit = Slo(tpot_seconds=9e-3)
    best = best_within(candidates, limit)
    keeping = [p for p in candidates if not limit.missed(p.choice.service.rates) and p.choice.measured]
    assert best.tokens_per_s == max(p.tokens_per_s for p in keeping)
    assert best_within(candidates, Slo(tpot_seconds=1e-9)) is None


def test_apart_each_phase_takes_its_best_and_kv_is_carried_over():
    pairs = find_pairs(asked()).run
    apart = disaggregate(asked(), pairs, LOAD)
    assert apart.kv_bytes == 32 * 8 * 256 * 2 * 1024
    assert apart.transfer_seconds == pytest.approx(apart.kv_bytes / 450e9)
    known = [c for c in advised().choices if c.service.evidence != "structure"]
    assert apart.tpot_seconds <= min(c.service.decode.seconds for c in known)
    assert {apart.prefill_backend, apart.decode_backend} <= {n for c in known for n in (c.pair.prefill, c.pair.decode)}
    assert 0 < apart.prefill_servers < 10
    assert apart.evidence in ("measured", "calibrated", "others")


def test_without_links_nothing_is_taken_apart():
    request = Asked(asked().model, asked(gpu="l4").profile)
    assert disaggregate(request, find_pairs(request).run, Load(128, 16, concurrency=1)) is None
