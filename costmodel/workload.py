"""A short key of a workload, the same in every process."""

from zlib import crc32

from costmodel.attention import Attention
from costmodel.batch import Batch


def workload_key(attention: Attention, batch: Batch) -> str:
    """Give eight hex digits that stand for attention and batch: records that differ in knobs only share them."""
    return f"{crc32(repr((attention, batch)).encode()):08x}"
