"""Versions as tuples that compare."""


def version_key(version: str) -> tuple[int, ...]:
    """Make a version comparable.

    Raises:
        ValueError: The text is not numbers joined by dots (a suffix such as `.post1` is ignored).
    """
    numbers = []
    for part in version.split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    if len(numbers) < 2:
        raise ValueError(f"sglang={version!r} is not a version such as {'0.5.23'!r}")
    return tuple(numbers)
