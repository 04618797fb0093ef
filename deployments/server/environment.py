"""Our Prefect settings, and the environment of the server, the worker and every run."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

import certifi

from catchment.errors import ConfigError
from catchment.runtime import atomic_files, own_secrets, secret_references
from catchment.runtime.home import Home
from catchment.runtime.membership import Membership

POOL = "catchment"
TRIED_PREFECT = "3.9"
"""The Prefect version, without its last number, with which the changes of its internals were tested."""

_ALLOCATOR: Mapping[str, str] = MappingProxyType(
    {
        "MALLOC_ARENA_MAX": "1",
        "MALLOC_MMAP_THRESHOLD_": str(1 << 20),
        "MALLOC_TRIM_THRESHOLD_": str(4 << 20),
    }
)
"""For glibc. By default it keeps memory that one thread freed for that thread alone (25 MB in a run), and keeps as much freed
memory as the largest freed text had, for the next one (30 MB in each process)."""

_AUTHORITIES: Mapping[str, str] = MappingProxyType({"SSL_CERT_FILE": "file", "SSL_CERT_DIR": "folder"})
_QUICK_IMPORTS: Mapping[str, str] = MappingProxyType(
    {"PY_KEY_VALUE_DISABLE_BEARTYPE": "true", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
)
"""Saves a seventh of the import time at start: a library of Prefect checks the types of its own calls, and pydantic searches
all packages for plugins, although none is installed."""

SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        # Otherwise a missing API address would silently start a second server.
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "PREFECT_SERVER_API_HOST": "127.0.0.1",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
        # A sync with changes adds 50 kB, of which 25 are events, which are not read after a day.
        "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": "604800",
        "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": "P1D",
        "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_FLUSH_INTERVAL": "1",
        # Each check costs, and with the defaults (5 to 20 s) the server at rest uses nearly twice the processor time. No run
        # here is paused with a timeout; a run counts as late after 15 s; the worker ends the runs that are cancelled.
        "PREFECT_SERVER_SERVICES_PAUSE_EXPIRATIONS_LOOP_SECONDS": "30",
        "PREFECT_SERVER_SERVICES_LATE_RUNS_LOOP_SECONDS": "15",
        "PREFECT_SERVER_SERVICES_CLEANUP_RECONCILER_LOOP_SECONDS": "60",
        "PREFECT_SERVER_SERVICES_CANCELLATION_CLEANUP_LOOP_SECONDS": "60",
        "PREFECT_SERVER_EVENTS_PROACTIVE_GRANULARITY": "PT30S",
        # The default keeps leases in memory: a killed server would leak every slot that was in use.
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        "PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "1",
        # Events notify the worker of new runs; this poll finds a run after the loss of its event.
        "PREFECT_WORKER_QUERY_SECONDS": "15",
        "PREFECT_WORKER_ENABLE_CANCELLATION": "true",
        "PREFECT_RESULTS_DEFAULT_SERIALIZER": "json",
        # The server requires no CSRF token; otherwise every client would request one first, three times in each run.
        "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",
        # The server responds with 500 while its disk is full, and may accept a later attempt.
        "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500",
        "PREFECT_CLI_PROMPT": "false",
        "PREFECT_CLI_COLORS": "false",
    }
)


def is_tried(version: str) -> bool:
    """Whether the worker and the server were tested with this version of Prefect."""
    return version.startswith(f"{TRIED_PREFECT}.")


def child_environment(home: Home, *, port: int, auth: str) -> dict[str, str]:
    """The environment of the server, the worker and every run: the current one, with Prefect's settings replaced.

    The user's own Prefect settings are dropped, because they belong to another server; so are `unusable_variables`.
    `auth` is the only secret that is added. `port`: of this home's own server; a joined host has none.
    """
    membership = Membership.of(home)
    address = membership.server if membership else f"http://127.0.0.1:{port}"
    unusable = unusable_variables()
    passed_on = {
        key: value for key, value in os.environ.items() if not key.startswith("PREFECT_") and key not in unusable
    }
    # Requests to the server must never reach the user's proxy.
    local = dict.fromkeys(["127.0.0.1", "::1", "localhost", urlsplit(address).hostname])
    exempt = ",".join(filter(None, [passed_on.get("NO_PROXY") or passed_on.get("no_proxy"), *local]))
    return {
        **_ALLOCATOR,
        **passed_on,
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
        "PREFECT_UI_URL": f"{address}/v2",
        "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
        "PYTHONUNBUFFERED": "1",
        **(_of_joined_host(home) if membership else _of_own_server(home, address, port)),
    }


def unusable_variables() -> dict[str, str]:
    """Return the variables of the environment with which the HTTP client refuses to start, with the problem of each."""
    variables = {
        name: f"{what} not found" for name, what in _AUTHORITIES.items() if not Path(os.environ.get(name, "/")).exists()
    }
    for name, value in os.environ.items():
        if value and name.lower().endswith("_proxy") and name.lower() != "no_proxy" and not _is_proxy(value):
            variables[name] = "not a proxy with http:// or https://"
    return variables


def _is_proxy(value: str) -> bool:
    from httpx import URL, InvalidURL

    try:
        return URL(value if "://" in value else f"http://{value}").scheme in ("http", "https")
    except InvalidURL:
        return False


def _of_joined_host(home: Home) -> dict[str, str]:
    # Events report new runs. Each poll for runs with a lost event costs the server of all hosts a request.
    return {"PREFECT_API_SSL_CERT_FILE": authorities(home), "PREFECT_WORKER_QUERY_SECONDS": "60"}


def _of_own_server(home: Home, address: str, port: int) -> dict[str, str]:
    return {
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_UI_API_URL": f"{address}/api",
        "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS": f"{address},http://localhost:{port}",
        "PREFECT_API_SSL_CERT_FILE": str(_one_authority(home.prefect)),
    }


def authorities(home: Home) -> str:
    """The file of certificate authorities that a joined host trusts for its server."""
    return str(home.authorities) if home.authorities.exists() else certifi.where()


def _one_authority(folder: Path) -> Path:
    """A certificate file with one authority. Each Prefect client spends 35 ms loading the usual list, and none uses TLS."""
    path = folder / "one-authority.pem"
    if not path.exists():
        first, end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERTIFICATE-----")
        folder.mkdir(parents=True, exist_ok=True)
        atomic_files.write(path, f"{first}{end}\n".encode())
    return path


def auth_string(home: Home) -> str:
    """The `user:password` of this home's server. Created at the first call, in a file that only its owner can read.

    Raises ConfigError if the file has another content, LoginFailed if the login of a joined host cannot be read.
    """
    if membership := Membership.of(home):
        return checked_login(secret_references.resolve(membership.login))
    path = home.path / "ui-login"
    if not path.exists():
        home.make()
    # A server with an empty login would require none.
    return own_secrets.obtain(
        path, lambda: f"catchment:{secrets.token_urlsafe(24)}", _is_login, "user:password in ASCII"
    )


def checked_login(text: str) -> str:
    """Return the login of a shared server. Raises ConfigError if it cannot be one."""
    if not _is_login(text):
        raise ConfigError("login of the Prefect server: not user:password in ASCII; run `catchment join` again")
    return text


def _is_login(text: str) -> bool:
    # Prefect supports ASCII only.
    return text.isascii() and text.isprintable() and ":" in text
