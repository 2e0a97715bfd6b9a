"""Where output goes: tables or one JSON document to stdout, everything else to stderr."""

import json
import math
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def write_json(document: Any) -> None:
    """Print one JSON document on stdout; NaN and infinities become null."""
    json.dump(_finite(document), sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def stdout_console() -> "Console":
    """A Rich console on stdout; 120 columns where stdout is not a terminal. Square brackets are text, not markup."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 120, highlight=False, markup=False, emoji=False)


def stderr_console() -> "Console":
    """A Rich console on stderr, for progress and remarks."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_table(table: "Table") -> None:
    """Print one Rich table on stdout."""
    stdout_console().print(table)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
