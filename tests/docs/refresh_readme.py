"""Write the generated parts of README.md anew: python tests/docs/refresh_readme.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from readme import README, refreshed

if __name__ == "__main__":
    README.write_text(refreshed(README.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{README} is up to date\n")
