"""SGLang's Triton split knobs: the flag's default, and the limit that a server raises for MLA."""

import pytest

from costmodel import Attention, Batch
from executors.backends.triton import Triton, split_limit
from hwprofiles import load_profile

H200 = load_profile("h200")
GQA, MLA = Attention(32, 8, 128), Attention.mla(16)


@pytest.mark.parametrize(
    ("attention", "kv", "flag", "limit"),
    [(GQA, 4096, 8, 8), (GQA, 4096, 64, 64), (MLA, 1024, 8, 32), (MLA, 1 << 17, 8, 256), (MLA, 64, 8, 8)],
)
def test_limit(attention: Attention, kv: int, flag: int, limit: int) -> None:
    assert split_limit(attention, Batch.decode([kv]), flag, 132) == limit


def test_default_is_the_flags_and_values_without_effect_are_left_out() -> None:
    splits = {a: Triton().knobs(a, Batch.decode([1024] * 4), H200)[0].values for a in (GQA, MLA)}
    assert splits[GQA][0] == splits[MLA][0] == 8
    assert set(range(1, 17)) <= set(splits[GQA])
    assert max(splits[GQA][1:-1]) == 32
    assert splits[MLA] == (8, 256)


def test_extend_has_no_split_knob() -> None:
    assert Triton().knobs(GQA, Batch.extend([64], [128]), H200) == ()
