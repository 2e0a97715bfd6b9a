"""The commands in docs/serving.md and what they print."""

import re
import subprocess
import sys
from pathlib import Path

from tour import ROOT, run

SERVING = ROOT / "docs" / "serving.md"
BLOCK = re.compile(r"```\n\$ (?P<command>[^\n]+)\n(?P<output>.*?)```", re.DOTALL)
REFUSED = "attnroof: "
"""How an output begins that is an error message."""


def commands(text: str) -> list[tuple[str, str]]:
    """Give the commands with the outputs that the text shows."""
    return [(found["command"], found["output"].rstrip("\n")) for found in BLOCK.finditer(text)]


def printed(command: str, folder: Path) -> str:
    """What a command prints now: attnroof's in this process, a benchmark's in its own."""
    if command.startswith("python "):
        words = [sys.executable, *command.split()[1:]]
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.rstrip("\n")
    return run(command, folder)


def refreshed(text: str, folder: Path) -> str:
    """The text with all outputs as they are now; error messages are left."""

    def block(found: re.Match[str]) -> str:
        if found["output"].startswith(REFUSED):
            return found.group(0)
        return f"```\n$ {found['command']}\n{printed(found['command'], folder)}\n```"

    return BLOCK.sub(block, text)
