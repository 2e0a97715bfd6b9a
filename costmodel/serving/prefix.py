"""A prefix cache over block ids: least recently used blocks go first."""

from collections import OrderedDict

BLOCK_TOKENS = 512
"""Tokens of one block in Mooncake's traces."""


class PrefixCache:
    """Which leading blocks of a prompt are stored; at most so many blocks in all."""

    def __init__(self, capacity_tokens: int, block_tokens: int = BLOCK_TOKENS) -> None:
        self._capacity = max(0, capacity_tokens // block_tokens)
        self._block_tokens = block_tokens
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def hit(self, blocks: tuple[int, ...], isl: int) -> int:
        """Give the tokens of the prompt that are stored; the last token is always computed."""
        found = 0
        for block in blocks:
            if block not in self._blocks:
                break
            self._blocks.move_to_end(block)
            found += self._block_tokens
        return min(found, isl - 1)

    def store(self, blocks: tuple[int, ...]) -> None:
        """Store a prompt's blocks, dropping the oldest ones beyond the capacity."""
        for block in blocks:
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._capacity:
            self._blocks.popitem(last=False)
