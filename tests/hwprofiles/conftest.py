from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def nothing_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No calibration and no profile of the person who runs the tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("ATTNROOF_PROFILES", raising=False)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write files into the user's profile folder."""
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.setenv("ATTNROOF_PROFILES", str(folder))

    def write_file(name: str, text: str) -> Path:
        path = folder / name
        path.write_text(text)
        return path

    return write_file
