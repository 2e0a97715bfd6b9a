"""FlashAttention-4 splits KV on Blackwell; its Hopper kernels refuse to."""

import pytest

from costmodel import Attention, Batch, predict
from hwprofiles import load_profile

GQA = Attention(32, 8, 128)
LONG = Batch.decode([65536], page_size=128)


@pytest.mark.parametrize(("device", "splits"), [("h200", False), ("b200", True)])
def test_a_long_request_is_split_only_where_the_kernels_can(device: str, splits: bool) -> None:
    found = predict(GQA, LONG, backend="fa4", profile=load_profile(device))
    assert (found.num_splits > 1) is splits
    asked = predict(GQA, LONG, backend="fa4", profile=load_profile(device), knobs={"num_splits": 4})
    assert asked.num_splits == (4 if splits else 1)
