"""The process: `python -P -m web [DESCRIPTOR[,DESCRIPTOR] HOST]`, started by `catchment up`, which passes its sockets."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import cache, partial

from catchment.errors import NotFound
from catchment.ledger import Ledger
from catchment.runtime.child_process import become_child
from catchment.runtime.home import Home
from catchment.runtime.web_process import WebAddress, token
from catchment.search.meaning import meaning_status
from catchment.settings import SourceSettings
from deployments.actions.desk import Desk
from deployments.health.announcing import Announcer
from deployments.health.incident_watch import IncidentWatch
from deployments.server.client import checks
from deployments.server.running import running
from web.app import application
from web.guard import serve
from web.observer import Metrics
from web.readiness import Readiness
from web.warm_library import WarmLibrary

_WRITE_SECONDS = 10.0
"""Time limit of a transaction that stores measurements."""


def main(arguments: list[str]) -> None:
    """Serve until SIGTERM."""
    become_child("web")
    home = Home.default()
    library = WarmLibrary(home, partial(meaning_status.record, home), partial(_settings, home))
    server = running(home)
    descriptors, host = arguments or ("", "")
    # A browser of another machine cannot reach this home's own server. A shared server knows no one-time keys.
    ui = server.url if server and not server.server and not host else None
    readiness = Readiness(library, checks(server) if server else None, ui)
    desk, announcer = desk_of(home), Announcer(home)
    watch = IncidentWatch(
        home, lambda: library.ledger, desk.writing, readiness.errors, announcer.announce, is_up=server is not None
    )
    announcer.start(watch.note)
    library.unsaved = lambda: watch.unsaved
    inherited = [socket.socket(fileno=int(number)) for number in descriptors.split(",") if number]
    with ExitStack() as stack:
        sockets = [stack.enter_context(listener) for listener in inherited or [socket.create_server(("127.0.0.1", 0))]]
        port = sockets[0].getsockname()[1]
        metrics = Metrics(library, cache(partial(Ledger.inspect, home, seconds=_WRITE_SECONDS)))
        web = application(
            library, readiness, desk, token(home), lambda: WebAddress.record(home, port), metrics, watch.judge
        )
        serve(web.app, web.check, sockets, web.stop, host)


def _settings(home: Home) -> Mapping[str, SourceSettings]:
    return {name: entry.settings for name, entry in desk_of(home).entries().items()}


def desk_of(home: Home) -> Desk:
    """Return the desk of a home, through which the actions open the ledger."""
    return Desk(home, partial(_reading, home), partial(_writing, home))


@contextmanager
def _reading(home: Home) -> Iterator[Ledger]:
    with closing(Ledger.inspect(home, read_only=True)) as ledger:
        yield ledger


@contextmanager
def _writing(home: Home) -> Iterator[Ledger]:
    """Open the ledger for an action. It is created before the first source, and never migrated."""
    try:
        ledger = Ledger.inspect(home)
    except NotFound:
        ledger = Ledger.open(home)
    with closing(ledger):
        yield ledger


if __name__ == "__main__":
    main(sys.argv[1:])
