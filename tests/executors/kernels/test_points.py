"""Points of the own kernels that the tuner measures: few, legal, and not without what recorded sweeps found best."""

from collections import defaultdict

import pytest

from costmodel import Attention, Batch
from costmodel.record import Record
from executors.backends.attnroof_points import MAX_SPLITS, useful_splits
from executors.backends.attnroof_triton import AttnroofTriton
from executors.kernels.tiling import HOPPER, default_tile, fits
from executors.outcome import Candidate
from executors.recordings import PACKAGED, read_records
from hwprofiles import load_profile

H200 = load_profile("h200")
BACKEND = AttnroofTriton()
GQA = Attention(32, 8, 128)
MOST = 60

WORKLOADS = [
    (GQA, Batch.decode([4096] * 16)),
    (GQA, Batch.decode([131072])),
    (GQA, Batch.decode([300] * 256)),
    (Attention(16, 16, 64), Batch.decode([200_000], page_size=64)),
    (Attention(16, 8, 256), Batch.extend([4096], [4096])),
    (GQA, Batch.extend([2048], [2048])),
    (GQA, Batch.extend([40], [100_000])),
    (GQA, Batch.extend([512, 1, 1], [4096, 77, 900], page_size=64)),
    (GQA, Batch.verify([4096] * 8, 4, page_size=64)),
    (Attention.mla(16), Batch.decode([32768], page_size=64)),
    (Attention.mla(128, kv_dtype="fp8_e4m3"), Batch.decode([4096] * 64, page_size=64)),
]


@pytest.mark.parametrize(("attention", "batch"), WORKLOADS)
def test_points_are_few_distinct_legal_and_start_with_the_own_choice(attention: Attention, batch: Batch) -> None:
    points = BACKEND.points(attention, batch, H200)
    assert 1 < len(points) <= MOST
    assert len({p.key for p in points}) == len(points)
    assert points[0].knobs == {k.name: k.values[0] for k in BACKEND.knobs(attention, batch, H200)}
    for point in points:
        assert fits(attention, batch, point.knobs, target=HOPPER)
        assert 0 <= int(point.knobs["num_splits"] or 0) <= MAX_SPLITS


def test_a_batch_that_fills_the_device_is_split_less_than_a_single_request() -> None:
    one, many = Batch.decode([32768]), Batch.decode([32768] * 64)
    splits = [useful_splits(GQA, b, 132, default_tile(GQA, b, target=HOPPER)) for b in (one, many)]
    assert splits[0][-1] == MAX_SPLITS
    assert splits[1] == list(range(1, len(splits[1]) + 1))
    assert splits[1][-1] < 16


def test_no_part_is_empty() -> None:
    short = Batch.decode([200])
    assert useful_splits(GQA, short, 132, default_tile(GQA, short, target=HOPPER)) == [1, 2, 3, 4]


def test_what_the_recorded_sweeps_found_best_is_among_the_points_or_within_their_noise() -> None:
    found: dict[tuple[object, ...], list[Record]] = defaultdict(list)
    for record in read_records(PACKAGED / "nvidia-h200").records:
        if record.backend == BACKEND.name and record.outcome == "measured":
            found[tuple(sorted(record.attention.items())), record.batch].append(record)
    swept = [records for records in found.values() if len(records) > 2]
    assert swept
    for records in swept:
        points = BACKEND.points(records[0].to_attention(), records[0].to_batch(), H200)
        offered = {p.key for p in points}
        latencies = {Candidate(r.backend, r.knobs).key: r.latency_us or 0.0 for r in records}
        assert min(v for k, v in latencies.items() if k in offered) <= 1.05 * min(latencies.values())
