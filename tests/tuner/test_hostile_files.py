"""Serving code meets files and places made by nobody in good faith: a miss each time, never an exception."""

import json
from pathlib import Path
from typing import Any

import pytest
from tuner_fakes import ENVIRONMENT, GQA, configuration, row

from costmodel import Batch
from hwprofiles import cache_home
from tuner import lookup
from tuner.between import Between
from tuner.configuration import ConfigurationError, _checksum, dumps, loads
from tuner.lookup import find_policy
from tuner.policy import Policy

H200 = ENVIRONMENT.recorded()
GRID: dict[str, Any] = {"batch_sizes": (1, 8), "q_lens": (1,), "kv_lens": (1024,), "choices": (), "winners": (-1, -1)}


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(lookup.FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr(lookup, "PACKAGED", tmp_path / "packaged")
    monkeypatch.setattr(lookup, "_warned", set())
    return tmp_path


def sealed(**changed: Any) -> str:
    """A configuration whose checksum is right and whose content is not."""
    body = {**json.loads(dumps(configuration([row()]))), **changed}
    del body["checksum"]
    return json.dumps({"checksum": _checksum(body), **body})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema_version": 1, "attention": {}, "x": ' + 5000 * "9" + "}", "damaged"),
        ('{"schema_version": 1, "attention": {"dtype": "\\ud800"}}', "checksum"),
        (sealed(attention={"num_qo_heads": 32, "num_kv_heads": 8, "head_dim": 128, "causal": [1]}), "causal"),
        (sealed(attention={"num_qo_heads": 32, "num_kv_heads": 8, "head_dim": 128, "sinks": "no"}), "sinks"),
        (sealed(between={"decode": {**GRID, "winners": [0, -1]}}), "winners"),
    ],
)
def test_a_bad_file_is_refused_and_a_miss(text: str, message: str, places: Path) -> None:
    with pytest.raises(ConfigurationError, match=message):
        loads(text)
    (places / "packaged").mkdir()
    (places / "packaged" / "attn,bad.json").write_text(text)
    assert find_policy(GQA, H200).choice(GQA, Batch.decode([4096])).source == "model"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("winners", (-1,), "2"),
        ("winners", (-2, -1), "from -1"),
        ("batch_sizes", (0, 8), "at least 1"),
        ("kv_lens", (-5,), "at least 1"),
    ],
)
def test_a_grid_that_does_not_fit_its_axes_is_refused(field: str, value: Any, message: str) -> None:
    Between(**GRID)
    with pytest.raises(ValueError, match=message):
        Between(**{**GRID, field: value})


@pytest.mark.parametrize("phase", ["rows", "provenance", "table", "", "decod"])
def test_an_unknown_phase_has_no_answer(phase: str) -> None:
    assert Policy([configuration([row()])]).backend(phase, 8, 4096) == ""


@pytest.mark.parametrize("variable", [lookup.FOLDER_VARIABLE, "XDG_CACHE_HOME"])
def test_a_place_that_cannot_be_looked_at_is_a_miss(
    variable: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(variable, "/" + 300 * "x")
    assert find_policy(GQA, H200).backend("nothing", 1, 1) == ""
    assert "File name too long" in caplog.text


def test_a_user_without_a_home_has_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    assert cache_home().is_absolute()
    assert find_policy(GQA, H200).choice(GQA, Batch.decode([4096])).source == "model"
