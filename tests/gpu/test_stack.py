"""A step of several layers is timed as a whole: plan, then KV write and call of every layer."""

import pytest

from costmodel import Attention, Batch
from executors.live import LiveMeasurer
from executors.outcome import Candidate, Measured
from executors.registry import get_backend
from hwprofiles import Profile

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", ["fa3", "flashinfer", "triton", "attnroof_triton"])
def test_a_step_of_several_layers_has_a_time_of_its_own(name: str, profile: Profile) -> None:
    if get_backend(name).implementation() is None:
        pytest.skip(f"{name} is not installed: {get_backend(name).install_hint}")
    attention, batch = Attention(32, 8, 128), Batch.decode([4096] * 8, page_size=64, layers=6)
    candidate = Candidate(name, {})
    outcome = LiveMeasurer("cuda:0").measure(attention, batch, [candidate], seed=3, repeats=3)[candidate.key]
    assert isinstance(outcome, Measured)
    assert outcome.write_seconds is not None
    assert outcome.step_seconds is not None
    assert outcome.step_seconds > min(outcome.seconds)
