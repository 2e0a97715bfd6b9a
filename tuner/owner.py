"""Who holds a claim: host, process and the moment the process started, so that a recycled process id is told apart."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """One worker process."""

    host: str
    pid: int
    started: str
    """Start time of the process in kernel ticks since boot; '' where the system does not say."""
    worker: str = ""
    """Tells several workers of one process apart."""

    @classmethod
    def me(cls, worker: str = "") -> "Owner":
        """This process."""
        pid = os.getpid()
        return cls(socket.gethostname(), pid, _state(pid)[1], worker)

    @classmethod
    def parse(cls, text: str) -> "Owner":
        """Read what `str(owner)` wrote."""
        host, pid, started, worker = [*text.split("|"), "", "", ""][:4]
        return cls(host, int(pid or 0), started, worker)

    def __str__(self) -> str:
        return f"{self.host}|{self.pid}|{self.started}|{self.worker}"

    def known_dead(self) -> bool:
        """Whether the process ran on this host and is gone; False where that cannot be told from here."""
        if self.host != socket.gethostname():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        state, started = _state(self.pid)
        return state in ("Z", "X") or started != self.started


def _state(pid: int) -> tuple[str, str]:
    """State letter and start time; a killed process that nobody has waited for is still listed, as Z."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0], fields[19]
    except (OSError, IndexError):
        return "", ""
