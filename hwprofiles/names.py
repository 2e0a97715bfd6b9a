"""How names are compared, and which names are near a misspelt one."""

import difflib
from collections.abc import Iterable

_SEPARATORS = str.maketrans("_-", "  ")


def normalized(name: str) -> str:
    """A name without case, and with one separator."""
    return " ".join(respelled(name).split())


def joined(name: str) -> str:
    """A name without case and separators."""
    return normalized(name).replace(" ", "")


def respelled(text: str) -> str:
    """A text without case, and with one separator character; fast enough for whole files."""
    return text.casefold().translate(_SEPARATORS)


def nearest(wanted: str, names: Iterable[str], count: int = 5) -> list[str]:
    """Names that contain the wanted one, shortest first, then those spelt alike."""
    by_spelling: dict[str, str] = {}
    for name in names:
        by_spelling.setdefault(normalized(name), name)
    text = normalized(wanted)
    holding = sorted((n for n in by_spelling if text in n), key=len) if len(text) > 2 else []
    alike = difflib.get_close_matches(text, by_spelling, count, 0.6)
    return [by_spelling[n] for n in dict.fromkeys([*holding, *alike])][:count]


def suggestion(wanted: str, names: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing where no name is near."""
    near = nearest(wanted, names, 3)
    return f"; did you mean {' or '.join(near)}?" if near else ""
