"""Laws that hold whatever the parameters: monotone, permutation invariant, never below the longest part."""

from costmodel_devices import device
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel import Attention, Batch, predict
from costmodel.call import Call
from costmodel.emulators import EMULATORS, emulator_of
from costmodel.knobs import resolve_knobs
from costmodel.library import library_reasons
from costmodel.machine import machine_of

FIXED = {
    "fa3": {"num_splits": 1},
    "triton": {"max_kv_splits": 1, "split_mode": "fixed"},
    "attnroof_triton": {"num_splits": 1},
    "torch_native": {},
}
"""Knobs that leave no decision to the library."""

attentions = st.builds(
    lambda kv, group, dim: Attention(kv * group, kv, dim),
    st.sampled_from([1, 2, 4, 8, 32]),
    st.sampled_from([1, 2, 4, 7, 8]),
    st.sampled_from([64, 128, 256]),
)
lengths = st.lists(st.integers(1, 20000), min_size=1, max_size=40)
gpus = st.sampled_from(["h200", "a100", "b200", "l40s"])


def seconds(attention, batch, backend, gpu="h200", knobs=None, profile=None):
    return predict(attention, batch, backend=backend, profile=profile or device(gpu), knobs=knobs).seconds


def runs(attention, batch, backend, gpu):
    return not library_reasons(backend, attention, batch, device(gpu))


@settings(max_examples=60, deadline=None)
@given(attention=attentions, kv=st.integers(1, 60000), size=st.integers(1, 200), backend=st.sampled_from(sorted(FIXED)))
def test_grows_with_length_at_fixed_knobs(attention, kv, size, backend):
    if kv * size > 4_000_000:
        size = 1
    shorter, longer = (Batch.decode([n] * size, page_size=64) for n in (kv, kv + 256))
    knobs = FIXED[backend]
    assert seconds(attention, longer, backend, knobs=knobs) >= seconds(attention, shorter, backend, knobs=knobs) * (
        1 - 1e-9
    )


@settings(max_examples=60, deadline=None)
@given(attention=attentions, kv=st.integers(1, 20000), size=st.integers(1, 100), backend=st.sampled_from(sorted(FIXED)))
def test_grows_with_batch_at_fixed_knobs(attention, kv, size, backend):
    small, large = (Batch.decode([kv] * n, page_size=64) for n in (size, size + 1))
    knobs = FIXED[backend]
    assert seconds(attention, large, backend, knobs=knobs) >= seconds(attention, small, backend, knobs=knobs) * (
        1 - 1e-9
    )


@settings(max_examples=60, deadline=None)
@given(attention=attentions, kv=st.integers(256, 60000), backend=st.sampled_from(["fa3", "triton", "flashinfer"]))
def test_own_choice_falls_only_where_the_rule_cuts_otherwise(attention, kv, backend):
    calls = [
        Call(attention, Batch.decode([n] * 4, page_size=64), machine_of(device()), resolve_knobs(backend, None))
        for n in (kv, kv + 128)
    ]
    before, after = (predict(c.attention, c.batch, backend=backend, profile=device()) for c in calls)
    plans = [emulator_of(backend).plan(c) for c in calls]
    shorter, longer = (sorted((t for count, t in p.jobs for _ in range(count)), reverse=True) for p in plans)
    no_part_shrank = len(longer) >= len(shorter) and all(a >= b for a, b in zip(longer, shorter, strict=False))
    declared = [(p.num_splits, p.merge_splits, p.merge_slots) for p in plans]
    merge_did_not_shrink = all(a >= b for a, b in zip(declared[1], declared[0], strict=True))
    if no_part_shrank and merge_did_not_shrink:
        assert after.seconds >= before.seconds * (1 - 1e-9)


@settings(max_examples=60, deadline=None)
@given(lens=lengths, seed=st.randoms(use_true_random=False), backend=st.sampled_from(sorted(EMULATORS)), gpu=gpus)
def test_permuting_requests_changes_nothing(lens, seed, backend, gpu):
    attention, mixed = Attention(16, 4, 128), list(lens)
    seed.shuffle(mixed)
    batch = Batch.decode(lens, page_size=64)
    if runs(attention, batch, backend, gpu):
        assert seconds(attention, batch, backend, gpu) == seconds(
            attention, Batch.decode(mixed, page_size=64), backend, gpu
        )


@settings(max_examples=60, deadline=None)
@given(lens=lengths, backend=st.sampled_from(sorted(FIXED)))
def test_a_batch_is_never_cheaper_than_its_longest_request(lens, backend):
    attention = Attention(16, 4, 128)
    whole = seconds(attention, Batch.decode(lens, page_size=64), backend, knobs=FIXED[backend])
    alone = seconds(attention, Batch.decode([max(lens)], page_size=64), backend, knobs=FIXED[backend])
    assert whole >= alone * (1 - 1e-9)


@settings(max_examples=60, deadline=None)
@given(attention=attentions, lens=lengths, backend=st.sampled_from(["fa3", "triton", "flashinfer", "torch_native"]))
def test_more_bandwidth_is_never_slower(attention, lens, backend):
    profile, batch = device(), Batch.decode(lens, page_size=64)
    faster = profile.model_copy(update={"memory_bytes_per_s": profile.memory_bytes_per_s * 1.5})
    assert seconds(attention, batch, backend, profile=faster) <= seconds(attention, batch, backend) * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(
    attention=attentions,
    q=st.integers(1, 3000),
    prefix=st.integers(0, 20000),
    backend=st.sampled_from(["fa3", "flashinfer", "triton"]),
)
def test_extend_of_one_token_works_like_any_other(attention, q, prefix, backend):
    p = predict(attention, Batch.extend([q], [q + prefix], page_size=64), backend=backend, profile=device())
    assert 0 < p.low <= p.seconds <= p.high < 1
