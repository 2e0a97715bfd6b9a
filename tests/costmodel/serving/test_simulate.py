"""The scheduler, by hand and by law."""

import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_cases import FixedSteps, memory, steps

from costmodel.serving import Load, serve
from costmodel.serving.arrivals import ClosedLoop, Lengths, OpenLoop, synthetic
from costmodel.serving.lookup import StepLookup
from costmodel.serving.policy import Policy, Speculation, policy_of
from costmodel.serving.prefix import PrefixCache
from costmodel.serving.request import Request
from costmodel.serving.simulate import simulate

ROOMY = Policy(kv_tokens=10_000, page_size=1, max_running_requests=64, chunked_prefill_size=100)


def run(requests, policy=ROOMY, **other):
    fixed = FixedSteps()
    return simulate(fixed, policy, OpenLoop(iter(requests)), **other), fixed


def test_one_request_by_hand():
    result, _ = run([Request(2.0, 50, 5)])
    assert result.ttft.mean == pytest.approx(0.050)
    assert result.tpot.mean == pytest.approx(0.010)
    assert result.e2e.mean == pytest.approx(0.050 + 4 * 0.010)
    assert result.seconds == pytest.approx(0.090)
    assert (result.prefill_steps, result.decode_steps) == (1, 4)


def test_prefill_goes_before_decode():
    result, fixed = run([Request(0.0, 50, 11), Request(0.055, 30, 3)])
    assert fixed.batches == [1, 2, 2, 1, 1, 1, 1, 1, 1, 1]
    assert result.queue.largest == pytest.approx(0.005)
    assert result.itl.largest == pytest.approx(0.040)


def test_requests_that_wait_prefill_together_up_to_a_chunk():
    result, fixed = run([Request(0.0, 40, 2) for _ in range(4)])
    assert fixed.prefills == [100, 60]
    assert result.requests == 4


def test_long_prompts_take_several_chunks():
    result, fixed = run([Request(0.0, 250, 2)])
    assert fixed.prefills == [100, 100, 50]
    assert result.ttft.mean == pytest.approx(0.250)


def test_no_more_run_than_allowed():
    _, fixed = run([Request(0.0, 10, 20) for _ in range(10)], replace(ROOMY, max_running_requests=3))
    assert max(fixed.batches) == 3


def test_a_mixed_step_decodes_too():
    requests = [Request(0.0, 50, 50), Request(0.06, 90, 2)]
    apart, _ = run(requests)
    mixed, fixed = run(requests, replace(ROOMY, mixed_chunk=True))
    assert mixed.itl.largest < apart.itl.largest + 0.01
    assert len(fixed.batches) < 50 + 2


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(1, 150), st.integers(1, 60)), min_size=1, max_size=40),
    st.integers(220, 900),
    st.sampled_from([1, 16]),
    st.booleans(),
)
def test_every_request_finishes_whole_however_small_the_cache(rows, kv_tokens, page, mixed):
    requests = [Request(at, isl, osl) for at, isl, osl in sorted(rows)]
    policy = replace(ROOMY, kv_tokens=kv_tokens // page * page, page_size=page, mixed_chunk=mixed)
    result, _ = run(requests, policy)
    fits = [r for r in requests if not policy.refuses(r.isl + r.osl)]
    assert result.requests == len(fits)
    assert result.rejected == len(requests) - len(fits)
    assert result.output_tokens == sum(r.osl for r in fits)
    assert result.peak_kv_tokens <= policy.kv_tokens + policy.page_size


def test_a_full_cache_preempts_and_setting_room_aside_does_not():
    requests = [Request(0.0, 20, 180) for _ in range(8)]
    small = replace(ROOMY, kv_tokens=700)
    assert run(requests, small)[0].preemptions > 0
    assert run(requests, replace(small, ignore_eos=True))[0].preemptions == 0


def test_requests_that_can_never_fit_are_rejected():
    result, _ = run([Request(0.0, 20_000, 1), Request(0.0, 20, 1)])
    assert (result.requests, result.rejected) == (1, 1)
    assert run([Request(0.0, 20, 20)], replace(ROOMY, context_tokens=39))[0].rejected == 1


def test_cached_tokens_are_not_prefilled():
    result, fixed = run([Request(0.0, 80, 2, cached=60)])
    assert fixed.prefills == [20]
    assert result.cached_tokens == 60


def test_shared_blocks_hit_the_prefix_cache():
    policy = replace(ROOMY, chunked_prefill_size=4096)
    requests = [Request(0.0, 1100, 2, blocks=(1, 2, 3)), Request(5.0, 1100, 2, blocks=(1, 2, 9))]
    result, fixed = run(requests, policy)
    assert fixed.prefills == [1100, 1100 - 1024]
    assert result.cached_tokens == 1024


def test_the_prefix_cache_drops_the_oldest():
    cache = PrefixCache(2 * 512)
    cache.store((1, 2))
    cache.store((3,))
    assert cache.hit((1, 2), 2000) == 0
    assert cache.hit((2, 3), 2000) == 1024
    assert cache.hit((2, 3), 1024) == 1023


def test_speculation_produces_the_expected_tokens():
    speculation = Speculation(draft_tokens=4, acceptance=0.5)
    assert speculation.tokens_per_step == pytest.approx(1 + 0.5 + 0.25 + 0.125)
    result, _ = run([Request(0.0, 10, 76)], replace(ROOMY, speculation=speculation))
    assert result.decode_steps == 40


def test_goodput_counts_what_keeps_both_limits():
    requests = [Request(0.0, 90, 2), Request(0.001, 90, 2)]
    assert run(requests, slo=(0.1, None))[0].good == 1
    assert run(requests, slo=(1.0, 0.015))[0].good == 1
    assert run(requests)[0].good == 2


def test_the_same_stream_gives_the_same_result():
    def once():
        stream = OpenLoop(synthetic(Lengths(100, 20, 0.5), 300, 7, rate=20.0))
        return simulate(FixedSteps(), ROOMY, stream)

    assert once() == once()


def test_memory_is_flat_in_the_number_of_requests():
    class Forgetful(FixedSteps):
        def extend(self, tokens, quadratic, weighted_kv, sampled):
            return 1e-3 * tokens

        def decode(self, batch, mean_kv_len):
            return 1e-2

    peaks = []
    for count in (1000, 8000):
        tracemalloc.start()
        simulate(Forgetful(), ROOMY, ClosedLoop(synthetic(Lengths(20, 4, 0.5), count, 0), 8))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]


def test_progress_ends_at_the_number_of_requests():
    told: list[int] = []
    run([Request(0.0, 1, 1) for _ in range(2500)], on_progress=told.append)
    assert told[-1] == 2500
    assert told == sorted(told)
    assert len(told) > 1


AGREE = 0.1
"""The closed form against the simulation: it leaves out that lengths vary and that steps hold whole requests."""


@pytest.mark.parametrize("concurrency", [1, 8, 32, 96])
def test_the_closed_form_agrees_with_staggered_requests(concurrency):
    model = steps()
    stream = ClosedLoop(synthetic(Lengths(512, 128, 0.5), 100 * concurrency, 0), concurrency)
    result = simulate(StepLookup(model, memory(model)), policy_of(memory(model)), stream)
    rates = serve(model, Load(512, 128, concurrency=concurrency), memory(model)).rates
    assert rates.tokens_per_s == pytest.approx(result.tokens_per_s, rel=AGREE)
    assert rates.tpot_seconds == pytest.approx(result.tpot.mean, rel=AGREE)


@pytest.mark.parametrize("rate", [2.0, 10.0, 25.0])
def test_the_closed_form_agrees_with_poisson_arrivals(rate):
    model = steps()
    stream = OpenLoop(synthetic(Lengths(512, 128), 4000, 0, rate=rate))
    result = simulate(StepLookup(model, memory(model)), policy_of(memory(model)), stream)
    service = serve(model, Load(512, 128, rate=rate), memory(model))
    assert service.rates.ttft_seconds == pytest.approx(result.ttft.mean, rel=AGREE)
    assert service.rates.tpot_seconds == pytest.approx(result.tpot.mean, rel=AGREE)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: replace(ROOMY, kv_tokens=0), "kv_tokens=0"),
        (lambda: Speculation(1, 0.5), "draft_tokens=1"),
        (lambda: Speculation(4, 1.0), "acceptance=1.0"),
        (lambda: Speculation(4, 0.5, draft_cost=2.0), "draft_cost=2.0"),
    ],
)
def test_impossible_settings_are_refused(call, why):
    with pytest.raises(ValueError, match=why):
        call()
