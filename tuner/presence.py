"""Who works on a study prefix: one run alone, or workers that share it; a run by itself keeps others off its device."""

import fcntl
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from tuner.store import driver_url


class Busy(ValueError):
    """Another run works on the same studies."""


@contextmanager
def presence(url: str | None, prefix: str, *, shared: bool) -> Iterator[None]:
    """Hold a place at the studies of a prefix while the block runs; it ends with the process, however that ends.

    Args:
        url: SQLAlchemy URL of the storage; None for memory, where nobody else is.
        prefix: Of the studies' names.
        shared: Whether this is a worker: workers get along with each other, a run by itself with nobody.

    Raises:
        Busy: Somebody is there with whom this run does not get along.
    """
    with _place(url, prefix, shared) as free:
        if not free:
            raise Busy(_refusal(prefix, shared))
        yield


def _place(url: str | None, prefix: str, shared: bool) -> AbstractContextManager[bool]:
    """A lock beside the SQLite file or in the server; what cannot be opened is left to the storage to say."""
    try:
        parsed = make_url(url or "")
    except ArgumentError:
        return nullcontext(True)
    if parsed.get_backend_name() == "postgresql":
        return _session(parsed, f"attnroof run {prefix}", shared)
    path = Path(f"{parsed.database}.{zlib.crc32(prefix.encode()):08x}.run")
    if parsed.get_backend_name() == "sqlite" and parsed.database and path.parent.is_dir():
        return _file(path, shared)
    return nullcontext(True)


def _refusal(prefix: str, shared: bool) -> str:
    other = "a run without --worker" if shared else "another attnroof tune"
    way = "wait until it has ended" if shared else "wait until it has ended, or share it: start all with --worker"
    return (
        f"{other} works on the studies {prefix!r} of this storage right now, and two at a time would disturb each "
        f"other's times: {way}"
    )


@contextmanager
def _file(path: Path, shared: bool) -> Iterator[bool]:
    with path.open("a") as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


@contextmanager
def _session(url: sa.URL, name: str, shared: bool) -> Iterator[bool]:
    """An advisory lock of a session of its own; a server that is away is met by whoever opens the studies."""
    engine = sa.create_engine(driver_url(url.render_as_string(hide_password=False)), poolclass=sa.NullPool)
    connection = None
    try:
        connection = engine.connect()
        call = "pg_try_advisory_lock_shared" if shared else "pg_try_advisory_lock"
        free = bool(connection.execute(sa.text(f"select {call}(hashtext(:s))"), {"s": name}).scalar())
        connection.commit()
    except (SQLAlchemyError, ImportError):
        free = True
    try:
        yield free
    finally:
        with suppress(SQLAlchemyError):
            if connection is not None:
                connection.close()
        engine.dispose()
