"""What every packaged configuration promises."""

from pathlib import Path

import pytest

from costmodel import Batch
from tuner import Policy
from tuner.configuration import Configuration, read
from tuner.lookup import PACKAGED
from tuner.reachable import OWN_BACKENDS, sglang_reaches

PATHS = sorted(PACKAGED.rglob("attn,*.json"))


@pytest.fixture(params=PATHS, ids=lambda p: p.name[5:-5])
def path(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


@pytest.fixture
def packaged(path: Path) -> Configuration:
    return read(path)


def test_there_are_at_least_twelve_shapes() -> None:
    assert len({read(p).to_attention() for p in PATHS}) >= 12


def test_it_is_from_a_real_run_and_carries_its_own_name(path: Path, packaged: Configuration) -> None:
    assert packaged.provenance.source == "live"
    assert packaged.provenance.command
    assert path.name == packaged.file_name


def test_flags_reach_what_is_said_to_be_reachable(packaged: Configuration) -> None:
    latent = packaged.to_attention().is_latent
    for row in packaged.rows:
        for choice in (row.best_sglang, row.sglang_default):
            if choice is not None:
                assert sglang_reaches(choice.candidate, row.batch(packaged.page_size), latent=latent)


def test_no_gain_is_claimed_within_the_noise_or_for_the_own_kernels(packaged: Configuration) -> None:
    for row in packaged.rows:
        assert row.gain is None or row.gain >= 1.0
        assert (row.own_gain is not None) == (row.best.backend in OWN_BACKENDS and row.sglang_default is not None)
        libraries = [t.measured_us for key, t in row.tried.items() if key.partition("[")[0] not in OWN_BACKENDS]
        if row.gain is not None and row.sglang_default and row.sglang_default.measured_us:
            assert row.gain <= 1.1 * row.sglang_default.measured_us / min(libraries)


def test_a_policy_answers_from_it(path: Path, packaged: Configuration) -> None:
    policy = Policy.load(path)
    for row in packaged.rows:
        found = policy.choice(packaged.to_attention(), row.batch(packaged.page_size))
        assert (found.backend, found.source) == (row.best.backend, "measured")
    outside = policy.choice(packaged.to_attention(), Batch.decode([300_000] * 2000, packaged.page_size))
    assert outside.source in ("default", "none")
