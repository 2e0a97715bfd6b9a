"""A fleet: eight worker processes on one PostgreSQL server, killed and restarted in the middle."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from optuna.trial import TrialState
from postgres import PostgresServer, binaries
from tuner_fakes import FakeMeasurer, answer, tools, workload

from tuner.claims import SqlClaims
from tuner.owner import Owner
from tuner.presence import Busy, presence
from tuner.store import Store, open_store

pytestmark = pytest.mark.service
WORKER = Path(__file__).parent / "dying_worker.py"
SPECS = "8q1s4k,16q1s4k,1q1s8k,32q1s2k"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    folder = binaries()
    if folder is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no PostgreSQL server binaries: .ci/run installs them")
        pytest.skip("no PostgreSQL server binaries here; apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="attnroof-pg-") as place:
        running = PostgresServer(Path(place), folder)
        yield running
        running.stop()


def start(url: str, folder: Path, name: str, *, die_at: str = "never", seconds: float = 0.05) -> subprocess.Popen[str]:
    command = [sys.executable, str(WORKER), url, str(folder), die_at, str(seconds), SPECS, name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def told(store: Store) -> Counter[tuple[int, str]]:
    """Trials that ended with an outcome, by study and candidate."""
    studies = store.storage.get_all_studies()
    trials = [(s._study_id, t) for s in studies for t in store.storage.get_all_trials(s._study_id)]
    assert not [t for _, t in trials if t.state is TrialState.RUNNING]
    return Counter((study, t.user_attrs["result"]["candidate"]) for study, t in trials if "result" in t.user_attrs)


def test_eight_workers_lose_nothing_and_measure_nothing_twice(server: PostgresServer, tmp_path: Path) -> None:
    doomed = {"w1": "3", "w2": "8"}
    workers = {f"w{i}": start(server.url, tmp_path, f"w{i}", die_at=doomed.get(f"w{i}", "never")) for i in range(8)}
    wait_for(tmp_path / "measured.jsonl", lines=4)
    server.restart(pause=0.5)
    codes = {name: end(worker) for name, worker in workers.items()}
    failed = {name: text for name, (code, text) in codes.items() if code not in (0, -9 if name in doomed else 0)}
    assert not failed, "\n".join(f"{name}: {text}" for name, text in failed.items())
    killed = [name for name, (code, _) in codes.items() if code == -9]
    answers = told(open_store(server.url))
    assert max(answers.values()) == 1
    assert len({study for study, _ in answers}) == len(SPECS.split(","))
    lines = [json.loads(line) for line in (tmp_path / "measured.jsonl").read_text().splitlines()]
    again = start(server.url, tmp_path, "late")
    assert end(again)[0] == 0
    after = [json.loads(line) for line in (tmp_path / "measured.jsonl").read_text().splitlines()]
    assert after == lines
    assert set(killed) <= set(doomed)


def end(worker: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = worker.communicate(timeout=100)
    return worker.returncode, errors[-2000:]


def wait_for(log: Path, *, lines: int) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if log.exists() and len(log.read_text().splitlines()) >= lines:
            return
        time.sleep(0.05)
    raise AssertionError(f"no {lines} measurements within 120 s")


def test_a_claim_is_taken_once_and_given_up_when_its_owner_is_silent(server: PostgresServer) -> None:
    store = open_store(server.url)
    claims = store.claims
    assert isinstance(claims, SqlClaims)
    here, there = Owner.me("a"), Owner("other-host", 1, "1", "b")
    assert claims.claim("s", "c", 0, there)
    assert not claims.claim("s", "c", 1, here)
    first = claims.of("s")[0]
    assert (first.owner, first.trial, first.done) == (there, 0, False)
    claims.beat(there)
    assert claims.of("s")[0].age < 5
    assert claims.drop("s", first)
    assert not claims.drop("s", first)
    assert claims.claim("s", "c", 1, here)


def test_a_silent_worker_of_another_host_is_replaced_after_the_grace(server: PostgresServer) -> None:
    store = open_store(server.url)
    gone = FakeMeasurer(on_measure=lambda _: (_ for _ in ()).throw(RuntimeError("power cut")))
    run = tools(gone, store, prefix="silent", owner=Owner("other-host", 1, "1", "x"))
    with pytest.raises(RuntimeError):
        answer(workload(), run)
    patient = tools(FakeMeasurer(), store, prefix="silent", owner=Owner.me("y"), grace_seconds=0.0)
    row = answer(workload(), patient)
    assert row.status == "measured"
    assert patient.recovered >= 1


def test_two_workers_cannot_hold_the_same_lock(server: PostgresServer) -> None:
    import threading

    claims = open_store(server.url).claims
    inside, most = 0, 0
    guard = threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(5):
            with claims.lock("x"):
                with guard:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.002)
                with guard:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_a_server_that_stays_away_ends_with_one_message(server: PostgresServer) -> None:
    store = open_store(server.url)
    store.patience, store.sleep = 0.3, lambda _: None
    said: list[str] = []
    store.on_wait = said.append
    server.stop()
    try:
        with pytest.raises(ValueError, match="stopped answering"):
            store.names()
        assert len(said) == 1
        with pytest.raises(ValueError, match="cannot open the storage"):
            open_store(server.url)
    finally:
        server.start()
    assert isinstance(store.names(), list)


def test_the_password_is_never_shown(server: PostgresServer) -> None:
    with pytest.raises(ValueError, match="storage") as caught:
        open_store("postgresql://user:secret@127.0.0.1:1/none")
    assert "secret" not in str(caught.value)


def test_a_run_by_itself_and_workers_keep_each_other_out_of_a_server(server: PostgresServer) -> None:
    with presence(server.url, "alone", shared=False):
        for shared in (True, False):
            with pytest.raises(Busy, match="alone"), presence(server.url, "alone", shared=shared):
                pytest.fail("two measured at a time")
        with presence(server.url, "another", shared=False):
            pass
    with presence(server.url, "alone", shared=True), presence(server.url, "alone", shared=True):
        pass
