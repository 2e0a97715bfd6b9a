"""A heartbeat: a thread that renews this worker's claims while it measures, however long a trial takes."""

import threading
from types import TracebackType
from typing import Self

from sqlalchemy.exc import SQLAlchemyError

from tuner.claims import Claims
from tuner.owner import Owner

BEAT_SECONDS = 10.0


class Heart:
    """Beats while the block runs; a database that is away is tried again at the next beat."""

    def __init__(self, claims: Claims, owner: Owner, seconds: float = BEAT_SECONDS) -> None:
        self._claims = claims
        self._owner = owner
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="attnroof-heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=self._seconds)

    def _beat(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                self._claims.beat(self._owner)
            except SQLAlchemyError:
                continue
