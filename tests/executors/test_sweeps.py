"""Sweep sets are fixed by their seed and cover what they claim; the runner writes every outcome it gets."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from costmodel import Attention, Batch
from executors.isolated import IsolatedMeasurer
from executors.outcome import Accuracy, Candidate, Failed, Measured, Outcome, Rejected
from executors.settings import Settings
from executors.sweeps import candidates as candidates_module
from executors.sweeps.candidates import SWEPT, backends_of, candidates
from executors.sweeps.prebuilt import has_module
from executors.sweeps.runner import describe, sweep
from executors.sweeps.sets import ALL, CACHE_BYTES, SETS, Workload, workloads
from executors.sweeps.store import SweepMeasurer
from executors.sweeps.warm import COMPILED, jobs, warm
from hwprofiles import load_profile

H200 = load_profile("h200")
GQA = Attention(32, 8, 128)


@pytest.fixture
def all_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = candidates_module.get_backend

    def installed(name: str) -> Any:
        backend = type(real(name))()
        backend.implementation = lambda: ("library", "1.0")
        return backend

    monkeypatch.setattr(candidates_module, "get_backend", installed)


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_fixed_by_its_seed(name: str) -> None:
    assert workloads(name, seed=3) == workloads(name, seed=3)
    assert workloads(name, seed=3) != workloads(name, seed=4)
    assert workloads(name, seed=3, limit=5) == workloads(name, seed=3)[:5]


@pytest.mark.parametrize("name", SETS)
def test_every_workload_fits_the_cache_limit(name: str) -> None:
    for work in workloads(name):
        assert work.batch.total_kv * work.attention.kv_bytes_per_token <= CACHE_BYTES


def test_decode_is_on_and_off_the_grid_uniform_and_ragged() -> None:
    work = workloads("decode")
    powers = [w for w in work if all(n & (n - 1) == 0 for n in (w.batch.size, *w.batch.kv_lens))]
    ragged = [w for w in work if not w.batch.uniform]
    assert len(powers) > 20
    assert len(work) - len(powers) > 50
    assert len(ragged) > 20
    assert {w.batch.page_size for w in work} == {1, 64}
    assert len({(w.attention.num_qo_heads, w.attention.num_kv_heads) for w in work}) >= 15


def test_extend_has_every_phase() -> None:
    batches = [w.batch for w in workloads("extend")]
    assert {b.phase for b in batches} == {"extend", "verify", "mixed"}
    assert any(b.topk > 1 for b in batches)
    assert any(b.q_lens == b.kv_lens for b in batches)
    assert any(b.phase == "extend" and b.q_lens != b.kv_lens for b in batches)


def test_more_has_mixed_batches_fp8_caches_and_windows() -> None:
    work = workloads("more")
    assert sum(w.batch.phase == "mixed" for w in work) >= 20
    assert sum(w.attention.kv_dtype == "fp8_e4m3" for w in work) >= 30
    assert sum(w.attention.sliding_window is not None for w in work) >= 15


@pytest.mark.usefixtures("all_installed")
def test_fa4_is_measured_in_every_phase_beside_fa3_with_few_kernels_to_compile() -> None:
    work = workloads("fa4")
    assert {w.batch.phase for w in work} == {"decode", "extend", "verify", "mixed"}
    assert {w.batch.page_size for w in work} == {1, 64, 128}
    assert len({w.attention for w in work}) <= 8
    for w in work:
        plain = w.attention.logit_soft_cap is None  # fa3's paged build has none
        found = [c.backend for c in candidates(w, H200, seed=0, names=backends_of("fa4"))]
        assert found == (["fa4", "fa3"] if plain else ["fa4"])


@pytest.mark.usefixtures("all_installed")
def test_split_ladder_of_fa3_is_whole_and_never_above_the_tiles() -> None:
    for kv, expected in ((4096, 32), (512, 4), (131072, 128)):
        work = Workload(GQA, Batch.decode([kv] * 2, page_size=64), ALL)
        found = [c for c in candidates(work, H200, seed=0) if c.backend == "fa3"]
        splits = sorted({int(c.knobs["num_splits"]) for c in found})  # type: ignore[arg-type]
        assert splits[0] == 0
        assert splits[-1] == expected
        assert set(range(1, min(16, expected) + 1)) <= set(splits)


@pytest.mark.usefixtures("all_installed")
def test_triton_splits_are_swept_as_fixed_counts() -> None:
    work = Workload(GQA, Batch.decode([8192] * 2, page_size=64), ALL)
    found = [c.knobs for c in candidates(work, H200, seed=0) if c.backend == "triton"]
    assert found[0] == {"max_kv_splits": 8, "split_mode": "auto"}
    assert {k["max_kv_splits"] for k in found if k["split_mode"] == "fixed"} >= {1, 2, 4, 16, 32, 64}


@pytest.mark.usefixtures("all_installed")
@pytest.mark.parametrize(
    ("name", "least"), [("decode", 1500), ("extend", 600), ("mla", 400), ("other", 200), ("splits", 1500)]
)
def test_a_set_offers_enough_rows(name: str, least: int) -> None:
    assert sum(len(candidates(work, H200, seed=0)) for work in workloads(name)) >= least


@pytest.mark.usefixtures("all_installed")
def test_no_candidate_needs_a_module_that_the_host_lacks() -> None:
    for work in workloads("other"):
        for candidate in candidates(work, H200, seed=0):
            assert has_module(candidate.backend, work.attention, work.batch)
            if candidate.backend == "flashinfer":
                assert work.attention.head_dim in (64, 128)


@pytest.mark.usefixtures("all_installed")
def test_the_build_that_answers_mla_with_garbage_is_measured_beside_the_right_one() -> None:
    for work in workloads("builds"):
        assert work.attention.is_latent
        builds = [c.knobs["build"] for c in candidates(work, H200, seed=0)]
        assert builds == ["flash_attn_interface", "fa3_fwd_interface"]
        assert candidates(work, H200, seed=0, names=("triton",)) == []


@pytest.mark.usefixtures("all_installed")
def test_whole_steps_have_the_layers_of_their_models() -> None:
    work = workloads("stack")
    assert {w.batch.layers for w in work} == {36, 61, 80}
    assert {w.batch.phase for w in work} == {"decode", "extend"}
    assert all(len(candidates(w, H200, seed=0)) >= 3 for w in work)


def test_pytorch_has_sets_for_itself() -> None:
    assert backends_of("torch") == ("torch_native",)
    assert backends_of("flex") == ("flex_attention",)
    assert backends_of("decode") == SWEPT


@pytest.mark.usefixtures("all_installed")
def test_candidates_are_distinct_and_the_default_comes_first() -> None:
    for work in workloads("decode", limit=20):
        found = candidates(work, H200, seed=0)
        assert len({c.key for c in found}) == len(found)
        assert {c.backend for c in found} <= set(SWEPT)


@pytest.mark.usefixtures("all_installed")
def test_warming_names_each_compiled_form_once() -> None:
    tasks = [(work, candidates(work, H200, seed=0)) for work in workloads("decode", limit=60)]
    work = jobs(tasks)
    assert {c.backend for _, _, found in work for c in found} == set(COMPILED) & set(SWEPT)
    forms = [(a, b, c) for a, b, found in work for c in found if c.backend == "triton"]
    names = {(a, b.phase, b.page_size, b.size == 1, c.key) for a, b, c in forms}
    assert len(names) == len(forms)
    assert len(forms) < sum(c.backend == "triton" for _, found in tasks for c in found)
    own = [(b, c.key) for _, b, found in work for c in found if c.backend == "attnroof_triton"]
    assert len(own) == sum(c.backend == "attnroof_triton" for _, found in tasks for c in found)


def test_where_nothing_is_compiled_no_process_is_started() -> None:
    task = (Workload(GQA, Batch.decode([64]), 1), [Candidate("fa3", {})])
    assert warm([task], "cpu", workers=4, seconds=1.0) == "nothing to compile beforehand"


def test_a_sweep_checks_briefly_and_sustains_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Settings] = []
    monkeypatch.setattr(IsolatedMeasurer, "measure_with", lambda self, a, b, c, settings: seen.append(settings))
    SweepMeasurer("cuda:0", sustained_seconds=0.2).measure(GQA, Batch.decode([64]), [], seed=5, repeats=3)
    assert (seen[0].seed, seen[0].repeats, seen[0].sustained_seconds) == (5, 3, 0.2)
    assert seen[0].reference_limit("cuda:0") < Settings().reference_limit("cuda:0")


class FakeMeasurer:
    """Measures every candidate but those named."""

    def __init__(self, answers: Mapping[str, Outcome]) -> None:
        self.answers = answers
        self.seeds: list[int] = []

    def measure(
        self, attention: Attention, batch: Batch, candidates: Sequence[Candidate], *, seed: int, **_: object
    ) -> Mapping[str, Outcome]:
        self.seeds.append(seed)
        measured = Measured((1e-5,), Accuracy(0.0, 1.0))
        return {c.key: self.answers.get(c.key, measured) for c in candidates if c.key != "left[]"}


def test_every_outcome_is_written_and_a_candidate_without_one_is_not() -> None:
    names = ("good", "bad", "unable", "left")
    found = [Candidate(name, {}) for name in names]
    answers = {"bad[]": Failed("incorrect", "far off"), "unable[]": Rejected(("no",))}
    written: list[str] = []
    lines: list[str] = []
    tasks = [(Workload(GQA, Batch.decode([64]), 1), found)] * 2
    measurer = FakeMeasurer(answers)
    tally = sweep(measurer, tasks, lambda w, ended: written.extend(c.key for c, _ in ended), seed=7, log=lines.append)  # type: ignore[arg-type]
    assert written == ["good[]", "bad[]", "unable[]"] * 2
    assert tally.outcomes == {"measured": 2, "incorrect": 2, "rejected": 2}
    assert measurer.seeds == [7, 8]
    assert any("bad[]: incorrect: far off" in line for line in lines)


def test_a_passed_deadline_begins_no_workload() -> None:
    written: list[str] = []
    task = (Workload(GQA, Batch.decode([64]), 1), [Candidate("good", {})])
    tally = sweep(
        FakeMeasurer({}),  # type: ignore[arg-type]
        [task],
        lambda w, ended: written.extend(c.key for c, _ in ended),
        deadline=time.monotonic() - 1,
        log=lambda line: None,
    )
    assert written == []
    assert tally.workloads == 0


def test_an_unknown_set_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="known: decode, splits"):
        workloads("everything")


def test_a_workload_has_a_short_name() -> None:
    assert describe(Workload(GQA, Batch.decode([4096] * 16, page_size=64), 1)) == "decode 32/8x128 b16 kv4096 p64"
