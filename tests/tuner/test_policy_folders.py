"""A policy of a whole folder: page sizes stay apart, devices are not mixed."""

from pathlib import Path

import pytest
from tuner_fakes import GQA, configuration, row

from costmodel import Batch
from tuner.configuration import ConfigurationError, write
from tuner.policy import Policy


@pytest.mark.parametrize("page_size", [1, 64])
def test_each_page_size_has_its_own_answer(page_size: int, tmp_path: Path) -> None:
    write(configuration([row(best=("fa3", 4))], page_size=1), tmp_path)
    write(configuration([row(best=("fa3", 16))], page_size=64), tmp_path)
    found = Policy.load(tmp_path).choice(GQA, Batch.decode([4096] * 8, page_size=page_size))
    assert found.knobs == {"num_splits": {1: 4, 64: 16}[page_size]}
    assert "page size" not in found.provenance


def test_an_answer_of_another_page_size_says_so() -> None:
    found = Policy([configuration([row()], page_size=64)]).choice(GQA, Batch.decode([4096] * 8, page_size=16))
    assert found.source == "measured"
    assert found.provenance.endswith("tuned at page size 64")


def test_a_folder_of_two_devices_is_refused(tmp_path: Path) -> None:
    ours = configuration([row()])
    write(ours, tmp_path)
    write(ours.model_copy(update={"device": ours.device.model_copy(update={"name": "NVIDIA B200"})}), tmp_path)
    with pytest.raises(ConfigurationError, match="several devices"):
        Policy.load(tmp_path)


def test_another_driver_is_the_same_device(tmp_path: Path) -> None:
    ours = configuration([row()])
    write(ours, tmp_path, "attn,a.json")
    write(
        ours.model_copy(update={"device": ours.device.model_copy(update={"driver": "600.1"})}), tmp_path, "attn,b.json"
    )
    assert Policy.load(tmp_path).backend("decode", 8, 4096) == "fa3"
