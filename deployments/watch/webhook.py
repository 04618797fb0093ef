"""The webhook receiver: accepts deliveries of GitHub and requests syncs of the sources that read the changed repository.

A delivery is a hint only: the sync itself finds the changes. A delivery that is lost (full queue, restart, network) costs time
until the next scheduled sync, and never an item.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from catchment.content.foreign_json import read_json
from catchment.errors import CatchmentError, Refused, TryAgain
from catchment.runtime import atomic_files
from catchment.runtime.home import Home
from catchment.runtime.process import alive, identity
from connectors.github.settings import GitHubSettings
from deployments.sources.sources_file import SourceEntry, SourcesFile
from deployments.watch.debounce import Debounce
from deployments.watch.sync_requests import Server

PATH = "/github"
_QUEUE = 1_000
_REMEMBERED = 10_000
"""Deliveries remembered for the detection of repetitions; an older repetition causes a sync without changes."""
_LONGEST = 5_000_000
"""Bytes of a delivery. GitHub sends up to 25 MB, for pushes of thousands of commits; the schedule finds those."""
_SECONDS = 10.0
"""Seconds that a delivery may take from the first byte to the last. GitHub waits no longer either."""
_AT_ONCE = 8
_RELOAD_SECONDS = 5.0
_SYNC_EVENTS = frozenset(
    {
        *("create", "delete", "gollum", "issue_comment", "issues", "public", "pull_request", "pull_request_review"),
        *("pull_request_review_comment", "push", "release", "repository"),
    }
)

Announce = Callable[[str], None]


class Gate:
    """Verifies the signature of deliveries, and rejects repetitions. Thread-safe."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def status(self, headers: Mapping[str, str], body: bytes) -> int:
        """Return the HTTP status for a delivery; 202 accepts it. Header names are in lower case.

        Repetitions are detected by ID and by signature, because the signature does not cover the ID.
        """
        signature = headers.get("x-hub-signature-256", "")
        due = "sha256=" + hmac.new(self._secret, body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), due.encode()):
            return 401
        delivery = headers.get("x-github-delivery", "")
        if not delivery:
            return 400
        with self._lock:
            if delivery in self._known or due in self._known:
                return 409
            self._known |= {delivery: None, due: None}
            while len(self._known) > 2 * _REMEMBERED:
                self._known.popitem(last=False)
        return 202


def repository_of(event: str, body: bytes) -> str | None:
    """The repository of a delivery, in lower case; None if the event cannot change a sync's result. Raises ValueError."""
    payload = read_json(body)
    if event not in _SYNC_EVENTS:
        return None
    name = payload["repository"]["full_name"] if isinstance(payload, dict) else None
    if not isinstance(name, str):
        raise ValueError("no repository")
    return name.lower()


class Receiver:
    """Receives deliveries on a loopback port, from `serve` until `stop`."""

    def __init__(self, home: Home, secret: str, port: int, announce: Announce) -> None:
        """Raises Refused if the port is in use or reserved."""
        self._home = home
        self._announce = announce
        self._gate = Gate(secret)
        self._deliveries: SimpleQueue[str | None] = SimpleQueue()
        self._server = Server(home)
        self._sources: dict[str, SourceEntry] = {}
        self._debounces: dict[str, Debounce] = {}
        self._reload_at = 0.0
        self._last_error = ""
        try:
            self._http = _Listener(("127.0.0.1", port), _handler(self.deliver))
        except PermissionError as error:
            raise Refused(f"port {port}: reserved for the system; choose a --port from 1024") from error
        except OSError as error:
            raise Refused(f"port {port}: in use; choose another --port") from error
        self.port = int(self._http.server_address[1])

    def deliver(self, headers: Mapping[str, str], body: bytes) -> int:
        """Accept a delivery and return its HTTP status; 503 if the queue is full."""
        if self._deliveries.qsize() >= _QUEUE:
            return 503  # Before the gate remembers it, so that the host may deliver it again.
        if (status := self._gate.status(headers, body)) != 202:
            return status
        try:
            name = repository_of(headers.get("x-github-event", ""), body)
        except (ValueError, KeyError, TypeError):
            return 400
        if name is None:
            return 204
        self._deliveries.put(name)
        return status

    def serve(self) -> None:
        """Receive deliveries, and request syncs after each quiet period."""
        threading.Thread(target=self._http.serve_forever, args=(0.2,), name="webhook", daemon=True).start()
        with _reported(self._home, self.port):
            try:
                while self._take():
                    for name, debounce in self._debounces.items():
                        if debounce.needs_status(time.monotonic()):
                            self._request_sync(name, debounce)
            finally:
                self._http.shutdown()
                self._http.server_close()
                self._server.close()

    def stop(self) -> None:
        """Stop `serve` soon. May be called from a signal handler."""
        self._deliveries.put(None)

    # The loop

    def _take(self) -> bool:
        """Process one delivery, or time out when another step is due. False if `stop` was called."""
        now = time.monotonic()
        if now >= self._reload_at:
            self._reload(now)
        wakes = [debounce.wake_at() for debounce in self._debounces.values()]
        try:
            repository = self._deliveries.get(timeout=max(0.0, min([self._reload_at, *wakes]) - now))
        except Empty:
            return True
        if repository is None:
            return False
        for name, entry in self._sources.items():
            if _reads(entry, repository):
                self._debounces[name].changed(time.monotonic())
        return True

    def _reload(self, now: float) -> None:
        """Read the sources file. An invalid file is ignored."""
        self._reload_at = now + _RELOAD_SECONDS
        try:
            entries = SourcesFile.load(self._home.sources_file).entries
        except CatchmentError as error:
            before, self._last_error = self._last_error, str(error)
            if self._last_error != before:
                self._announce(f"sources.yaml not applied, serving as before: {error}")
            return
        self._last_error = ""
        repositories = {entry.name: entry for entry in entries if isinstance(entry.settings, GitHubSettings)}
        for name in repositories.keys() - self._sources.keys():
            hint = "" if repositories[name].watch else "; ignored until the source is added with --watch"
            self._announce(f"{name}: synced on deliveries for its repositories{hint}")
        self._sources = repositories
        self._debounces = {
            name: self._debounces.get(name) or Debounce(repositories[name].quiet) for name in repositories
        }

    def _request_sync(self, name: str, debounce: Debounce) -> None:
        try:
            status = self._server.status(self._sources[name].kind, name)
            if debounce.should_emit(time.monotonic(), status):
                self._server.emit(name)
                debounce.emitted(time.monotonic(), status)
        except TryAgain:
            debounce.failed(time.monotonic())


def is_served(home: Home) -> bool:
    """Whether a receiver of this home is running."""
    return any(map(_lives, home.run.glob("webhook-*.json")))


def _lives(report: Path) -> bool:
    try:
        return alive(json.loads(report.read_text(encoding="utf-8"))["receiver"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False


@contextmanager
def _reported(home: Home, port: int) -> Iterator[None]:
    # A home may have several receivers, one for the secret of each host.
    report = home.run / f"webhook-{port}.json"
    atomic_files.write(report, json.dumps({"receiver": identity()}).encode())
    try:
        yield
    finally:
        report.unlink(missing_ok=True)


def _reads(entry: SourceEntry, repository: str) -> bool:
    """Whether a source reads a repository. GitHub's names are case-insensitive."""
    assert isinstance(entry.settings, GitHubSettings)
    names = {name.lower() for name in entry.settings.repositories}
    return not names.isdisjoint({repository, f"{repository.partition('/')[0]}/*"})


class _Listener(ThreadingHTTPServer):
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._places = threading.BoundedSemaphore(_AT_ONCE)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in a thread; close it if all slots are in use."""
        if self._places.acquire(blocking=False):
            try:
                super().process_request(request, client_address)
            except RuntimeError:
                # The system has no more threads.
                self._places.release()
                raise
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Close the connection after the time limit, and release its slot at the end."""
        hang_up = threading.Timer(_SECONDS, _hang_up, (request,))
        hang_up.daemon = True
        try:
            hang_up.start()
            super().process_request_thread(request, client_address)
        finally:
            hang_up.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore lost connections."""


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _handler(deliver: Callable[[Mapping[str, str], bytes], int]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "catchment"
        sys_version = ""

        def do_POST(self) -> None:
            self.send_response(self._status())
            self.send_header("Content-Length", "0")
            self.send_header("Connection", "close")
            self.end_headers()

        def _status(self) -> int:
            announced = self.headers.get("Content-Length", "")
            if self.path.partition("?")[0] != PATH:
                return 404
            if not announced.isdecimal():
                return 411
            if (length := int(announced)) > _LONGEST:
                return 413
            body = self.rfile.read(length)
            if len(body) < length:
                return 400
            return deliver({name.lower(): value for name, value in self.headers.items()}, body)

        def log_message(self, *_: Any) -> None:
            """Log nothing: paths and addresses are private."""

    return Handler
