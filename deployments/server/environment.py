"""The Prefect settings of this project, and the environment that the server, the worker and every run get."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import certifi

from catchment.errors import ConfigError
from catchment.runtime import atomic_files
from catchment.runtime.home import Home

POOL = "catchment"
TRIED_PREFECT = "3.8."
"""How the versions begin on whose inner parts the worker and the server rely, as far as they were tried."""

_ALLOCATOR: Mapping[str, str] = MappingProxyType(
    {
        "MALLOC_ARENA_MAX": "1",
        "MALLOC_MMAP_THRESHOLD_": str(1 << 20),
        "MALLOC_TRIM_THRESHOLD_": str(4 << 20),
    }
)
"""For glibc, which else keeps what each thread gave back for that thread alone (25 MB of a run), and of a large text that was
given back as much as the largest before it, for the next one (30 MB of each process)."""

_QUICK_IMPORTS: Mapping[str, str] = MappingProxyType(
    {"PY_KEY_VALUE_DISABLE_BEARTYPE": "true", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
)
"""Without a seventh of what the imports of a start take: a library of Prefect's that else checks the types of its own calls,
and a look for plugins, of which there are none, through all packages."""

SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        # Without it a forgotten API address starts a second server in silence.
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "PREFECT_SERVER_API_HOST": "127.0.0.1",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
        # A sync adds 0.2 MB (`python -m benchmarks.soak`), most of it events, which nothing reads once they are a day old.
        "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": "604800",
        "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": "P1D",
        "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_FLUSH_INTERVAL": "1",
        # Nothing here is paused in that way, and each look costs; the default is every 5 seconds.
        "PREFECT_SERVER_SERVICES_PAUSE_EXPIRATIONS_LOOP_SECONDS": "30",
        # The default keeps leases in memory: a killed server would leak every slot that was taken.
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        "PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "5",
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
        # The warm worker hears of new runs by events; this look is for what no event told of.
        "PREFECT_WORKER_QUERY_SECONDS": "15",
        "PREFECT_WORKER_ENABLE_CANCELLATION": "true",
        "PREFECT_RESULTS_DEFAULT_SERIALIZER": "json",
        # The server asks for no such token; without this every client asks for one first, three times in each run.
        "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",
        "PREFECT_CLI_PROMPT": "false",
        "PREFECT_CLI_COLORS": "false",
    }
)


def child_environment(home: Home, *, port: int, auth: str) -> dict[str, str]:
    """The environment of the server, the worker and every run: this one, with Prefect's settings replaced.

    A person's own Prefect settings are dropped: they belong to another server. The auth string is the only
    secret that is added.
    """
    address = f"http://127.0.0.1:{port}"
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}
    # A proxy of the person's must never see the loopback.
    exempt = ",".join(filter(None, [kept.get("NO_PROXY") or kept.get("no_proxy"), "127.0.0.1", "localhost"]))
    return {
        **_ALLOCATOR,
        **kept,
        **_QUICK_IMPORTS,
        **SETTINGS,
        "CATCHMENT_HOME": str(home.path),
        "DO_NOT_TRACK": "1",
        "NO_PROXY": exempt,
        "no_proxy": exempt,
        "PREFECT_HOME": str(home.prefect),
        "PREFECT_PROFILES_PATH": str(home.prefect / "profiles.toml"),
        "PREFECT_API_URL": f"{address}/api",
        "PREFECT_API_AUTH_STRING": auth,
        "PREFECT_SERVER_API_AUTH_STRING": auth,
        "PREFECT_UI_URL": f"{address}/v2",
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_UI_API_URL": f"{address}/api",
        "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS": f"{address},http://localhost:{port}",
        "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
        "PREFECT_API_SSL_CERT_FILE": str(_one_authority(home.prefect)),
        "PYTHONUNBUFFERED": "1",
    }


def _one_authority(folder: Path) -> Path:
    """A certificate file with a single authority: each Prefect client spends 35 ms on the usual list, and none uses TLS."""
    path = folder / "one-authority.pem"
    if not path.exists():
        first, end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERTIFICATE-----")
        folder.mkdir(parents=True, exist_ok=True)
        atomic_files.write(path, f"{first}{end}\n".encode())
    return path


def auth_string(home: Home) -> str:
    """The `user:password` of this home's server; made the first time, and kept in a file that only its owner reads.

    Raises ConfigError if somebody wrote something else there.
    """
    path = home.path / "ui-login"
    with suppress(FileNotFoundError):
        # What a full disk left empty would be a server that asks nobody.
        if login := path.read_bytes().decode(errors="replace").strip():
            # Prefect compares ASCII only.
            if login.isascii() and login.isprintable() and ":" in login:
                return login
            raise ConfigError(f"{path.name} is not user:password in ASCII; correct it, or delete it to get a new one")
    home.make()
    login = f"catchment:{secrets.token_urlsafe(24)}"
    atomic_files.write(path, f"{login}\n".encode())
    return login
