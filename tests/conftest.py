"""What all tests share: no test reads or writes the caches and settings of whoever runs it."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_caches(tmp_path_factory: pytest.TempPathFactory) -> None:
    home: Path = tmp_path_factory.mktemp("home")
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    patch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    for name in ("ATTNROOF_PROFILES", "ATTNROOF_CONFIGS"):
        patch.delenv(name, raising=False)
