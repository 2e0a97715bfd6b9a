"""Buckets: where the winner changes, the ends of the range, nothing that does not fit."""

from collections.abc import Mapping

from tuner_fakes import GQA

from costmodel import Attention, Batch
from hwprofiles import load_profile
from tuner.buckets import choose_buckets, tokens_that_fit
from tuner.spec import spec_of

H200 = load_profile("h200")


def crossing_at_8k(batch: Batch) -> Mapping[str, float]:
    """One backend wins below 8,192 tokens, the other from there on, by a factor of two."""
    long = batch.kv_lens[0] >= 8192
    return {"a": 2.0 if long else 1.0, "b": 1.0 if long else 2.0}


def test_buckets_lie_at_the_ends_and_at_the_crossing() -> None:
    chosen = choose_buckets(GQA, H200, limits={"decode": 12}, times=crossing_at_8k)
    points = {(b.size, b.kv_lens[0]) for b in chosen}
    assert {(1, 512), (256, 512), (1, 131072), (256, 131072)} <= points
    inner = points - {(1, 512), (256, 512), (1, 131072), (256, 131072)}
    assert inner
    assert all(n in (4096, 8192) for _, n in inner)


def test_a_model_without_crossings_needs_only_the_ends() -> None:
    chosen = choose_buckets(GQA, H200, limits={"decode": 50}, times=lambda batch: {"a": 1.0, "b": 1.01})
    assert {b.size for b in chosen if b.kv_lens[0] not in (512, 131072)} <= {1, 256}


def test_what_does_not_fit_the_memory_is_no_bucket() -> None:
    fit = tokens_that_fit(H200, 32 * GQA.kv_bytes_per_token)
    chosen = choose_buckets(GQA, H200, limits={"decode": 10, "extend": 6}, most_tokens=fit)
    assert len(chosen) == 16
    assert max(b.total_kv for b in chosen) <= fit


def test_limits_are_kept_and_the_choice_is_the_same_every_time() -> None:
    mla = Attention.mla(num_qo_heads=16)
    first = choose_buckets(mla, H200, limits={"decode": 5, "verify": 2})
    assert [b.phase for b in first].count("decode") == 5
    assert [spec_of(b) for b in first] == [
        spec_of(b) for b in choose_buckets(mla, H200, limits={"decode": 5, "verify": 2})
    ]
