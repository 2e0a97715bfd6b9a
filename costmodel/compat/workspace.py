"""Workspace of FlashInfer's decode plan, which overflows its buffer with large batches of many heads."""

from costmodel.attention import Attention


def flashinfer_workspace(attention: Attention, requests: int, num_sms: int) -> float:
    """Give the bytes of float workspace that a captured decode batch plans for.

    Partial outputs and their log-sum-exp in fp32, for as many query tiles as the captured graph is padded to
    (flashinfer include/flashinfer/attention/scheduler.cuh, release 0.7.2).

    Args:
        attention: The attention on one rank.
        requests: Requests in the batch.
        num_sms: Streaming multiprocessors of the device.
    """
    group, value_dim = attention.group_size, attention.value_dim
    tile = 16 if group <= 16 else 64
    tiles = _cdiv(requests * group, tile) + requests - 1
    padded = max(2 * num_sms // attention.num_kv_heads, tiles)
    rows = _cdiv(padded * tile, group)
    return 4.0 * attention.num_qo_heads * rows * (value_dim + 1)


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)
