"""What the tuner's tests share."""

from collections.abc import Iterator
from typing import Any

import pytest
from optuna.storages import RDBStorage


@pytest.fixture(autouse=True)
def close_databases(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give back the connections of every storage that a test opened."""
    opened: list[RDBStorage] = []

    class Tracked(RDBStorage):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            opened.append(self)

    monkeypatch.setattr("tuner.store.RDBStorage", Tracked)
    yield
    for storage in opened:
        storage.remove_session()
        storage.engine.dispose()
