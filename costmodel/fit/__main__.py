"""`python -m costmodel.fit RECORDS… --gpu NAME --out DIR`: fit the records of one device and write its calibration."""

import argparse
import json
import lzma
from collections.abc import Iterator
from pathlib import Path

from costmodel.fit.calibrate import calibrate
from costmodel.fit.choose import MAX_POINTS
from costmodel.fit.points import points_of
from costmodel.machine import machine_of
from costmodel.record import INDEPENDENT, Record
from hwprofiles import load_profile

CALIBRATIONS = Path(__file__).parent.parent / "calibrations"


def main() -> None:
    """Read records, fit, write one file a backend and print the held-out errors."""
    parser = argparse.ArgumentParser(prog="python -m costmodel.fit", description=__doc__)
    parser.add_argument("records", nargs="+", type=Path, help=".jsonl or .jsonl.xz files, or folders of them")
    parser.add_argument("--gpu", required=True, help="the device that they were measured on")
    parser.add_argument("--out", type=Path, default=CALIBRATIONS, help="folder of <device>/<backend>.json")
    parser.add_argument("--points", type=int, default=MAX_POINTS, help="rows to fit per kernel variant")
    options = parser.parse_args()
    profile = load_profile(options.gpu)
    machine = machine_of(profile)
    names = {profile.name, *profile.driver_names}
    records = [r for r in read(options.records) if r.device.name in names]
    if not records:
        parser.error(f"no records of {profile.name} (driver names: {', '.join(sorted(names))})")
    folder = options.out / profile.id
    folder.mkdir(parents=True, exist_ok=True)
    for backend, data in calibrate(points_of(records, machine), machine, options.points).items():
        data["command"] = f"python -m costmodel.fit {' '.join(map(str, options.records))} --gpu {options.gpu}"
        (folder / f"{backend}.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        for variant, entry in data["variants"].items():
            held = entry["held_out"]
            print(
                f"{backend:16}{variant:22}fit {entry['rows']:3} held out {held['rows']:5}"
                f"  mean {100 * (held['mean_error'] or 0):5.1f} %  p95 {100 * (held['p95_error'] or 0):5.1f} %"
            )


def read(paths: list[Path]) -> Iterator[Record]:
    """Read the records of files and folders, but those that are kept to judge the fit."""
    for path in paths:
        files = sorted([*path.rglob("*.jsonl"), *path.rglob("*.jsonl.xz")]) if path.is_dir() else [path]
        for file in files:
            if file.name == INDEPENDENT:
                continue
            opener = lzma.open if file.suffix == ".xz" else open
            with opener(file, "rt", encoding="utf-8") as lines:
                yield from (Record.from_line(line) for line in lines if line.strip())


if __name__ == "__main__":
    main()
