"""Write the outputs in docs/tour.md anew: python tests/docs/refresh_tour.py."""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from tour import ROOT, TOUR, refreshed

if __name__ == "__main__":
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        text = refreshed(TOUR.read_text(encoding="utf-8"), Path(folder))
    TOUR.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{TOUR} is up to date\n")
