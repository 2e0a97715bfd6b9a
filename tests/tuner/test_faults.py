"""Never lost: kill -9, full disks, damaged files, clock jumps, exhausted memory, upgrades."""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState
from tuner_fakes import FakeMeasurer, all_candidates, answer, candidate, sqlite, tools, whole, workload

from executors.outcome import Candidate, Failed
from tuner.budget import Budget
from tuner.configuration import ConfigurationError
from tuner.owner import Owner
from tuner.session import MAX_ATTEMPTS
from tuner.store import open_store

WORKER = Path(__file__).parent / "dying_worker.py"


def run_worker(url: str, folder: Path, *, die_at: str = "never") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(WORKER), url, str(folder), die_at, "0", "8q1s4k,16q1s4k", "w"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def measured(folder: Path) -> list[str]:
    log = folder / "measured.jsonl"
    return [json.loads(line)["candidate"] for line in log.read_text().splitlines()] if log.exists() else []


def finished(url: str) -> list[optuna.trial.FrozenTrial]:
    storage = open_store(url).storage
    studies = storage.get_all_studies()
    return [t for s in studies for t in storage.get_all_trials(s._study_id)]


@pytest.mark.parametrize("die_at", ["1", "5"])
def test_after_kill_9_only_the_trial_in_flight_is_run_again(die_at: str, tmp_path: Path) -> None:
    url = sqlite(tmp_path)
    killed = run_worker(url, tmp_path, die_at=die_at)
    assert killed.returncode == -9
    resumed = run_worker(url, tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["recovered"] >= 1
    trials = finished(url)
    assert not [t for t in trials if t.state in (TrialState.RUNNING, TrialState.WAITING)]
    done = Counter(
        (t.user_attrs["result"]["candidate"], t.user_attrs["result"].get("group"))
        for t in trials
        if "result" in t.user_attrs
    )
    assert max(done.values()) == 1
    before = len(measured(tmp_path))
    again = run_worker(url, tmp_path)
    assert json.loads(again.stdout)["recovered"] == 0
    assert len(measured(tmp_path)) == before


def test_a_candidate_that_kills_its_worker_every_time_is_given_up(tmp_path: Path) -> None:
    url = sqlite(tmp_path)
    culprit = candidate("fa3", 8).key
    codes = [run_worker(url, tmp_path, die_at=culprit).returncode for _ in range(2 * MAX_ATTEMPTS + 1)]
    assert codes == [-9] * 2 * MAX_ATTEMPTS + [0]
    given_up = [t for t in finished(url) if t.user_attrs.get("result", {}).get("outcome") == "crashed"]
    assert {t.user_attrs["result"]["candidate"] for t in given_up} == {culprit}
    assert len(given_up) == 2
    assert f"died {MAX_ATTEMPTS} times" in given_up[0].user_attrs["result"]["reason"]


def test_a_clock_set_back_does_not_touch_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([100.0, 103.0])
    budget = Budget(seconds=10.0, clock=lambda: next(ticks))
    monkeypatch.setattr("time.time", lambda: -1e9)
    assert budget.elapsed == 3.0


def test_a_recycled_process_id_is_not_the_owner() -> None:
    me = Owner.me()
    assert not me.known_dead()
    assert Owner(me.host, me.pid, "1", "").known_dead()
    assert not Owner("another-host", 1, "1", "").known_dead()
    assert Owner.parse(str(me)) == me


def test_out_of_memory_everywhere_but_the_default_is_partial_and_counted() -> None:
    def oom(c: Candidate) -> Failed | None:
        return None if c.key == candidate("fa3", 0).key else Failed("oom", "CUDA out of memory")

    row = answer(workload(), tools(FakeMeasurer(answer=oom), effort="full"), whole().share(1))
    assert row.status == "partial"
    assert row.best.knobs == {"num_splits": 0}
    assert row.counts.measured == 1
    assert row.counts.failed >= 3


def test_a_measurement_that_raises_is_measured_again_after_resume(tmp_path: Path) -> None:
    def lost(_: object) -> None:
        raise RuntimeError("GPU has fallen off the bus")

    me = Owner.me()
    dead = Owner(me.host, me.pid, "1")
    with pytest.raises(RuntimeError):
        answer(workload(), tools(FakeMeasurer(on_measure=lost), open_store(sqlite(tmp_path)), owner=dead))
    device = FakeMeasurer()
    run = tools(device, open_store(sqlite(tmp_path)), owner=Owner.me("after"))
    row = answer(workload(), run, whole().share(1))
    assert row.status == "measured"


def test_a_candidate_left_out_at_the_deadline_is_run_later(tmp_path: Path) -> None:
    class Late(FakeMeasurer):
        def measure(self, attention, batch, candidates, *, seed, repeats, deadline=None):  # type: ignore[no-untyped-def]
            answers = super().measure(attention, batch, candidates[:1], seed=seed, repeats=repeats)
            return dict(answers)

    store = open_store(sqlite(tmp_path))
    answer(workload(), tools(Late(), store), whole(trials=2).share(1))
    device = FakeMeasurer()
    row = answer(workload(), tools(device, store), whole().share(1))
    assert row.best.knobs == {"num_splits": 8}
    assert not [t for t in finished(sqlite(tmp_path)) if t.state in (TrialState.RUNNING, TrialState.WAITING)]


def test_devices_do_not_share_results(tmp_path: Path) -> None:
    from dataclasses import replace

    store = open_store(sqlite(tmp_path))
    h200, other = FakeMeasurer(), FakeMeasurer()
    other.env = replace(h200.env, name="NVIDIA H100 PCIe", sms=114)
    answer(workload(), tools(h200, store), whole().share(1))
    answer(workload(), tools(other, store), whole().share(1))
    assert set(other.calls[0]) == set(h200.calls[0])


def test_page_size_window_and_dtype_each_have_their_own_study() -> None:
    from dataclasses import replace

    from tuner.search import study_name

    device = FakeMeasurer().env.recorded()
    base = workload()
    changed = [
        workload(page_size=64),
        replace(base, attention=replace(base.attention, sliding_window=128)),
        replace(base, attention=replace(base.attention, kv_dtype="fp8_e4m3")),
        replace(base, attention=replace(base.attention, sinks=True)),
        replace(base, attention=replace(base.attention, causal=False)),
        workload("8q1s4097"),
    ]
    names = {study_name("p", device, w) for w in (base, *changed)}
    assert len(names) == len(changed) + 1


def test_storage_that_cannot_work_is_refused(tmp_path: Path) -> None:
    for url, message in (
        ("nonsense", "not a URL"),
        ("sqlite://", "needs a file"),
        (f"sqlite:///{tmp_path}/missing/study.db", "does not exist"),
        ("nodb://host/x", "nodb is not supported"),
        ("mysql://user:hidden@host/x", r"mysql://user:\*\*\*@host/x: mysql is not supported"),
        ("postgresql+nodriver://host/x", "no driver"),
    ):
        with pytest.raises(ValueError, match=message):
            open_store(url)


def test_sqlite_on_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.store.file_system_of", lambda path: "nfs4")
    with pytest.raises(ValueError, match="network file system"):
        open_store(sqlite(tmp_path))


def test_file_system_of_the_deepest_mount() -> None:
    from tuner.store import file_system_of

    mounts = "/dev/sda / ext4 rw 0 0\nserver:/x /mnt/shared nfs4 rw 0 0\ntmpfs /mnt/shared/fast tmpfs rw 0 0\n"
    assert file_system_of(Path("/home/a"), mounts) == "ext4"
    assert file_system_of(Path("/mnt/shared/study"), mounts) == "nfs4"
    assert file_system_of(Path("/mnt/shared/fast/x"), mounts) == "tmpfs"
    assert file_system_of(Path("/mnt/sharedX"), mounts) == "ext4"


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    from tuner.tune import check_folder

    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(ConfigurationError, match="cannot write"):
        check_folder(blocker / "out")


def test_all_candidates_are_covered_when_nothing_can_be_skipped(tmp_path: Path) -> None:
    from tuner_fakes import unknown

    device = FakeMeasurer()
    answer(workload(), tools(device, open_store(sqlite(tmp_path)), predict=unknown), whole().share(1))
    assert set(device.measured_keys()) == {c.key for c in all_candidates()}


def test_a_killed_process_that_nobody_waited_for_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    me = Owner.me()
    stat = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    owner = Owner(me.host, child.pid, stat[19])
    assert not owner.known_dead()
    child.kill()
    until = time.monotonic() + 10
    while not owner.known_dead() and time.monotonic() < until:
        time.sleep(0.01)
    assert owner.known_dead()
    child.wait()
    assert owner.known_dead()


def test_workers_that_start_at_once_on_a_new_sqlite_file_all_open_it(tmp_path: Path) -> None:
    code = "import sys; from tuner.store import open_store; open_store(sys.argv[1]).close()"
    command = [sys.executable, "-c", code, f"sqlite:///{tmp_path / 'study.db'}"]
    workers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    errors = [worker.communicate()[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * len(workers), "\n".join(errors)
