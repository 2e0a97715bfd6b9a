"""Which host a worker is on, and which errors of a storage pass: what a fleet rests on, without a server."""

import socket
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial
from sqlalchemy.exc import OperationalError, PendingRollbackError
from tuner_fakes import FakeMeasurer, all_candidates, answer, tools, workload

from executors.outcome import Failed
from tuner.owner import Owner, this_host
from tuner.session import Session
from tuner.setup import Options
from tuner.space import Space
from tuner.store import Store, StoreError, file_system_of, open_store


def test_containers_of_one_name_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    me = Owner.me()
    gone = Owner(me.host, 2**22 + 1, "1")
    assert gone.known_dead()
    monkeypatch.setattr("tuner.owner.os.readlink", lambda _: "pid:[7]")
    assert this_host() != me.host
    assert this_host().startswith(f"{socket.gethostname()}#")
    assert not gone.known_dead()
    assert Owner.parse(str(me)) == me


@pytest.mark.parametrize("shift", [-3600.0, 3600.0])
def test_a_dead_worker_elsewhere_is_replaced_though_the_clock_was_set(tmp_path: Path, shift: float) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'study.db'}")
    gone = FakeMeasurer(on_measure=lambda _: (_ for _ in ()).throw(RuntimeError("power cut")))
    with pytest.raises(RuntimeError):
        answer(workload(), tools(gone, store, owner=Owner("other-host", 1, "1", "x")))
    now = store.claims._now  # type: ignore[attr-defined]
    store.claims._now = now + shift  # type: ignore[attr-defined]
    patient = tools(FakeMeasurer(), store, owner=Owner.me("y"), grace_seconds=1800.0)
    assert answer(workload(), patient).status == "measured"
    assert patient.recovered >= 1


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_transaction_that_pends_after_a_lost_connection_passes(wrapped: bool) -> None:
    store = open_store(None)
    store = Store("postgresql://host/x", store.storage, store.claims, sleep=lambda _: None)
    left = [1, 2]

    def action() -> str:
        if left:
            left.pop()
            pending = PendingRollbackError("Can't reconnect until invalid transaction is rolled back.")
            if wrapped:
                raise StorageInternalError from pending
            raise pending
        return "done"

    assert store.retry(action) == "done"


def test_a_storage_that_stays_away_is_given_up() -> None:
    store = open_store(None)
    store = Store("postgresql://u:hidden@host/x", store.storage, store.claims, patience=1.0, sleep=lambda _: None)

    def action() -> None:
        raise PendingRollbackError("Can't reconnect")

    with pytest.raises(StoreError, match=r"u:\*\*\*@host/x stopped answering"):
        store.retry(action)


def test_a_mount_with_a_space_in_its_name_is_found() -> None:
    mounts = "/dev/sda / ext4 rw 0 0\nserver:/x /mnt/my\\040data nfs4 rw 0 0\n"
    assert file_system_of(Path("/mnt/my data/study"), mounts) == "nfs4"


@pytest.mark.parametrize("prefix", ["", "x" * 65, "a\nb", "a\0b"])
def test_a_prefix_that_no_database_keeps_is_refused(prefix: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="study="):
        Options("cpu", tmp_path, prefix=prefix)


@pytest.mark.parametrize(
    ("trouble", "waits"),
    [("database is locked", True), ("database or disk is full", False), ("unable to open database file", False)],
)
def test_of_what_befalls_sqlite_only_a_lock_is_waited_for(trouble: str, waits: bool) -> None:
    store, pauses = open_store(None), list[float]()
    store = Store("sqlite:///x/study.db", store.storage, store.claims, patience=1.0, sleep=pauses.append)

    def action() -> None:
        raise StorageInternalError from OperationalError("insert", {}, sqlite3.OperationalError(trouble))

    with pytest.raises(StoreError, match=f"stopped answering: {trouble}"):
        store.retry(action)
    assert bool(pauses) is waits


@pytest.mark.parametrize("length", [0, 40_000])
def test_a_damaged_study_says_how_to_go_on_and_is_left_alone(length: int, tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    store = open_store(f"sqlite:///{path}")
    answer(workload(), tools(FakeMeasurer(), store))
    store.close()
    damaged = path.read_bytes()[:length] if length else b"\xff" * 5000
    path.write_bytes(damaged)
    with pytest.raises(StoreError, match="move the file away to start anew"):
        open_store(f"sqlite:///{path}")
    assert path.read_bytes() == damaged


def test_what_another_worker_ends_meanwhile_is_not_taken_for_outdated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def session() -> Session:
        fresh = SimpleNamespace(choose=lambda _: None, done=lambda _: False)
        space = Space(all_candidates(), all_candidates()[0], frozenset())
        return Session(store, "s", space, fresh, Owner.me("a"), device.implementation_of_any)

    device = SimpleNamespace(implementation_of_any=lambda _: ("fa3", "3.0.0"))
    store = open_store(f"sqlite:///{tmp_path / 'study.db'}")
    ours, theirs = session(), session()
    (ticket,) = theirs.take(1)
    read_trials = ours._study.get_trials

    def trials_then_the_other_ends(**options: Any) -> list[FrozenTrial]:
        found = read_trials(**options)
        theirs.tell(ticket, Failed("oom", "no memory"))
        return found

    monkeypatch.setattr(ours._study, "get_trials", trials_then_the_other_ends)
    assert ours.release_outdated() == 0
    assert ticket.candidate.key in ours.held()
