"""The policy: exact rows, between rows, outside, ragged, reload, threads."""

import os
import threading
from pathlib import Path

import pytest
from tuner_fakes import GQA, configuration, row, true_seconds

from costmodel import Attention, Batch
from tuner.between import between_rows
from tuner.configuration import Configuration, ConfigurationError, write
from tuner.policy import Policy


def with_between(made: Configuration) -> Configuration:
    def predict(attention: Attention, batch: Batch, candidate: object) -> float:
        crossed = batch.kv_lens[0] > 10_000
        return true_seconds(candidate) * (10.0 if crossed and candidate.backend == "fa3" else 1.0)  # type: ignore[attr-defined,arg-type]

    grid = between_rows(GQA, 1, "decode", made.decode.values(), predict)
    assert grid is not None
    return made.model_copy(update={"between": {"decode": grid}})


def table() -> Configuration:
    rows = [
        row("q1s1k"),
        row("64q1s1k"),
        row("q1s64k", best=("triton", 32)),
        row("64q1s64k", best=("triton", 32)),
        row("q2k"),
    ]
    return with_between(configuration(rows))


def test_an_exact_row_answers() -> None:
    policy = Policy([table()])
    assert policy.backend("decode", 1, 1024) == "fa3"
    assert policy.backend("decode", 64, 65536) == "triton"
    assert policy.num_splits(1, 1024) == 8
    assert policy.backend("prefill", 1, 2048) == "fa3"


def test_between_rows_the_model_decides_and_says_so() -> None:
    policy = Policy([table()])
    near = policy.choice(GQA, Batch.decode([4096] * 8))
    far = policy.choice(GQA, Batch.decode([32768] * 8))
    assert (near.backend, near.source) == ("fa3", "interpolated")
    assert (far.backend, far.source) == ("triton", "interpolated")
    assert "model" in far.provenance


def test_outside_the_table_the_default_answers_with_a_note() -> None:
    found = Policy([table()]).choice(GQA, Batch.decode([4096] * 512))
    assert (found.backend, dict(found.knobs), found.source) == ("fa3", {"num_splits": 0}, "default")
    assert "outside" in found.provenance
    assert found.latency_us is None


def test_only_what_sglang_reaches() -> None:
    policy = Policy([table()], sglang_only=True)
    assert policy.num_splits(1, 1024) == 0


def test_a_ragged_batch_finds_the_near_ragged_row() -> None:
    made = configuration([row("8q1s4k"), row("q1s1k_q1s3k", best=("triton", 16))])
    found = Policy([made]).choice(GQA, Batch.decode([1000, 3200]))
    assert (found.backend, found.source) == ("triton", "nearest")


def test_another_attention_is_not_answered_from_this_table() -> None:
    policy = Policy([table()])
    other = Attention(num_qo_heads=32, num_kv_heads=8, head_dim=128, sliding_window=4096)
    assert policy.choice(other, Batch.decode([1024])).source == "none"


def test_a_failing_model_never_raises() -> None:
    def broken(attention: Attention, batch: Batch) -> None:
        raise RuntimeError("no")

    policy = Policy([table()], fallback=broken)
    assert policy.choice(GQA, Batch.decode([4096] * 512)).source == "default"
    assert policy.backend("nonsense", 1, 1) == ""


def test_loads_files_and_folders_and_refuses_others(tmp_path: Path) -> None:
    path = write(table(), tmp_path)
    assert Policy.load(path).backend("decode", 1, 1024) == "fa3"
    assert Policy.load(tmp_path).backend("decode", 1, 1024) == "fa3"
    with pytest.raises(ConfigurationError, match="holds no configuration"):
        Policy.load(tmp_path / "..")
    with pytest.raises(ConfigurationError, match="no file"):
        Policy.load(tmp_path / "missing.json")


def test_a_changed_file_is_read_again_and_a_damaged_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(configuration([row()]), tmp_path)
    policy = Policy.load(path, reload_seconds=0.0)
    assert policy.num_splits(8, 4096) == 8
    write(configuration([row(best=("fa3", 4))]), tmp_path)
    assert policy.num_splits(8, 4096) == 4
    path.write_text("{")
    assert policy.num_splits(8, 4096) == 4
    assert "keeping the answers" in caplog.text
    os.unlink(path)
    assert policy.num_splits(8, 4096) == 4


def test_threads_see_only_whole_states(tmp_path: Path) -> None:
    first, second = configuration([row(best=("fa3", 8))]), configuration([row(best=("triton", 32))])
    write(first, tmp_path)
    policy = Policy.load(tmp_path, reload_seconds=0.0)
    seen: set[tuple[str, int | None]] = set()
    errors: list[Exception] = []
    stop = threading.Event()

    def ask() -> None:
        try:
            while not stop.is_set():
                found = policy.choice(GQA, Batch.decode([4096] * 8))
                seen.add((found.backend, next(iter(found.knobs.values()))))  # type: ignore[arg-type]
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(20):
        write(second if i % 2 == 0 else first, tmp_path)
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert seen <= {("fa3", 8), ("triton", 32)}
