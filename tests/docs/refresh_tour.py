"""Write the outputs in docs/tour.md anew: python tests/docs/refresh_tour.py."""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from tour import ROOT, TOUR, refreshed

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "examples").symlink_to(ROOT / "examples")
        os.chdir(folder)
        text = refreshed(TOUR.read_text(encoding="utf-8"))
    TOUR.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{TOUR} is up to date\n")
