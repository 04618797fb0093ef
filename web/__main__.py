"""The process: `python -P -m web`, started by `catchment up`."""

from __future__ import annotations

import os
import socket
from functools import partial

from catchment.runtime.child_process import become_child
from catchment.runtime.home import Home
from catchment.search.meaning import meaning_status
from catchment.search.remote import WebAddress, token
from web.app import application
from web.guard import serve
from web.readiness import Readiness
from web.warm_library import WarmLibrary


def main() -> None:
    """Serve until SIGTERM."""
    become_child("web")
    home = Home.default()
    library = WarmLibrary(home, partial(meaning_status.record, home))
    readiness = Readiness(library, os.environ.get("PREFECT_API_URL"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        app = application(library, readiness, lambda: WebAddress.record(home, port))
        serve(app, token(home), listening)


if __name__ == "__main__":
    main()
