"""Write the outputs in docs/serving.md anew: python tests/docs/refresh_serving.py."""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from serving_doc import ROOT, SERVING, refreshed

if __name__ == "__main__":
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        text = refreshed(SERVING.read_text(encoding="utf-8"), Path(folder))
    SERVING.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{SERVING} is up to date\n")
