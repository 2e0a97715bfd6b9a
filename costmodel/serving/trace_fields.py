"""Values of one row of a trace: numbers that are numbers, token counts that are counts."""

import json
import math
from collections.abc import Mapping
from typing import NoReturn

MAX_TOKENS = 1 << 24


class TraceError(ValueError):
    """A trace cannot be used; the message names file, line, field and rule."""


class BadRow(ValueError):
    """One row cannot be used; the message says why, without the line."""


def json_row(line: str) -> Mapping[str, object]:
    """Parse one JSON line.

    Raises:
        BadRow: It is no JSON object, or holds NaN.
    """
    try:
        row = json.loads(line, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise BadRow(f"no valid JSON ({error.msg}); is the file cut off?") from None
    except BadRow:
        raise
    except ValueError:
        raise BadRow("holds a number of thousands of digits") from None
    except RecursionError:
        raise BadRow("nests too deeply") from None
    if not isinstance(row, dict):
        raise BadRow(f"a JSON {type(row).__name__} where an object is needed")
    return row


def finite(row: Mapping[str, object], name: str) -> float:
    """Give a time that is a finite number of at least 0.

    Raises:
        BadRow: It is not.
    """
    value = _present(row, name)
    found = number(value)
    if not math.isfinite(found):
        raise BadRow(f"{name}={value!r} is no finite number")
    if found < 0:
        raise BadRow(f"{name}={value!r} is negative; times start at 0")
    return found


def tokens(row: Mapping[str, object], name: str) -> int:
    """Give a count of tokens, at least 1.

    Raises:
        BadRow: It is not.
    """
    value = _present(row, name)
    found = number(value)
    if not math.isfinite(found) or found != int(found):
        raise BadRow(f"{name}={value!r} is no whole number of tokens")
    if not 1 <= found <= MAX_TOKENS:
        raise BadRow(f"{name}={value!r} must be from 1 to {MAX_TOKENS} tokens")
    return int(found)


def blocks_of(row: Mapping[str, object]) -> tuple[int, ...]:
    """Give the block ids of a Mooncake row; () without them.

    Raises:
        BadRow: They are no list of whole numbers.
    """
    value = row.get("hash_ids")
    if value is None:
        return ()
    if not isinstance(value, list) or any(type(item) is not int for item in value):
        raise BadRow("hash_ids is no list of whole numbers")
    return tuple(value)


def _present(row: Mapping[str, object], name: str) -> object:
    if name not in row:
        raise BadRow(f"{name!r} is missing")
    return row[name]


def _constant(name: str) -> NoReturn:
    raise BadRow(f"holds {name}, which is no number")


def number(value: object) -> float:
    """Give the number that a value stands for; NaN where it stands for none."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan
