"""Workers of a fleet sit at different workloads as long as there are enough, and inherit what a dead one left."""

from collections import deque
from dataclasses import replace
from pathlib import Path

from costmodel import Attention, Batch
from tuner.owner import Owner
from tuner.seats import Seats
from tuner.store import open_store
from tuner.workload import Workload

GQA = Attention(num_qo_heads=32, num_kv_heads=8, head_dim=128)
WORKLOADS = [
    Workload(GQA, Batch.decode(kv_lens=[tokens], page_size=64), f"1q1s{tokens}") for tokens in (1024, 4096, 16384)
]


def seats(url: str, worker: str, grace_seconds: float = 60.0) -> Seats:
    return Seats(open_store(url), "fleet", Owner.me(worker), grace_seconds)


def test_workers_take_different_workloads_and_share_the_last(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    one, two = seats(url, "one"), seats(url, "two")
    mine, theirs = deque(WORKLOADS), deque(WORKLOADS)
    assert one.next(mine) == WORKLOADS[0]
    assert two.next(theirs) == WORKLOADS[1]
    assert one.next(mine) == WORKLOADS[2]
    assert two.next(theirs) == WORKLOADS[0], "each is taken: help with the first"
    one.leave(WORKLOADS[2])
    assert two.next(theirs) == WORKLOADS[2]


def test_the_seat_of_a_dead_worker_is_free(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    dead = replace(seats(url, "gone"), owner=Owner("another-host", 1, "1"))
    assert dead.next(deque(WORKLOADS)) == WORKLOADS[0]
    patient, hasty = seats(url, "one"), seats(url, "two", grace_seconds=-1.0)
    assert patient.next(deque(WORKLOADS)) == WORKLOADS[1]
    assert hasty.next(deque(WORKLOADS)) == WORKLOADS[0]
