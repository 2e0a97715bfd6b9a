"""ShareGPT-like JSON: one list of conversations, decoded item by item so that the file need not fit in memory."""

import json
from collections.abc import Iterator
from typing import Any

from costmodel.serving.request import Request
from costmodel.serving.trace_fields import TraceError

CHARACTERS_PER_TOKEN = 4
"""A rule of thumb for English; exact counts need the model's tokenizer."""
LONGEST_ITEM = 1 << 26
"""Characters of one conversation at most."""
TURNS = ("conversations", "conversation", "messages")
TEXTS = ("value", "content")


def read_conversations(lines: Iterator[tuple[int, str]], name: str) -> Iterator[Request]:
    """Read the first question and answer of every conversation; others are left out.

    Args:
        lines: Numbered lines.
        name: What messages call the file.

    Raises:
        TraceError: The file is no JSON list, or is cut off; the message names the line.
    """
    for number, item in _items(lines, name):
        turns = next((item[key] for key in TURNS if isinstance(item.get(key), list)), None)
        if turns is None:
            raise TraceError(f"{name}, line {number}: a conversation has none of {', '.join(TURNS)}")
        texts = [_text(turn) for turn in turns[:2]]
        if len(texts) == 2 and all(texts):
            isl, osl = (max(1, len(text) // CHARACTERS_PER_TOKEN) for text in texts)
            yield Request(0.0, isl, osl)


def _items(lines: Iterator[tuple[int, str]], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Decode the objects of one JSON list."""
    decoder, buffer, number, opened, tried = json.JSONDecoder(), "", 0, False, 0
    for number, line in lines:
        buffer += line
        if not opened:
            buffer, opened = buffer.lstrip()[1:], True
        while True:
            buffer = buffer.lstrip(" \t\r\n,")
            if not buffer or buffer[0] == "]":
                tried = 0
                break
            if len(buffer) < 2 * tried:
                break  # decoding again pays only once the text has doubled
            try:
                item, end = _decoded(decoder, buffer, (number, name))
            except json.JSONDecodeError:
                tried = len(buffer)
                if tried > LONGEST_ITEM:
                    raise TraceError(f"{name}, line {number}: a conversation is not closed, or too long") from None
                break
            if not isinstance(item, dict):
                raise TraceError(f"{name}, line {number}: a JSON {type(item).__name__} where a conversation is needed")
            buffer, tried = buffer[end:], 0
            yield number, item
        if buffer.startswith("]"):
            return
    yield from _rest(decoder, buffer, (number, name))


def _rest(decoder: json.JSONDecoder, buffer: str, where: tuple[int, str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Decode what was put off; the list must end in it."""
    number, name = where
    while True:
        buffer = buffer.lstrip(" \t\r\n,")
        if buffer.startswith("]"):
            return
        try:
            item, end = _decoded(decoder, buffer, where)
        except json.JSONDecodeError as error:
            raise TraceError(f"{name}, line {number}: no valid JSON list ({error.msg}); is the file cut off?") from None
        if not isinstance(item, dict):
            raise TraceError(f"{name}, line {number}: a JSON {type(item).__name__} where a conversation is needed")
        buffer = buffer[end:]
        yield number, item


def _decoded(decoder: json.JSONDecoder, text: str, where: tuple[int, str]) -> tuple[Any, int]:
    """Decode what stands first; what is only cut off raises `JSONDecodeError`."""
    number, name = where
    try:
        return decoder.raw_decode(text)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise TraceError(f"{name}, line {number}: a conversation nests too deeply") from None
    except ValueError:
        raise TraceError(f"{name}, line {number}: a conversation holds a number of thousands of digits") from None


def _text(turn: Any) -> str:
    if not isinstance(turn, dict):
        return ""
    return next((turn[key] for key in TEXTS if isinstance(turn.get(key), str)), "")
