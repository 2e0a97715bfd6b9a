"""A faulty candidate costs itself only: its outcome is recorded, and the candidates around it are measured."""

import pytest

from costmodel import Attention, Batch
from executors.isolated import IsolatedMeasurer
from executors.live import LiveMeasurer
from executors.outcome import Candidate, Failed, Measured
from executors.registry import get_backend
from hwprofiles import Profile

pytestmark = pytest.mark.gpu
DEVICE = "cuda:0"
LIMIT_SECONDS = 10.0
"""Much longer than any of these calls takes, and what the endless one costs."""


def test_each_fault_ends_its_candidate_only(profile: Profile) -> None:
    faults = {
        "BadAddress": "crashed",
        "Endless": "timeout",
        "BeyondMemory": "oom",
        "Wrong": "incorrect",
        "NotANumber": "incorrect",
    }
    names = ["Right", *faults]
    found = [Candidate(f"cuda_faults:{name}", {}) for name in names]
    with IsolatedMeasurer(DEVICE, limit_seconds=LIMIT_SECONDS) as measurer:
        outcomes = measurer.measure(
            Attention(8, 2, 64), Batch.decode([300, 77], page_size=16), found, seed=1, repeats=3
        )
        restarts = measurer.restarts
    kinds = {}
    for name, candidate in zip(names, found, strict=True):
        outcome = outcomes[candidate.key]
        kinds[name] = outcome.kind if isinstance(outcome, Failed) else type(outcome).__name__
    assert kinds == {"Right": "Measured", **faults}
    assert restarts == 2


def test_a_build_without_the_mla_kernel_is_recorded_as_incorrect_and_the_other_is_measured(profile: Profile) -> None:
    backend = get_backend("fa3")
    if backend.implementation() is None:
        pytest.skip(f"fa3 is not installed: {backend.install_hint}")
    attention, batch = Attention.mla(128), Batch.decode([4096] * 16, page_size=64)
    lacking, having = (Candidate("fa3", {"build": b}) for b in ("flash_attn_interface", "fa3_fwd_interface"))
    outcomes = LiveMeasurer(DEVICE).measure(attention, batch, [lacking, having], seed=2, repeats=3)
    failed, measured = outcomes[lacking.key], outcomes[having.key]
    assert isinstance(failed, Failed)
    assert failed.kind == "incorrect"
    assert isinstance(measured, Measured)
    assert measured.accuracy.correct
