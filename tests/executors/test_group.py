"""A group is measured as promised: checked first, interleaved, bounded, every end recorded."""

import random
import time
from collections.abc import Sequence

import pytest
import torch

from costmodel import Attention, Batch, Incompatible
from executors import group
from executors.base import Prepared
from executors.conditions import Disturbance, combine
from executors.failures import describe
from executors.group import Bench, measure_group
from executors.inputs import Inputs, make_inputs
from executors.interleave import EXTRA_ROUNDS, Runner, interleave
from executors.kv_write import prepare_write
from executors.outcome import Accuracy, Candidate, Conditions, Failed, Measured, Outcome, Rejected
from executors.sampler import Sample, Sampler
from executors.settings import INPUTS_STAGE, Settings, Silent
from executors.setup import Setup, set_up
from executors.stack import measure_stack

GQA = Attention(4, 2, 32)
DECODE = Batch.decode([40, 9], page_size=8)


def faulty(name: str) -> Candidate:
    return Candidate(f"faulty_backends:{name}", {})


class Watching(Silent):
    def __init__(self) -> None:
        self.log: list[str] = []

    def began(self, key: str) -> None:
        self.log.append(key)

    def ended(self, key: str, outcome: Outcome) -> None:
        self.log.append(f"{key} {type(outcome).__name__}")


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    names = ("Right", "Wrong", "NotANumber", "Unwritten", "FirstCopyOnly", "Restless", "Raises", "BeyondMemory")
    found = measure_group(GQA, DECODE, [faulty(name) for name in names], settings=Settings(repeats=3))
    return {key.partition(":")[2].removesuffix("[]"): outcome for key, outcome in found.items()}


def test_a_right_backend_is_measured(outcomes: dict[str, Outcome]) -> None:
    right = outcomes["Right"]
    assert isinstance(right, Measured)
    assert len(right.seconds) == 3
    assert min(right.seconds) > 0
    assert right.accuracy.correct
    assert right.accuracy.deterministic
    assert right.write_seconds is not None


@pytest.mark.parametrize("name", ["Wrong", "NotANumber", "Unwritten", "FirstCopyOnly"])
def test_a_wrong_backend_is_caught_and_never_timed(outcomes: dict[str, Outcome], name: str) -> None:
    wrong = outcomes[name]
    assert isinstance(wrong, Failed)
    assert wrong.kind == "incorrect"
    assert wrong.accuracy is not None
    assert not wrong.accuracy.correct


def test_run_to_run_differences_are_a_result(outcomes: dict[str, Outcome]) -> None:
    restless = outcomes["Restless"]
    assert isinstance(restless, Measured)
    assert restless.accuracy.deterministic is False


def test_an_exception_and_lack_of_memory_end_only_their_candidate(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["Raises"] == Failed("crashed", "RuntimeError: the library said no")
    short = outcomes["BeyondMemory"]
    assert isinstance(short, Failed)
    assert short.kind == "oom"


def test_the_watcher_hears_of_every_step() -> None:
    watching = Watching()
    measure_group(GQA, DECODE, [faulty("Right"), faulty("Raises")], settings=Settings(repeats=1), watcher=watching)
    right, raises = "faulty_backends:Right[]", "faulty_backends:Raises[]"
    assert watching.log == [INPUTS_STAGE, right, raises, f"{raises} Failed", right, f"{right} Measured"]


def test_a_workload_is_set_up_once_until_another_comes_or_a_candidate_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Batch] = []

    def counting(attention: Attention, batch: Batch, device: str, *, seed: int, reference_seconds: float) -> Setup:
        made.append(batch)
        return set_up(attention, batch, device, seed=seed, reference_seconds=reference_seconds)

    monkeypatch.setattr("executors.group.set_up", counting)
    bench, once = Bench("cpu"), Settings(repeats=1)
    other = Batch.decode([5])
    for batch, name in ((DECODE, "Right"), (DECODE, "Wrong"), (DECODE, "Right"), (other, "Right"), (other, "Right")):
        bench.measure(GQA, batch, [faulty(name)], once)
    assert made == [DECODE, DECODE, other]


def test_a_passed_deadline_begins_nothing() -> None:
    settings = Settings(deadline=time.monotonic() - 1)
    assert measure_group(GQA, DECODE, [faulty("Right")], settings=settings) == {}


def test_a_batch_beyond_memory_fails_every_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("executors.inputs.free_bytes", lambda device: 1000)
    outcome = measure_group(GQA, DECODE, [faulty("Right")])["faulty_backends:Right[]"]
    assert isinstance(outcome, Failed)
    assert outcome.kind == "oom"


class Scripted(Sampler):
    """Samples that a test wrote down."""

    def __init__(self, name: str, script: Sequence[bool | Exception], log: list[str]) -> None:
        self.prepared = Prepared(run=lambda slot: torch.zeros(1))
        self._name, self._script, self._log = name, list(script), log

    def sample(self) -> Sample:
        self._log.append(self._name)
        step = self._script.pop(0)
        if isinstance(step, Exception):
            raise step
        return Sample(float(len(self._log)), step, Conditions())

    def warm_up(self) -> torch.Tensor:
        raise NotImplementedError

    def eager_seconds(self) -> float:
        raise NotImplementedError

    def sustained_seconds(self, duration: float) -> float:
        return duration

    def synchronize(self) -> None: ...


def runner(name: str, script: Sequence[bool | Exception], log: list[str]) -> Runner:
    return Runner(name, Scripted(name, script, log), Accuracy(0.0, 1.0), 0.0, 0.0, None)


def test_candidates_are_interleaved_in_an_order_that_the_seed_draws() -> None:
    logs = []
    for seed in (1, 1, 2):
        log: list[str] = []
        interleave([runner(n, [False] * 4, log) for n in "abcd"], "cpu", Settings(seed=seed, repeats=4), Silent())
        logs.append(log)
    rounds = [tuple(logs[0][i : i + 4]) for i in range(0, 16, 4)]
    assert all(sorted(r) == list("abcd") for r in rounds)
    assert len(set(rounds)) > 1
    assert logs[0] == logs[1] != logs[2]


def test_interrupted_samples_are_taken_again_while_the_machine_is_mostly_quiet() -> None:
    log: list[str] = []
    quiet, unlucky = runner("q", [False] * 3, log), runner("u", [False, True, False, False], log)
    interleave([quiet, unlucky], "cpu", Settings(repeats=3), Silent())
    assert len(unlucky.seconds(3)) == 3
    assert unlucky.conditions(3, None).busy is None


def test_a_busy_machine_is_reported_and_not_waited_for() -> None:
    log: list[str] = []
    busy = runner("b", [True] * 9, log)
    interleave([busy], "cpu", Settings(repeats=3), Silent())
    assert len(log) == 3
    assert busy.conditions(3, None).busy == "busy machine: 3 of 3 samples were interrupted by other processes"
    assert len(busy.seconds(3)) == 3
    assert EXTRA_ROUNDS > 0


def test_a_failure_while_timing_ends_only_that_candidate() -> None:
    log: list[str] = []
    good, bad = runner("g", [False] * 3, log), runner("b", [False, RuntimeError("gone")], log)
    failed = interleave([good, bad], "cpu", Settings(repeats=3), Silent())
    assert failed == {"b": Failed("crashed", "RuntimeError: gone")}
    assert len(good.samples) == 3


def test_sustained_times_are_taken_where_asked_for() -> None:
    one = runner("a", [False], [])
    interleave([one], "cpu", Settings(repeats=1, sustained_seconds=0.25), Silent())
    assert one.sustained_seconds == 0.25


def test_what_an_exception_means() -> None:
    assert describe(Incompatible("fa3", ["no", "never"])) == Rejected(("no", "never"))
    assert isinstance(describe(ValueError("block_n=7")), Rejected)
    assert describe(RuntimeError("CUDA out of memory. Tried ...")) == Failed(
        "oom", "RuntimeError: CUDA out of memory. Tried ..."
    )
    assert describe(MemoryError("")) == Failed("oom", "MemoryError: no message")


def test_conditions_are_summed_up() -> None:
    readings = [Conditions(1.0e9, 300.0, 60.0, ("power cap",)), Conditions(1.2e9, 500.0, 65.0), Conditions(1.1e9)]
    assert combine(readings, "busy") == Conditions(1.1e9, 500.0, 65.0, ("power cap",), "busy")
    assert Disturbance(0, 5).words() is None


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="repeats=0"):
        Settings(repeats=0)


def _poisoned(inputs: Inputs) -> Inputs:
    for cache in (*inputs.k_cache, *inputs.v_cache):
        cache.view(torch.uint8).flatten(0, 1)[inputs.new_slots] = 0
    return inputs


@pytest.mark.parametrize("kv_dtype", ["bf16", "fp8_e4m3"])
def test_the_kv_write_stores_the_new_tokens_where_they_belong(kv_dtype: str) -> None:
    inputs = _poisoned(make_inputs(Attention(4, 2, 32, kv_dtype=kv_dtype), DECODE, seed=0, slots=2))
    prepare_write(inputs).run(1)
    rows = inputs.k_cache[1].view(torch.uint8).flatten(0, 1)[inputs.new_slots]
    assert torch.equal(rows, inputs.k_new.view(torch.uint8))
    assert (inputs.k_cache[0].view(torch.uint8).flatten(0, 1)[inputs.new_slots] == 0).all()


def test_a_stack_runs_every_layer_on_its_own_cache_and_plans_once() -> None:
    inputs = make_inputs(GQA, Batch.decode([40, 9], page_size=8, layers=3), seed=0, slots=2)
    slots: list[int] = []
    plans: list[int] = []

    def run(slot: int) -> torch.Tensor:
        slots.append(slot)
        return inputs.q

    times = measure_stack(Prepared(run, plan=lambda: plans.append(1)), inputs, repeats=1)
    assert slots[:3] == [0, 1, 0]
    assert times.layers == 3
    assert times.step_seconds == times.plan_seconds + times.layers_seconds
    assert times.layers_seconds > 0
    assert plans


def test_a_batch_of_several_layers_has_its_step_measured() -> None:
    outcome = measure_group(GQA, Batch.decode([40], layers=4), [faulty("Right")], settings=Settings(repeats=1))
    right = outcome["faulty_backends:Right[]"]
    assert isinstance(right, Measured)
    assert right.step_seconds is not None
    assert right.step_seconds > 0


def test_random_order_uses_no_global_state() -> None:
    random.seed(5)
    before = random.getstate()
    interleave([runner("a", [False], [])], "cpu", Settings(repeats=1), Silent())
    assert random.getstate() == before


def test_others_that_come_while_a_group_is_timed_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([None, "2 processes compute on this GPU"])
    monkeypatch.setattr(group, "others_on", lambda device: next(answers))
    candidate = faulty("Right")
    right = measure_group(GQA, DECODE, [candidate], settings=Settings(repeats=1))[candidate.key]
    assert isinstance(right, Measured)
    assert right.conditions.busy is not None
    assert right.conditions.busy.startswith("2 processes compute on this GPU")
