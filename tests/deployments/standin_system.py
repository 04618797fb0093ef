"""A stand-in for the running system, at the socket of a home where it is asked for commands."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

from catchment.runtime.home import Home
from deployments.supervisor import forked


@contextlib.contextmanager
def asked_at(home: Home, answer: Callable[[socket.socket], object]) -> Iterator[None]:
    """Do this with the line of each who asks, one after the other, and close it."""
    with forked.listen(forked.place(home)) as listening:

        def serve() -> None:
            while True:
                try:
                    line, _ = listening.accept()
                except OSError:
                    return
                with line:
                    answer(line)

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield
        finally:
            # Who waits for the next to ask is told by this, and not by closing it.
            listening.shutdown(socket.SHUT_RDWR)
            serving.join()
