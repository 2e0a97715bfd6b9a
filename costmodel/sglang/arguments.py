"""Reads a launch line the way SGLang's own argument parser does."""

import argparse
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from costmodel.sglang.tables import load_flags

BACKEND_FLAGS = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")


class BadArguments(ValueError):
    """SGLang's argument parser would refuse this line."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise instead of ending the process."""
        raise BadArguments(message)


def parse_arguments(args: Sequence[str], sglang: str) -> dict[str, Any]:
    """Parse a launch line.

    Args:
        args: As after `python -m sglang.launch_server`; `--model-path` may be missing.
        sglang: Version whose options and choices hold.

    Returns:
        Option (underscores, such as `page_size`) to value for the options that the line gives.

    Raises:
        BadArguments: An option is unknown, a value is missing, not of its type or not among its choices.
    """
    if any(not isinstance(a, str) for a in args):
        raise BadArguments("every argument must be text")
    return vars(_parser(sglang).parse_args(list(args)))


@lru_cache(maxsize=4)
def _parser(sglang: str) -> _Parser:
    parser = _Parser(prog="sglang", add_help=False, argument_default=argparse.SUPPRESS)
    for flag in load_flags(sglang):
        match flag.get("action"):
            case "true":
                parser.add_argument(*flag["flags"], action="store_true", default=argparse.SUPPRESS)
            case "boolean":
                parser.add_argument(*flag["flags"], action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS)
            case _:
                parser.add_argument(
                    *flag["flags"],
                    nargs=flag.get("nargs"),
                    type=_TYPES[flag.get("type", "text")],
                    choices=flag.get("choices"),
                    default=argparse.SUPPRESS,
                )
    return parser


def _readable_int(text: str) -> int:
    scale = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:])
    return int(float(text[:-1]) * scale) if scale else int(text)


_TYPES: dict[str, Callable[[str], Any]] = {"text": str, "int": int, "float": float, "readable_int": _readable_int}
