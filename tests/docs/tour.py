"""The tour's commands and what they print."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
TOUR = ROOT / "docs" / "tour.md"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
FIGURE = re.compile(r"\d[\d.,]*\s?(?:%|×|[KMGT]i?B\b|[TGM]B/s|TFLOP/s|us\b|µs|ms\b)")
PROMPT = "$ "
PAGE = "report.html"


@dataclass(frozen=True)
class Step:
    """One command and the output that the tour shows below it."""

    command: str
    output: str


def steps(text: str) -> Iterator[Step]:
    """All commands of the tour in order."""
    for block in BLOCK.findall(text):
        for part in block.split(PROMPT)[1:]:
            command, _, output = part.partition("\n")
            yield Step(command, output.rstrip("\n"))


def prose(text: str) -> str:
    """The tour without its commands and outputs."""
    return BLOCK.sub("", text)


def run(command: str, folder: Path) -> str:
    """What a command prints on stdout, trailing blanks removed; a page that it writes goes into the folder."""
    from cli.main import app

    arguments = [str(folder / word) if word == PAGE else word for word in shlex.split(command)[1:]]
    result = CliRunner().invoke(app, arguments)
    if result.exit_code:
        raise RuntimeError(f"{command}: {result.exception or result.stderr}")
    return "\n".join(line.rstrip() for line in result.stdout.rstrip("\n").split("\n")).rstrip("\n")


def refreshed(text: str, folder: Path) -> str:
    """The tour with all outputs as they are now."""

    def block(found: re.Match[str]) -> str:
        commands = [step.command for step in steps(found.group(0))]
        parts = [
            f"{PROMPT}{command}\n{output}\n" if (output := run(command, folder)) else f"{PROMPT}{command}\n"
            for command in commands
        ]
        return f"```console\n{''.join(parts)}```"

    return BLOCK.sub(block, text)
