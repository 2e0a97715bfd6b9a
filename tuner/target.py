"""The file that a run writes its rows to, shared with runs that write at the same time."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hwprofiles import Profile
from tuner.configuration import Configuration, ConfigurationError, read, write
from tuner.fill import fill_between
from tuner.row import Row
from tuner.versions import device_differences

LOCK = ".attnroof.lock"


class Target:
    """One configuration file; what others wrote into it meanwhile is kept.

    A file of the same name that is another device's is left alone: the rows go to a file of their own beside it.

    Raises:
        ConfigurationError: A file in its place is damaged or foreign.
    """

    def __init__(self, empty: Configuration, folder: Path) -> None:
        self.written = False
        self._empty = empty
        self.path = folder / empty.file_name
        if self.path.exists() and not self._belongs(read(self.path)):
            device = empty.device
            self.path = folder / empty.file_name.replace(".json", f",cc={device.cc},sms={device.sms}.json")
            if self.path.exists():
                read(self.path)

    def add(self, row: Row) -> None:
        """Take in a row."""
        self._change(lambda configuration: configuration.with_rows([row]))
        self.written = True

    def fill(self, profile: Profile) -> None:
        """Add the winners between the rows."""
        if self.written:
            self._change(lambda configuration: fill_between(configuration, profile))

    def _change(self, change: Callable[[Configuration], Configuration]) -> None:
        with _lock(self.path.parent / LOCK):
            now = read(self.path) if self.path.exists() else self._empty
            now = now.model_copy(update={"device": self._empty.device, "provenance": self._empty.provenance})
            write(change(now), self.path.parent, self.path.name)

    def _belongs(self, other: Configuration) -> bool:
        same = other.to_attention() == self._empty.to_attention() and other.page_size == self._empty.page_size
        return same and not device_differences(other.device, self._empty.device)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    try:
        file = path.open("a")
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror or error}") from None
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
