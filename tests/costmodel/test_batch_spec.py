"""vLLM's batch grammar, and the phases that lengths imply."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel import Batch, parse_batch_spec


@pytest.mark.parametrize(
    ("spec", "phase", "q_lens", "kv_lens"),
    [
        ("q2k", "extend", (2048,), (2048,)),
        ("8q1s4k", "decode", (1,) * 8, (4096,) * 8),
        ("q1", "decode", (1,), (1,)),
        ("16q4s1k", "verify", (4,) * 16, (1024,) * 16),
        ("q16s17", "verify", (16,), (17,)),
        ("q16", "extend", (16,), (16,)),
        ("q17s1k", "extend", (17,), (1024,)),
        ("2q2k_32q1s1k", "mixed", (2048,) * 2 + (1,) * 32, (2048,) * 2 + (1024,) * 32),
        ("q1s512_q1s8k", "decode", (1, 1), (512, 8192)),
    ],
)
def test_lengths_and_phase(spec: str, phase: str, q_lens: tuple[int, ...], kv_lens: tuple[int, ...]) -> None:
    batch = parse_batch_spec(spec, page_size=16)
    assert (batch.phase, batch.q_lens, batch.kv_lens, batch.page_size) == (phase, q_lens, kv_lens, 16)


def test_phase_can_be_overridden() -> None:
    assert parse_batch_spec("4q4s1k", phase="extend").phase == "extend"


@pytest.mark.parametrize(
    "spec", ["", "q", "q0", "0q1", "q4s2", "4q", "q1s", "q1m", "q1__q1", "8 q1s4k", "q١", "999999999q1s4k", "-1q1"]
)
def test_other_texts_are_refused_with_the_text(spec: str) -> None:
    with pytest.raises(ValueError, match="batch spec"):
        parse_batch_spec(spec)


@given(st.text(max_size=20))
def test_any_text_reads_as_a_batch_or_is_refused(text: str) -> None:
    try:
        batch = parse_batch_spec(text)
    except ValueError:
        return
    assert isinstance(batch, Batch)
