"""What is tuned: shapes of layer groups, batches, and the dtype on a CPU."""

from collections.abc import Mapping, Sequence

import pytest
from tuner_fakes import GQA, FakeMeasurer, answer, tools, workload

from costmodel import Attention, Batch, LayerGroup
from executors.outcome import Accuracy, Candidate, Conditions, Measured, Outcome
from hwprofiles import load_profile
from tuner.dtype import choose_dtype
from tuner.request import make_request
from tuner.spec import spec_of

WINDOWED = Attention(32, 8, 128, sliding_window=1024)


def test_equal_groups_are_tuned_once_with_all_their_layers() -> None:
    groups = [LayerGroup(5, GQA), LayerGroup(25, WINDOWED), LayerGroup(1, GQA)]
    made = make_request(groups, ["q2k", "8q1s4k", "q2k"])
    assert [(w.attention, w.spec, w.layers) for w in made.workloads] == [
        (GQA, "q2k", 6),
        (GQA, "8q1s4k", 6),
        (WINDOWED, "q2k", 25),
        (WINDOWED, "8q1s4k", 25),
    ]


def test_cross_attention_is_left_out_with_a_note() -> None:
    groups = [LayerGroup(8, GQA, cross_attention=True), LayerGroup(32, GQA)]
    made = make_request(groups, ["q2k"])
    assert made.layers(GQA) == 32
    assert "8 cross-attention layers" in made.notes[0]
    with pytest.raises(ValueError, match="nothing to tune"):
        make_request(groups[:1], ["q2k"])


def test_a_dtype_replaces_that_of_queries_and_cache() -> None:
    attention = make_request([LayerGroup(1, GQA)], ["q2k"], dtype="fp32").attentions[0]
    assert (attention.dtype, attention.kv_dtype) == ("fp32", "fp32")


@pytest.mark.parametrize("spec", ["q2k", "8q1s4k", "2q512s8k", "q1s1000_3q1s2k", "16q4s4k", "2q2k_32q1s1k"])
def test_a_batch_survives_its_own_spelling(spec: str) -> None:
    from costmodel import parse_batch_spec

    batch = parse_batch_spec(spec)
    assert parse_batch_spec(spec_of(batch)) == batch


class ByDtype(FakeMeasurer):
    """Runs fp32 three times as fast as bf16, and no fp16 at all."""

    def measure(
        self,
        attention: Attention,
        batch: Batch,
        candidates: Sequence[Candidate],
        *,
        seed: int,
        repeats: int,
        deadline: float | None = None,
    ) -> Mapping[str, Outcome]:
        seconds = {"bf16": 3e-3, "fp32": 1e-3}.get(attention.dtype)
        return {} if seconds is None else {candidates[0].key: Measured((seconds,) * repeats, Accuracy(0, 1))}


def test_the_faster_dtype_is_chosen_and_the_times_are_said() -> None:
    h200 = load_profile("h200")
    choice = choose_dtype(ByDtype(), GQA, Batch.decode([4096]), h200)
    assert choice.dtype == "fp32"
    assert str(choice) == "dtype fp32, chosen by measuring one decode call (bf16 3.00 ms, fp32 1.00 ms)"
    assert choose_dtype(ByDtype(), GQA, Batch.decode([4096]), h200, dtypes=["fp16"]).dtype == "fp16"


def test_a_busy_machine_is_noted_in_the_row() -> None:
    def busy(c: Candidate) -> Measured:
        return Measured(
            (1e-4, 1.01e-4, 1e-4), Accuracy(0, 1), conditions=Conditions(busy="load average 8", throttle=("power",))
        )

    row = answer(workload(), tools(FakeMeasurer(answer=busy)))
    assert row.notes.count("load average 8") == 1
    assert "throttled: power" in row.notes
