"""Who holds a claim: host, process and the moment the process started, so that a recycled process id is told apart."""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """One worker process."""

    host: str
    """Where its process id means something, see `this_host`."""
    pid: int
    started: str
    """Start time of the process in kernel ticks since boot; '' where the system does not say."""
    worker: str = ""
    """Tells several workers of one process apart."""

    @classmethod
    def me(cls, worker: str = "") -> "Owner":
        """This process."""
        pid = os.getpid()
        return cls(this_host(), pid, _state(pid)[1], worker)

    @classmethod
    def parse(cls, text: str) -> "Owner":
        """Read what `str(owner)` wrote."""
        host, pid, started, worker = [*text.split("|"), "", "", ""][:4]
        return cls(host, int(pid or 0), started, worker)

    def __str__(self) -> str:
        return f"{self.host}|{self.pid}|{self.started}|{self.worker}"

    def known_dead(self) -> bool:
        """Whether the process ran on this host and is gone; False where that cannot be told from here."""
        if self.host != this_host():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        state, started = _state(self.pid)
        return state in ("Z", "X") or started != self.started


def this_host() -> str:
    """Name of this host with its boot and process namespace: containers may share a name, and each counts from 1."""
    boot = space = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    with suppress(OSError):
        space = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    return f"{socket.gethostname()}#{boot}.{space}"


def _state(pid: int) -> tuple[str, str]:
    """State letter and start time; a killed process that nobody has waited for is still listed, as Z."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0], fields[19]
    except (OSError, IndexError):
        return "", ""
