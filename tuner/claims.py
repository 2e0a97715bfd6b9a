"""Who measures what: a table with one row per study and candidate, so that no two workers measure the same.

Optuna's own heartbeat does nothing for ask-and-tell, and its samplers hand the same point to several workers. A row
here is a promise to measure; its owner renews it from a thread, and a row whose owner died is given up so that the
candidate is measured once more.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from tuner.owner import Owner

_META = sa.MetaData()
_CLAIMS = sa.Table(
    "attnroof_claims",
    _META,
    sa.Column("study", sa.String(255), primary_key=True),
    sa.Column("candidate", sa.String(255), primary_key=True),
    sa.Column("trial", sa.Integer, nullable=False),
    sa.Column("owner", sa.String(255), nullable=False),
    sa.Column("done", sa.Boolean, nullable=False),
    sa.Column("beat", sa.Float, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Claim:
    """One candidate that somebody is measuring or has measured."""

    candidate: str
    trial: int
    """Optuna's trial number."""
    owner: Owner
    done: bool
    age: float
    """Seconds since the owner last renewed it, on the database's clock."""


class Claims(Protocol):
    """The table of claims."""

    def lock(self, study: str) -> AbstractContextManager[None]:
        """Hold a lock that only one worker of a study has; it ends with the connection."""
        ...

    def claim(self, study: str, candidate: str, trial: int, owner: Owner) -> bool:
        """Take a candidate; False where somebody has it already."""
        ...

    def finish(self, study: str, candidate: str) -> None:
        """Mark a candidate as measured."""
        ...

    def drop(self, study: str, claim: Claim) -> bool:
        """Give up a claim; False where it has changed hands meanwhile."""
        ...

    def of(self, study: str) -> tuple[Claim, ...]:
        """All claims of one study."""
        ...

    def beat(self, owner: Owner) -> None:
        """Renew all claims of one owner."""
        ...


class SqlClaims:
    """Claims in the database that holds the studies: PostgreSQL, or SQLite on one host."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._postgres = engine.dialect.name == "postgresql"
        now = "extract(epoch from clock_timestamp())" if self._postgres else "(julianday('now') - 2440587.5) * 86400.0"
        self._now: sa.ColumnElement[float] = sa.literal_column(now, sa.Float)
        with self.lock("attnroof_claims"):
            _META.create_all(engine)

    @contextmanager
    def lock(self, study: str) -> Iterator[None]:
        """Hold PostgreSQL's advisory lock of the study, or a lock file beside the SQLite database."""
        if self._postgres:
            with self._engine.connect() as connection:
                connection.execute(sa.text("select pg_advisory_lock(hashtext(:s))"), {"s": study})
                try:
                    yield
                finally:
                    connection.execute(sa.text("select pg_advisory_unlock(hashtext(:s))"), {"s": study})
                    connection.rollback()
        else:
            with file_lock(lock_of(self._engine.url)):
                yield

    def claim(self, study: str, candidate: str, trial: int, owner: Owner) -> bool:
        """Insert the row; the unique key decides."""
        row = {"study": study, "candidate": candidate, "trial": trial, "owner": str(owner), "done": False}
        try:
            with self._engine.begin() as connection:
                connection.execute(_CLAIMS.insert().values(**row, beat=self._now))
        except IntegrityError:
            return False
        return True

    def finish(self, study: str, candidate: str) -> None:
        """Mark the row as done."""
        with self._engine.begin() as connection:
            connection.execute(_CLAIMS.update().where(*_at(study, candidate)).values(done=True))

    def drop(self, study: str, claim: Claim) -> bool:
        """Delete the row if the same owner still holds it."""
        same = (*_at(study, claim.candidate), _CLAIMS.c.owner == str(claim.owner), _CLAIMS.c.trial == claim.trial)
        with self._engine.begin() as connection:
            return connection.execute(_CLAIMS.delete().where(*same)).rowcount == 1

    def of(self, study: str) -> tuple[Claim, ...]:
        """Read all rows of one study."""
        c = _CLAIMS.c
        query = sa.select(c.candidate, c.trial, c.owner, c.done, (self._now - c.beat)).where(c.study == study)
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
        return tuple(Claim(k, n, Owner.parse(o), bool(d), float(age)) for k, n, o, d, age in rows)

    def beat(self, owner: Owner) -> None:
        """Renew the rows that are not done."""
        mine = (_CLAIMS.c.owner == str(owner), sa.not_(_CLAIMS.c.done))
        with self._engine.begin() as connection:
            connection.execute(_CLAIMS.update().where(*mine).values(beat=self._now))


class MemoryClaims:
    """Claims of a single process whose studies live in memory."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Claim] = {}

    @contextmanager
    def lock(self, study: str) -> Iterator[None]:
        """Nothing to wait for: there is one worker."""
        yield

    def claim(self, study: str, candidate: str, trial: int, owner: Owner) -> bool:
        """Take a candidate."""
        if (study, candidate) in self._rows:
            return False
        self._rows[study, candidate] = Claim(candidate, trial, owner, False, 0.0)
        return True

    def finish(self, study: str, candidate: str) -> None:
        """Mark a candidate as measured."""
        old = self._rows[study, candidate]
        self._rows[study, candidate] = Claim(candidate, old.trial, old.owner, True, 0.0)

    def drop(self, study: str, claim: Claim) -> bool:
        """Give up a claim."""
        return self._rows.pop((study, claim.candidate), None) is not None

    def of(self, study: str) -> tuple[Claim, ...]:
        """All claims of one study."""
        return tuple(claim for (name, _), claim in self._rows.items() if name == study)

    def beat(self, owner: Owner) -> None:
        """Nothing to renew."""


def _at(study: str, candidate: str) -> tuple[sa.ColumnElement[bool], ...]:
    return _CLAIMS.c.study == study, _CLAIMS.c.candidate == candidate


def lock_of(url: sa.URL) -> Path:
    """The lock file beside a SQLite database."""
    return Path(f"{url.database}.lock")


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold a lock file; it is free again when the process ends, however that is."""
    import fcntl

    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)
