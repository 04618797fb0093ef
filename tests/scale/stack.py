"""PostgreSQL, Redis, two Prefect servers and nginx on loopback, started from the files of `deployments/scale`."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg
import yaml

from tests.connectors.imap.certificates import authority, certificate
from tests.waiting import until

PROJECT = Path(__file__).parents[2]
FILES = PROJECT / "deployments" / "scale"
POSTGRES = Path("/usr/lib/postgresql/15/bin")
PACKAGES = {"postgres": "postgresql", "redis-server": "redis-server", "nginx": "nginx-light"}
"""The programs of the stack, and their packages on Debian."""
_PREFECT = Path(sys.executable).with_name("prefect")
_PLACES = ("postgres", "redis", "catchment.lan", "api-1", "api-2")


def settings(*names: str) -> dict[str, str]:
    """Return the variables of files in `deployments/scale`, as systemd and Docker read them."""
    lines = [line for name in names for line in (FILES / name).read_text().splitlines()]
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@dataclass
class Stack:
    """Every process listens on loopback. `folder` has the certificates, the logs and all data."""

    folder: Path
    ports: dict[str, int] = field(default_factory=lambda: dict(zip(_PLACES, _free_ports(len(_PLACES)), strict=True)))
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def server(self) -> str:
        """The address that hosts join."""
        return f"https://localhost:{self.ports['catchment.lan']}"

    @property
    def login(self) -> str:
        return self._addresses["PREFECT_SERVER_API_AUTH_STRING"]

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def ledger(self) -> str:
        """The address of the empty database of a ledger."""
        where = f"localhost:{self.ports['postgres']}/catchment?sslmode=verify-full&sslrootcert={self.authority}"
        return f"postgresql://catchment:{self._addresses['CATCHMENT_PASSWORD']}@{where}"

    def start(self) -> None:
        """Start everything in the order of `compose.yaml`, and wait until it answers."""
        self._certify()
        self._make_databases()
        for name in ("postgres", "redis"):
            self.begin(name)
        self._prefect("schema", must_end=True)
        self.begin("api-1")
        until(lambda: self.answers("api-1"))
        for name in ("api-2", "services", "nginx"):
            self.begin(name)
        until(lambda: self.answers("api-2") and self.answers("catchment.lan"))

    def begin(self, name: str) -> None:
        """Start one service of `compose.yaml`."""
        match name:
            case "postgres":
                self._start_postgres()
            case "redis":
                self._start_redis()
            case "nginx":
                self._start_nginx()
            case _:
                self._prefect(name)

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End one service with its children, and wait for its end."""
        process = self.processes.pop(name)
        served = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(how)
        process.wait(60)
        for child in served:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(served, timeout=20)

    def stop(self) -> None:
        for name in reversed([*self.processes]):
            self.kill(name, signal.SIGQUIT if name == "postgres" else signal.SIGKILL)

    def answers(self, name: str) -> bool:
        """Whether a server, or nginx, answers."""
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            address = self.server if name == "catchment.lan" else f"http://127.0.0.1:{self.ports[name]}"
            asked = ["curl", "-sf", "-m5", "--cacert", str(self.authority), "-u", self.login, f"{address}/api/health"]
            return subprocess.run(asked, check=True, capture_output=True).stdout == b"true"
        return False

    def asked(self, statement: str, database: str = "catchment") -> list[Any]:
        """Return the rows of a query, as the superuser."""
        where = {"host": str(self.folder), "port": self.ports["postgres"], "user": "postgres", "dbname": database}
        with psycopg.connect(**where) as connection:
            return connection.execute(statement).fetchall()  # type: ignore[arg-type]

    @property
    def _addresses(self) -> dict[str, str]:
        """The variables of addresses.env: those of the example, with the ports and passwords of this stack."""
        return {name: self._here(value) for name, value in settings("addresses.env.example").items()}

    def _here(self, text: str) -> str:
        """Replace the names, ports and paths in a file of `deployments/scale` by those of this machine."""
        for port, name in ((5432, "postgres"), (6379, "redis")):
            text = text.replace(f"@{name}:{port}/", f"@localhost:{self.ports[name]}/")
        for name in ("api-1", "api-2"):
            text = text.replace(f"{name}:4200", f"127.0.0.1:{self.ports[name]}")
        text = text.replace("https://catchment.lan", self.server).replace("PASSWORD", "secret1")
        text = text.replace("listen 443", f"listen 127.0.0.1:{self.ports['catchment.lan']}")
        return text.replace("server_name catchment.lan", "server_name localhost").replace(
            "/etc/catchment", str(self.folder)
        )

    def _certify(self) -> None:
        signer = authority("Scale", is_complete=True)
        server = certificate(signer, "localhost")
        (self.folder / "ca.pem").write_bytes(signer.pem)
        (self.folder / "server.pem").write_bytes(server.pem)
        key = self.folder / "server.key"
        key.touch(0o600)
        key.write_bytes(server.key_pem)
        if self._user:
            shutil.chown(self.folder, self._user)
            shutil.copy(key, self.folder / "postgres.key")
            (self.folder / "postgres.key").chmod(0o600)
            shutil.chown(self.folder / "postgres.key", self._user)
        self.folder.chmod(0o755)

    @property
    def _user(self) -> str | None:
        return None if os.geteuid() else "postgres"

    def _make_databases(self) -> None:
        made = ["-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run(
            [POSTGRES / "initdb", "-D", self.folder / "data", *made],
            check=True,
            capture_output=True,
            user=self._user,
            cwd=self.folder,
        )
        self._start_postgres()
        there = {"PGHOST": str(self.folder), "PGPORT": str(self.ports["postgres"])}
        subprocess.run(
            [FILES / "databases.sh"],
            env={**os.environ, **self._addresses, **there},
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def _start_postgres(self) -> None:
        if "postgres" in self.processes:
            return
        rules = shutil.copy(FILES / "pg_hba.conf", self.folder)
        key = self.folder / ("postgres.key" if self._user else "server.key")
        command = compose()["services"]["postgres"]["command"]
        options = [option.removeprefix("-c").partition("=")[0] for option in command[1:]]
        values = {"ssl": "on", "ssl_cert_file": self.folder / "server.pem", "ssl_key_file": key, "hba_file": rules}
        assert options == [*values], "the test sets what compose.yaml sets"
        settings = {**values, "port": self.ports["postgres"], "unix_socket_directories": self.folder, "fsync": "off"}
        chosen = [f"-c{name}={value}" for name, value in settings.items()]
        self._run("postgres", [POSTGRES / "postgres", "-D", self.folder / "data", *chosen], user=self._user)
        until(self._is_postgres_up)

    def _is_postgres_up(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            return bool(self.asked("select 1", "postgres"))
        return False

    def _start_redis(self) -> None:
        configuration = self.folder / "redis.conf"
        configuration.write_text(self._here((FILES / "redis.conf").read_text()))
        chosen = ["--tls-port", str(self.ports["redis"]), "--dir", str(self.folder), "--bind", "127.0.0.1"]
        password = ["--requirepass", self._addresses["REDIS_PASSWORD"]]
        self._run("redis", ["redis-server", configuration, *chosen, *password])
        until(lambda: _listens(self.ports["redis"]))

    def _start_nginx(self) -> None:
        site = self.folder / "site.conf"
        site.write_text(self._here((FILES / "nginx.conf").read_text()))
        main = self.folder / "nginx.conf"
        main.write_text(
            f"daemon off; pid {self.folder}/nginx.pid; error_log stderr; worker_processes 1; events {{}}\n"
            f"http {{ access_log off; include {site}; }}\n"
        )
        self._run("nginx", ["nginx", "-p", self.folder, "-e", "stderr", "-c", main])

    def _prefect(self, name: str, *, must_end: bool = False) -> None:
        """Start one of the services of `compose.yaml` that run Prefect."""
        service = compose()["services"][name]
        own = {"PREFECT_HOME": str(self.folder / name), "PREFECT_SERVER_API_PORT": str(self.ports.get(name, 0))}
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PREFECT_", "CATCHMENT_"))}
        environment = {**kept, **settings("prefect.env"), **self._addresses, **service.get("environment", {}), **own}
        command = [_PREFECT, *service["command"][1:]]
        if "0.0.0.0" in command:
            command[command.index("0.0.0.0")] = "127.0.0.1"
        self._run(name, command, environment)
        if must_end:
            assert self.processes.pop(name).wait(120) == 0, self.log(name)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _run(
        self, name: str, command: list[Any], environment: dict[str, str] | None = None, user: str | None = None
    ) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*map(str, command)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                user=user,
                start_new_session=True,
            )


def compose() -> Any:
    """The parsed `compose.yaml`."""
    return yaml.safe_load((FILES / "compose.yaml").read_text())


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [each.getsockname()[1] for each in sockets]


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


if __name__ == "__main__":
    # For development: starts the stack in a folder, and stops it on Ctrl-C or SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    where = Path(sys.argv[1])
    where.mkdir(parents=True)
    running = Stack(where)
    began = time.monotonic()
    try:
        running.start()
        print(f"up after {time.monotonic() - began:.1f} s", running.server, running.login, running.ledger, flush=True)
        signal.pause()
    finally:
        running.stop()
