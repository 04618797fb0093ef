"""Join a shared library: check the Prefect server and the ledger of all hosts, then write the membership of this home.

Each step may be repeated: a home that was killed in the middle refuses to write, and the same command completes it.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import quote, urlsplit

import certifi

from catchment.audit import chain
from catchment.errors import BadInput, CatchmentError, LoginFailed, NotFound, Refused, TryAgain
from catchment.ledger import Ledger
from catchment.runtime import addresses, atomic_files, installation, secret_references
from catchment.runtime.home import Home
from catchment.runtime.membership import Membership, checked_name, own_login
from deployments.actions.desk import Desk
from deployments.runs.work_pool import ensure_pool
from deployments.server.client import Client, ServerError, api, checks
from deployments.server.environment import TRIED_PREFECT, checked_login, is_tried
from deployments.server.running import Running, kept_down

_SKEW_SECONDS = 2.0
_LEASE = "catchment.probe"
_SECONDS = 20.0
_DATABASE = "CATCHMENT_DATABASE_URL"


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """The arguments of `catchment join`. `server`, `ledger`: addresses; `name`: empty for the name of the machine.

    `authority`: a file of certificate authorities, which then are the only trusted ones. `login`: a secret reference.
    """

    server: str
    ledger: str
    name: str = ""
    takes_any: bool = False
    authority: Path | None = None
    login: str | None = None


def join(
    desk: Desk,
    request: JoinRequest,
    actor: str,
    reason: str = "",
    *,
    ask: Callable[[], str],
    warn: Callable[[str], None],
) -> Membership:
    """Make the home a host of a shared library. May be called again, for example with another login.

    `ask` obtains the login of the server from the operator. `warn` receives differences of clocks. Raises CatchmentError at
    the first check that fails; the home is unchanged then.
    """
    home = desk.home.make()
    before = Membership.of(home)
    name = checked_name(request.name or (before.name if before else _name_of_machine()))
    if before and before.name != name:
        raise Refused(f"join: this home is the host {before.name}; run `catchment leave` before it gets another name")
    with kept_down(home, "join"):
        if before and request.authority is None and home.authorities.exists():
            request = replace(request, authority=home.authorities)
        authority = _authority(request.authority)
        url = _protected(request.ledger, home.authorities if authority else None)
        _require_nothing_to_lose(home, url)
        reference = request.login or (before.login if before else None)
        login = secret_references.resolve(reference) if reference else ask()
        state = _state(request, checked_login(login))
        skew = _check_server(state)
        if not reference:
            reference = _store_login(home, login)
        if authority:
            atomic_files.write(home.authorities, authority)
        else:
            home.authorities.unlink(missing_ok=True)
        membership = Membership(name, state.server, reference, request.takes_any)
        skews = {"the server": skew, "the database": _register(home, url, membership, before, actor, reason)}
        ensure_pool(state, membership.queues)
        for whose, seconds in skews.items():
            if abs(seconds) > _SKEW_SECONDS:
                warn(f"the clock of {whose} differs by {seconds:+.0f} s from this machine's; set the clocks (NTP)")
    return membership


def _name_of_machine() -> str:
    return re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().partition(".")[0].lower()).strip("-")[:31]


def _authority(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BadInput(f"--ca: {error.strerror}; pass the file of the certificate authority") from None
    if b"-----BEGIN CERTIFICATE-----" not in content:
        raise BadInput("--ca: not a certificate in PEM form; pass the file of the certificate authority")
    return content


def _protected(url: str, authorities: Path | None) -> str:
    """Return the address of the ledger, with the trusted authorities. Raises BadInput or Refused."""
    if not addresses.is_postgresql(url):
        raise BadInput(
            "--ledger: must be postgresql://USER@HOST/DATABASE?sslmode=verify-full; hosts share no SQLite file"
        )
    try:
        options = addresses.postgresql(url)
    except BadInput as error:
        raise BadInput(f"--ledger: {error}") from None
    if not addresses.elsewhere(options):
        return url
    if options.get("sslmode") != "verify-full":
        raise Refused("--ledger: others could read or change what it sends; add sslmode=verify-full to its address")
    if authorities is None or "sslrootcert" in options:
        return url
    return f"{url}&sslrootcert={quote(str(authorities), safe='/')}"


def _require_nothing_to_lose(home: Home, url: str) -> None:
    """Raise Refused if this home has a library elsewhere, which would no longer be seen."""
    if os.environ.get(_DATABASE) not in (None, "", url):
        raise Refused(f"{_DATABASE}: names another database and comes first; unset it")
    if _place(home.database_url) == _place(url):
        return
    try:
        with closing(Ledger.inspect(home)) as ledger:
            is_empty = not ledger.sources.all()
    except NotFound:
        return
    if not is_empty:
        raise Refused("join: this home has a library of its own; move it first: catchment ledger move URL")


def _place(url: str) -> tuple[str | None, ...]:
    """Return the parts of an address that identify its database, without the options of the connection."""
    if not addresses.is_postgresql(url):
        return (url,)
    options = addresses.postgresql(url)
    return *map(options.get, ("host", "hostaddr", "dbname")), options.get("port") or "5432"


def _state(request: JoinRequest, login: str) -> Running:
    address = request.server.rstrip("/").removesuffix("/api")
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.username:
        raise BadInput("URL: must be the address of a Prefect server, such as https://catchment.lan")
    if parts.scheme == "http" and not addresses.is_local(address):
        raise Refused("URL: others could read the login and the runs; use https://, or a tunnel to this machine")
    authorities = str(request.authority or certifi.where())
    return Running(0, os.getpid(), datetime.now(UTC), 0, 0, login, server=address, authorities=authorities)


def _check_server(state: Running) -> float:
    """Return by how many seconds the clock of the server is ahead. Raises if hosts cannot work with this server."""
    if not state.login.partition(":")[2]:
        raise Refused("login: the password is empty; use user:password of the Prefect server")
    with api(replace(state, login=":"), timeout=_SECONDS) as client:
        if client.get("/admin/version").is_success:
            raise Refused("the Prefect server requires no login; start it with PREFECT_SERVER_API_AUTH_STRING")
    with api(state, timeout=_SECONDS) as client:
        response = client.get("/admin/version")
        if response.status_code in (401, 403):
            raise LoginFailed("login: refused by the Prefect server; use the user:password that it was started with")
        version = response.json() if response.content[:1] == b'"' else ""
        if not is_tried(str(version)):
            program = f"Prefect {version}" if version else "no Prefect server"
            raise Refused(
                f"{state.server}: {program}, but hosts need Prefect {TRIED_PREFECT}.x; install that version there"
            )
        date = client.get("/health").headers.get("date")
        # The date is cut to whole seconds.
        skew = (parsedate_to_datetime(date).timestamp() + 0.5 - time.time()) if date else 0.0
        try:
            checks(state)["events"]()
            _take_lease(client)
        except (TryAgain, ServerError) as error:
            raise TryAgain("the Prefect server accepts no events or leases; check its Redis, then try again") from error
    return skew


def _take_lease(client: Client) -> None:
    """Take a lease, and give it back. The server keeps leases and events in Redis, which its health check does not cover."""
    slots = {"names": [_LEASE], "slots": 1, "lease_duration": 60}
    lease = client.post("/v2/concurrency_limits/increment-with-lease", json=slots).raise_for_status().json()
    client.post("/v2/concurrency_limits/decrement-with-lease", json={"lease_id": lease["lease_id"]}).raise_for_status()


def _store_login(home: Home, login: str) -> str:
    home.secrets.mkdir(mode=0o700, exist_ok=True)
    atomic_files.write(own_login(home), login.encode())
    return f"file:{own_login(home)}"


def _register(
    home: Home, url: str, membership: Membership, before: Membership | None, actor: str, reason: str
) -> float:
    """Record the host here, then in the ledger. Return by how many seconds the clock of the database is ahead.

    A ledger that does not accept this host leaves the home as it was.
    """
    previous = home.named_database
    home.use_database(url)
    replace(membership, unfinished="join").record(home)
    try:
        with closing(Ledger.open(home)) as ledger:
            ledger.hosts.join(
                membership.name, actor, reason, takes_any=membership.takes_any, version=installation.version()
            )
            if before is None or before.unfinished:
                chain.take_up(home, ledger, "joined")
            skew = ledger.now().timestamp() - time.time()
        membership.record(home)
        return skew
    except CatchmentError:
        home.use_database(previous)
        if before:
            before.record(home)
        else:
            home.membership.unlink()
        raise
