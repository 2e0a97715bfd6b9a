"""A worker on recorded times that may be killed while it measures; run as a script by the fault tests.

Arguments: storage URL, folder, where to die (number of the measurement, key of a candidate, or never), seconds a
measurement takes, batches joined by commas, worker's name.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from tuner_fakes import FakeMeasurer, tools, whole, workload

from tuner.heart import Heart
from tuner.owner import Owner
from tuner.search import search
from tuner.store import open_store


def main() -> None:
    url, folder, die_at, seconds, specs, name = sys.argv[1:7]
    log = Path(folder) / "measured.jsonl"
    done = 0

    def on_measure(candidates: object) -> None:
        nonlocal done
        for candidate in candidates:  # type: ignore[attr-defined]
            time.sleep(float(seconds))
            done += 1
            if die_at in (str(done), candidate.key):
                os.kill(os.getpid(), signal.SIGKILL)
            with log.open("a") as file:
                file.write(json.dumps({"worker": name, "candidate": candidate.key}) + "\n")

    device = FakeMeasurer(on_measure=on_measure)
    store = open_store(url, wait=True)
    run = tools(device, store, owner=Owner.me(name), effort="full")
    with Heart(store.claims, run.owner, 0.2):
        for spec in specs.split(","):
            while search(workload(spec), run, whole().share(1)) is None:
                time.sleep(0.05)
    print(json.dumps({"recovered": run.recovered}))


if __name__ == "__main__":
    main()
