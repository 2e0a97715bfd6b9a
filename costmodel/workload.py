"""A short key of a workload, the same in every process."""

from zlib import crc32

from costmodel.attention import Attention
from costmodel.batch import Batch


def workload_key(attention: Attention, batch: Batch) -> str:
    """Give eight hex digits that stand for attention and batch: records that differ in knobs only share them."""
    text = repr((attention, batch))
    if batch.shared_prefix:
        text += f" shared_prefix={batch.shared_prefix}"
    return f"{crc32(text.encode()):08x}"
