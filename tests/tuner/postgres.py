"""A private PostgreSQL server for tests: its own data folder and port, gone afterwards."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path


def binaries() -> Path | None:
    """Folder of the newest installed server, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parent.parent.name))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


class PostgresServer:
    """One server; `restart` ends it without a shutdown, as a crash would."""

    def __init__(self, folder: Path, bin_folder: Path) -> None:
        self._data = folder / "data"
        self._bin = bin_folder
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        shutil.chown(folder, "postgres") if os.geteuid() == 0 else None
        self._run("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "--no-sync")
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._run(
            "pg_ctl", "-D", str(self._data), "-w", "-t", "60", "-l", str(self._folder / "log"), "-o", options, "start"
        )

    def restart(self, pause: float) -> None:
        self.stop("immediate")
        time.sleep(pause)
        self.start()

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", mode, "stop")

    def _run(self, program: str, *arguments: str) -> None:
        command: Sequence[str] = [str(self._bin / program), *arguments]
        if os.geteuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd="/")
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr or done.stdout}")
