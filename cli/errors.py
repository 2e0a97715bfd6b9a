"""How the command line ends: exit codes, and errors as one message without a traceback."""

import sys

DONE = 0
ANSWER_IS_NO = 1
WRONG_INPUT = 2
INTERRUPTED = 130
"""What Typer makes of Ctrl-C."""


class AnswerIsNo(Exception):
    """The command worked and its answer is no: nothing compatible, or validation failed."""


class WrongInput(Exception):
    """The user has to change something; the message says what."""


def fail(message: str) -> None:
    """Print one error message to stderr."""
    sys.stderr.write(f"attnroof: {message}\n")
