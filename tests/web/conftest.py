"""A home with a small library, and its web process as `catchment up` starts it, without the rest of the system."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from catchment.ledger import Ledger
from catchment.ledger.library.embeddings import DEFAULT_MODEL
from catchment.runtime import own_secrets, web_process
from catchment.runtime.home import Home
from catchment.runtime.web_process import WebAddress
from catchment.search.meaning.choice import load
from catchment.search.meaning.fill import fill as embed
from deployments.server.running import Running, record, supervisor_lock
from tests.ledger.conftest import new_postgres, postgres
from tests.ledger.world import Clock, World, note
from tests.waiting import until

__all__ = ["new_postgres", "postgres"]

PROJECT = Path(__file__).parents[2]
NOTES = {
    "Girder.md": "The main girder of the bridge is corroded below the west pier.",
    "Orchard.md": "Apples and pears are pruned in late winter.",
    "Meter.md": 'The water meter "leaks" NEAR(2) the AND pressure switch.',
}


def fill(home: Home, *, with_meaning: bool = False) -> None:
    """Create the ledger of a home, with the documents of `NOTES`, and their embeddings on request."""
    clock = Clock()
    world = World(home.database_url, clock, Ledger.open(home.database_url, clock=clock, monotonic=clock.steady))
    for name, text in NOTES.items():
        world.ingest(note(name), text=text)
    if with_meaning:
        embed(world.ledger, load(DEFAULT_MODEL), lambda _counts: None)
    world.ledger.close()


@contextmanager
def served(home: Home, server: int | None = None) -> Iterator[int]:
    """Run the web process of a home with a server on this port; yields the port of the page."""
    environment = {**os.environ, "CATCHMENT_HOME": str(home.path), "PYTHONPATH": str(PROJECT)}
    environment.pop("CATCHMENT_DATABASE_URL", None)
    with ExitStack() as stack:
        if server:
            stack.enter_context(supervisor_lock(home))
            record(home, Running(server, os.getpid(), datetime.now(UTC), 0, 0, ""))
        yield from _process(home, environment)


def _process(home: Home, environment: Mapping[str, str]) -> Iterator[int]:
    with (home.logs / "web.log").open("ab") as log:
        process = subprocess.Popen([sys.executable, "-P", "-m", "web"], env=environment, stdout=log, stderr=log)
    try:
        address = until(lambda: WebAddress.read(home) or process.poll() is not None)
        assert isinstance(address, WebAddress), (home.logs / "web.log").read_text()
        yield address.port
    finally:
        process.kill()
        process.wait()


def connected(home: Home, port: int) -> httpx.Client:
    """Return a client with the token of the home."""
    headers = {"Authorization": f"Bearer {web_process.token(home)}"}
    return httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False, timeout=60)


@contextmanager
def signed_in(home: Home, port: int) -> Iterator[httpx.Client]:
    """Yield a client that has signed in by a link, as a browser does."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as client:
        response = client.get("/signin", params={"key": own_secrets.one_time_key(home.signin_keys)})
        assert response.status_code == 303
        yield client


@contextmanager
def answering(respond: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[int]:
    """Run an HTTP server on the loopback interface that answers every request by `respond`; yields its port."""

    handler = type(
        "Handler", (BaseHTTPRequestHandler,), {"do_GET": respond, "do_POST": respond, "log_message": _ignore}
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = (
            False  # its end awaits them: an answer to nobody would write into the output of the next test
        )
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def _ignore(*_: object) -> None:
    """Discard log messages."""


@pytest.fixture(scope="module")
def library_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The home of the module's web process."""
    home = Home(tmp_path_factory.mktemp("web") / "home").make()
    fill(home, with_meaning=True)
    return home


@pytest.fixture(scope="module")
def port(library_home: Home) -> Iterator[int]:
    """The port of the module's web process."""
    with served(library_home) as number:
        yield number
