"""Where studies live: a storage URL opened with what Optuna leaves out (claims, retries, refusals)."""

import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import optuna
import sqlalchemy as sa
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, InMemoryStorage, RDBStorage
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, PendingRollbackError, SQLAlchemyError

from tuner.claims import Claims, MemoryClaims, SqlClaims, file_lock, lock_of

T = TypeVar("T")
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "lustre", "beegfs", "gpfs", "ceph", "glusterfs", "9p"}
    | {"wekafs", "panfs", "orangefs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.s3fs"}
    | {"fuse.juicefs", "fuse.gcsfuse", "fuse.rclone", "fuse.beegfs"}
)


RESTARTING = (
    "starting up",
    "not yet accepting",
    "shutting down",
    "server closed the connection",
    "terminating connection",
    "recovery mode",
)
START_PATIENCE = 30.0
"""Seconds to wait for a server that is just starting."""


class StoreError(ValueError):
    """The storage cannot be used; the message says what to do."""


@dataclass(slots=True)
class Store:
    """Studies and claims in one place."""

    url: str | None
    """None means memory."""
    storage: BaseStorage
    claims: Claims
    patience: float = 120.0
    """Seconds to wait for a database that went away."""
    on_wait: Callable[[str], None] = field(default=lambda _: None)
    sleep: Callable[[float], None] = time.sleep

    def retry(self, action: Callable[[], T]) -> T:
        """Run a database action, again and again while the database is away.

        Raises:
            StoreError: It stayed away for longer than `patience`.
        """
        waited, pause = 0.0, 0.1
        while True:
            try:
                return action()
            except (DBAPIError, PendingRollbackError, StorageInternalError) as error:
                if waited >= self.patience or not _may_pass(error):
                    raise StoreError(f"the storage {self.shown} stopped answering: {_first_line(error)}") from error
                if waited == 0.0:
                    self.on_wait(f"the storage {self.shown} does not answer, waiting: {_first_line(error)}")
                self.sleep(pause)
                waited += pause
                pause = min(2 * pause, 5.0)

    @property
    def shown(self) -> str:
        """The URL without its password."""
        return "in memory" if self.url is None else str(make_url(self.url))

    def close(self) -> None:
        """Give back the database connections."""
        if isinstance(self.storage, RDBStorage):
            self.storage.remove_session()
            self.storage.engine.dispose()

    def names(self) -> list[str]:
        """Names of all studies."""
        return self.retry(lambda: optuna.get_all_study_names(self.storage))

    def study(self, name: str, sampler: optuna.samplers.BaseSampler) -> optuna.Study:
        """Open a study, made if it is new."""
        return self.retry(
            lambda: optuna.create_study(
                storage=self.storage, study_name=name, sampler=sampler, direction="minimize", load_if_exists=True
            )
        )


def open_store(url: str | None, *, wait: bool = False) -> Store:
    """Open a storage.

    Args:
        url: SQLAlchemy URL such as `sqlite:///study.db` or `postgresql://user@host/db`; None for memory.
        wait: Whether to wait for a server that refuses connections, as a worker of a fleet does.

    Raises:
        StoreError: The URL cannot be read, its driver is missing, the database does not answer, or SQLite would lie
            on a network file system.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if url is None:
        return Store(None, InMemoryStorage(), MemoryClaims())
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise StoreError(f"storage={url!r} is not a URL such as sqlite:///study.db or postgresql://host/db") from None
    sqlite = parsed.get_backend_name() == "sqlite"
    if not sqlite and parsed.get_backend_name() != "postgresql":
        raise StoreError(
            f"storage {parsed!s}: {parsed.get_backend_name()} is not supported; use postgresql://... for several "
            "hosts, or sqlite:///FILE on one (see docs/fleet.md)"
        )
    if sqlite:
        _check_sqlite(parsed.database)
    options: dict[str, Any] = {"connect_args": {"timeout": 60}} if sqlite else {"pool_pre_ping": True}
    url = driver_url(url)
    until = time.monotonic() + START_PATIENCE
    while True:
        try:
            with _alone(url):
                storage = RDBStorage(url, engine_kwargs=options)
                if sqlite:
                    _quicken(storage.engine)
            return Store(url, storage, SqlClaims(storage.engine))
        except (ImportError, NoSuchModuleError) as error:
            raise StoreError(
                f"no driver for the storage {make_url(url)!s}: {error}; pip install 'attnroof[fleet]'"
            ) from None
        except (SQLAlchemyError, StorageInternalError) as error:
            if time.monotonic() > until or not _is_restarting(error, wait):
                reason = _first_line(error)
                damaged = any(text in reason for text in ("not a database", "malformed"))
                hint = (
                    "; move the file away to start anew (configurations and records beside it stay)" if damaged else ""
                )
                raise StoreError(f"cannot open the storage {make_url(url)!s}: {reason}{hint}") from None
            time.sleep(0.2)


def driver_url(url: str) -> str:
    """Name psycopg 3 in a plain postgresql:// URL."""
    parsed = make_url(url)
    if parsed.drivername != "postgresql":
        return url
    return parsed.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def file_system_of(path: Path, mounts: str | None = None) -> str:
    """Type of the file system that holds a path, as /proc/mounts writes it; '' where that is unknown."""
    if mounts is None:
        table = Path("/proc/mounts")
        mounts = table.read_text() if table.exists() else ""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[1]).rstrip("/")
        inside = str(path) == point or str(path).startswith(f"{point}/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def _quicken(engine: sa.Engine) -> None:
    """Let SQLite write ahead: as safe against killed processes, and ten times quicker than a sync for every commit.

    The file changes its mode at once, while nobody else has it open: later it may be busy.
    """

    def prepare(connection: Any, _: Any) -> None:
        connection.execute("pragma journal_mode=wal")
        connection.execute("pragma synchronous=normal")

    engine.dispose()
    sa.event.listen(engine, "connect", prepare)
    engine.connect().close()


@contextmanager
def _alone(url: str) -> Iterator[None]:
    """Let one worker at a time make the tables of a database."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        with file_lock(lock_of(parsed)):
            yield
        return
    if parsed.get_backend_name() != "postgresql":
        yield
        return
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.text("select pg_advisory_lock(hashtext('attnroof_tables'))"))
        yield


def _check_sqlite(database: str | None) -> None:
    if not database or database == ":memory:":
        raise StoreError("storage sqlite:// needs a file, such as sqlite:///study.db")
    folder = Path(database).resolve().parent
    if not folder.is_dir():
        raise StoreError(f"storage sqlite:///{database}: the folder {folder} does not exist")
    kind = file_system_of(folder)
    if kind in NETWORK_FILE_SYSTEMS:
        raise StoreError(
            f"storage sqlite:///{database} lies on a network file system ({kind}), where SQLite's locks do not hold; "
            "use a local folder on one host, or postgresql://... for several hosts (see docs/fleet.md)"
        )


def _may_pass(error: Exception) -> bool:
    """Whether the database may answer later.

    A transaction pends where its connection was lost halfway; of SQLite's troubles (a full disk, a file that is gone)
    only a lock ends by itself.
    """
    cause = error.__cause__ if isinstance(error, StorageInternalError) else error
    if isinstance(cause, PendingRollbackError):
        return True
    if isinstance(cause, DBAPIError) and isinstance(cause.orig, sqlite3.Error):
        return "locked" in str(cause.orig)
    return isinstance(cause, DBAPIError) and (
        cause.connection_invalidated or type(cause).__name__ == "OperationalError"
    )


def _is_restarting(error: Exception, wait: bool) -> bool:
    """Whether the server may be on its way up or down; without `wait` a wrong address is reported at once."""
    return (wait and _may_pass(error)) or any(text in str(error) for text in RESTARTING)


def _first_line(error: Exception) -> str:
    cause = error.__cause__ if isinstance(error, StorageInternalError) and error.__cause__ else error
    original = getattr(cause, "orig", None) or cause
    return str(original).strip().splitlines()[0] if str(original).strip() else type(original).__name__
