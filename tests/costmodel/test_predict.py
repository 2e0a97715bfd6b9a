"""`predict` and `rank`: what the contract promises of every estimate."""

from dataclasses import replace

import pytest
from costmodel_devices import device, machine

from costmodel import Attention, Batch, Incompatible, UnknownBackend, predict, rank
from costmodel.call import Call
from costmodel.emulators import ALIASES, EMULATORS
from costmodel.knobs import resolve_knobs
from costmodel.library import library_reasons
from costmodel.predict import kv_cache_bytes
from costmodel.splits import SPLIT_KNOB, choose_splits, distinct_counts

GQA = Attention(32, 8, 128)
MLA = Attention.mla(128)
BATCHES = {
    "decode": Batch.decode([4096] * 64, page_size=64),
    "long": Batch.decode([131072], page_size=64),
    "ragged": Batch.decode([100 * i + 7 for i in range(1, 40)], page_size=64),
    "prefill": Batch.extend([2048], [2048], page_size=64),
    "chunk": Batch.extend([2048], [18432], page_size=64),
    "verify": Batch.verify([4096] * 8, 4, page_size=64),
    "mixed": Batch.extend([2048, 1, 1], [2048, 4096, 100], page_size=64),
}
DEVICES = ("h200", "a100", "b200", "rtx_4090", "l40s", "mi300x")
CASES = [
    (backend, name, gpu, attention)
    for gpu in DEVICES
    for attention in (GQA, MLA, Attention(16, 16, 64, sliding_window=1024), Attention(8, 1, 256, kv_dtype="fp8_e4m3"))
    for name, batch in BATCHES.items()
    for backend in EMULATORS
    if not library_reasons(backend, attention, batch, device(gpu))
]


@pytest.mark.parametrize(("backend", "name", "gpu", "attention"), CASES[::3])
def test_every_estimate_keeps_the_promises(backend, name, gpu, attention):
    batch, profile = BATCHES[name], device(gpu)
    p = predict(attention, batch, backend=backend, profile=profile)
    m = machine(gpu)
    call = Call(attention, batch, m, resolve_knobs(backend, None))
    rate = max(m.matrix_rate(attention.dtype), m.matrix_rate(attention.kv_dtype))
    limit = max(call.work.bytes / m.memory_bytes_per_s, call.work.flops / rate)
    assert p.seconds >= limit
    assert limit <= p.low <= p.seconds <= p.high
    assert sum(p.breakdown.values()) == pytest.approx(p.seconds, rel=1e-9)
    assert min(p.breakdown.values()) >= 0
    assert p.margin >= 1
    assert p.num_splits >= 1
    assert p.eager_seconds >= p.seconds
    assert p.dram_bytes >= 0
    assert p.reason
    assert p == predict(attention, batch, backend=backend, profile=profile)


def test_every_one_of_sglangs_names_is_known():
    assert len(set(EMULATORS) - {"attnroof_triton"} | set(ALIASES)) == 24


def test_an_alias_estimates_like_its_backend():
    sparse, batch = Attention.sparse(MLA, top_k=2048), Batch.decode([65536] * 4, page_size=64)
    dsa = predict(sparse, batch, backend="dsa", profile=device())
    assert replace(predict(sparse, batch, backend="nsa", profile=device()), backend="dsa") == dsa


def test_unknown_backend_lists_the_nearest():
    with pytest.raises(UnknownBackend, match="fa3"):
        predict(GQA, BATCHES["decode"], backend="fa33", profile=device())


def test_rank_takes_aliases_and_names_what_it_does_not_know():
    sparse, batch = Attention.sparse(MLA, top_k=2048), Batch.decode([65536] * 4, page_size=64)
    assert [row.backend for row in rank(sparse, batch, profile=device(), backends=["nsa"])] == ["dsa"]
    with pytest.raises(UnknownBackend, match="fa3"):
        rank(GQA, BATCHES["decode"], profile=device(), backends=["fa33"])


def test_incompatible_gives_all_reasons():
    with pytest.raises(Incompatible) as error:
        predict(GQA, BATCHES["decode"], backend="flashmla", profile=device("a100"))
    assert len(error.value.reasons) >= 2


def test_a_batch_beyond_the_memory_says_by_how_much():
    batch = Batch.decode([131072] * 300, page_size=64)
    over = kv_cache_bytes(GQA, batch) - device().memory_bytes
    assert over > 0
    with pytest.raises(ValueError, match="too much"):
        predict(GQA, batch, backend="fa3", profile=device())
    with pytest.raises(ValueError, match="too much"):
        rank(GQA, batch, profile=device())


def test_the_reason_names_tiles_and_splits():
    p = predict(GQA, Batch.decode([32768]), backend="fa3", profile=device(), knobs={"num_splits": 1})
    assert p.reason.startswith("8 KV heads x 1 request = 8 tiles for 132 SMs: 6 % busy; 16 splits fill them")
    assert p.bound == "latency"


def test_bounds_of_plain_cases():
    big = predict(GQA, Batch.decode([32768] * 64, page_size=64), backend="fa3", profile=device())
    assert big.bound == "memory"
    long = predict(GQA, Batch.extend([16384], [16384]), backend="fa3", profile=device())
    assert long.bound == "compute"
    tiny = predict(GQA, Batch.decode([64]), backend="fa3", profile=device())
    assert tiny.bound == "latency"


@pytest.mark.parametrize("name", sorted(BATCHES))
def test_rank_is_sorted_and_ends_with_the_rejected(name):
    rows = rank(GQA, BATCHES[name], profile=device())
    times = [row.prediction.seconds for row in rows if row.prediction]
    assert times == sorted(times)
    rejected = [row for row in rows if row.prediction is None]
    assert rows[len(times) :] == rejected
    assert all(row.reasons for row in rejected)
    assert {row.backend for row in rows} == set(EMULATORS)
    for row in rows[: len(times)]:
        again = predict(GQA, BATCHES[name], backend=row.backend, profile=device(), knobs=row.knobs)
        assert again.seconds == row.prediction.seconds


@pytest.mark.parametrize("backend", sorted(SPLIT_KNOB))
@pytest.mark.parametrize(("batch", "attention"), [(8, GQA), (1, GQA), (2, Attention(8, 1, 128))])
def test_split_choice_is_the_best_of_all_counts(backend, batch, attention):
    call = Call(attention, Batch.decode([7000] * batch, page_size=64), machine("b200"), resolve_knobs(backend, None))
    choice = choose_splits(EMULATORS[backend], call)
    knobs = {"split_mode": "fixed"} if backend == "triton" else {}
    tiles = EMULATORS[backend].plan(call.with_knobs({**call.knobs, SPLIT_KNOB[backend]: 1})).jobs[0][1]
    every = {}
    for count in range(1, min(128, int(tiles)) + 1):
        knobs[SPLIT_KNOB[backend]] = count
        if backend != "fa3":
            p = predict(attention, call.batch, backend=backend, profile=device("b200"), knobs=knobs)
            every[count] = p.seconds
    if every:
        assert choice.seconds[choice.best] <= min(every.values()) * (1 + 1e-9)
    assert choice.best in choice.plateau
    assert all(choice.seconds[s] <= choice.seconds[choice.best] * 1.01 for s in choice.plateau)


@pytest.mark.parametrize("tiles", [1, 2, 7, 64, 100, 128])
def test_distinct_counts_stand_for_all_sizes(tiles):
    counts = distinct_counts(tiles)
    assert {-(-tiles // c) for c in counts} == {-(-tiles // s) for s in range(1, tiles + 1)}
    assert counts == sorted(set(counts))
