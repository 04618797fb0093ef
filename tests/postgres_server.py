"""A private PostgreSQL server, for tests and benchmarks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError

BINARIES = Path("/usr/lib/postgresql/15/bin")
_PATIENCE_SECONDS = 60


def is_installed() -> bool:
    """Return whether PostgreSQL 15 is installed."""
    return BINARIES.is_dir()


class PostgresServer:
    """A private PostgreSQL server on its own socket, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(folder, self._user)
        made = ("-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C")
        self._run("initdb", *made).communicate()
        self.url = f"postgresql+psycopg://postgres@/postgres?host={folder}"

    def start(self, *options: str) -> None:
        self._process = self._run("postgres", "-c", "listen_addresses=", "-k", str(self._folder), *options)
        _wait_for(self.url, self._process)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Close all connections and stop the server. With SIGQUIT, as in a crash."""
        self._process.send_signal(how)
        self._process.wait()

    def _run(self, program: str, *options: str) -> subprocess.Popen[bytes]:
        command: list[str | Path] = [BINARIES / program, "-D", self._folder / "data", *options]
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder, user=self._user)


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    engine = create_engine(url)
    while True:
        try:
            engine.connect().close()
        except OperationalError:
            assert server.poll() is None and time.monotonic() < deadline, "PostgreSQL did not start"
            time.sleep(0.05)
        else:
            engine.dispose()
            return
