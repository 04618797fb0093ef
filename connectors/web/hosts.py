"""Requests to many hosts at once: each host one request at a time, at its own pace, under its robots.txt.

If a host refuses, throttles or is missing, a listing sends no further requests to it, and continues with the other hosts. All
sources share the pace, which decides when the next request to the host is allowed.
"""

from __future__ import annotations

import heapq
import queue
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import urljoin

from catchment.contracts import Parse
from catchment.errors import (
    AccessDenied,
    CatchmentError,
    FailureClass,
    FetchFailed,
    ItemError,
    RateLimited,
    Skipped,
    SkipReason,
    SourceUnavailable,
    Unexpected,
    split_remedy,
)
from catchment.model import HOST, AwayHost
from catchment.pacing import HostLimits, Pace
from connectors.web.address import host_of
from connectors.web.client import HostSilent, WebClient, WebResponse
from connectors.web.looks import leads_to
from connectors.web.marks import WebMarks
from connectors.web.network import HostNotAllowed
from connectors.web.robots import verdict
from connectors.web.settings import WebSettings
from connectors.web.store import ResponseStore, StoredResponse

_AT_ONCE = 32
_TRIES = 3
"""Failures in a row after which a listing skips a host. A host that is silent or backed off gets no second try."""
_SHORT_WAIT = 120.0
"""Seconds that a listing waits if a host requests a pause. After a longer pause, a later listing continues."""
_ROBOTS_RETRY = 1_800.0
"""Seconds until the next request for a robots.txt that cannot be read."""
_REFRESH = re.compile(rb"http-equiv\s*=\s*[\"']?\s*refresh", re.IGNORECASE)
_HEAD_BYTES = 1 << 16
_ROBOTS = "/robots.txt"
_ROBOTS_AGE = timedelta(days=1)
"""RFC 9309, 2.4."""


class RobotsForbid(Skipped):
    """The robots.txt of the host excludes the address."""

    def __init__(self) -> None:
        super().__init__(SkipReason.EXCLUDED)

    def __str__(self) -> str:
        return "the robots.txt of the host forbids this address; give another one"


class PageRequest(NamedTuple):
    """A request for an address, conditional if `etag` or `modified` are given (see `WebClient.get`)."""

    address: str
    etag: str | None = None
    modified: str | None = None
    validated: str | None = None


class HostAway(FetchFailed):
    """This listing skips the host: the address was not requested, or got no response."""

    def __init__(self, host: AwayHost) -> None:
        super().__init__(host)
        self.host = host

    def __str__(self) -> str:
        since = f"since {self.host.since:%Y-%m-%d}"
        return f"{self.host.host}: does not answer {since} ({self.host.problem}); it is asked again, ever later"


class NoSuchAddress(FetchFailed):
    """The host has no such address: status 404 or 410, or an error page with status 200."""

    failure_class = FailureClass.PERMANENT

    @classmethod
    def of_status(cls, address: str, status: int) -> NoSuchAddress:
        """Return the error for a response with this status."""
        return cls(f"{host_of(address)}: no such address (HTTP status {status})")


Outcome = tuple[str, WebResponse | ItemError]
"""An address, and its response or error."""


@dataclass
class _Line:
    """The requests that wait for one host."""

    host: str
    requests: deque[PageRequest] = field(default_factory=deque)
    sent_at: float = 0.0
    """Monotonic seconds at which the latest request was sent."""
    failures: int = 0


class Hosts:
    """The hosts of a source: their client, robots.txt and pace."""

    def __init__(
        self,
        settings: WebSettings,
        pace: Callable[[], Pace],
        parse: Callable[[], Parse],
        store: ResponseStore,
        clock: Callable[[], datetime],
    ) -> None:
        self._every = settings.every_seconds
        self._pace = pace
        self._parse = parse
        self._store = store
        self._clock = clock
        self._delays: dict[str, float] = {}
        self._client = WebClient(settings.allowed, pace, self._limits, contact=settings.contact, refresh=self._leads_to)

    def get(self, request: PageRequest) -> WebResponse:
        """Ask for an address under the robots.txt of its host. Raises as `WebClient.get`, and RobotsForbid."""
        with self._pace().intake():
            return self._client.get(*request)

    def close(self) -> None:
        self._client.close()

    def every(self, address: str) -> float:
        """Return the seconds between two requests to the host: the setting, or a longer delay in its robots.txt, if known."""
        return max(self._every, self._delays.get(urljoin(address, _ROBOTS), 0))

    def _leads_to(self, response: WebResponse, header: str) -> str:
        """Return the address to which a page leads at once, or ""."""
        body, kind = response.body, response.media_type
        if (body and "html" not in kind) or not (header or _REFRESH.search(body[:_HEAD_BYTES])):
            return ""
        try:
            return self._parse()(leads_to, body, kind, response.charset, response.address, header)
        except ItemError:  # its job reports that it cannot be parsed
            return ""

    def _limits(self, address: str) -> HostLimits:
        """Return the limits of the host of an address, after reading its robots.txt. Raises RobotsForbid."""
        place = urljoin(address, _ROBOTS)
        if address != place and (robots := self._robots_of(place)):
            try:
                rules = self._parse()(verdict, robots, address)
            except ItemError:
                raise SourceUnavailable(f"{host_of(address)}: its robots.txt cannot be read", _ROBOTS_RETRY) from None
            self._delays[place] = rules.delay or 0
            if not rules.allows:
                raise RobotsForbid
        return self._limits_without_robots(address)

    def _limits_without_robots(self, address: str) -> HostLimits:
        return HostLimits(host_of(address), every=self.every(address))

    def _robots_of(self, place: str) -> bytes:
        now, stored_robots = self._clock(), self._store.get(place)
        if stored_robots is None or now - stored_robots.asked > _ROBOTS_AGE:
            stored_robots = StoredResponse(place, now, WebResponse(body=self._read_robots(place)))
            self._store.put(stored_robots)
        return stored_robots.response.body

    def _read_robots(self, place: str) -> bytes:
        """Return the rules, empty if the host has none. Raises SourceUnavailable if they cannot be read now."""
        try:
            # Rules that lead elsewhere need no rules for that place (RFC 9309, 2.3.1.2).
            response = self._client.get(place, limits=self._limits_without_robots)
        except (AccessDenied, HostNotAllowed):
            return b""
        except ItemError:
            problem = f"{host_of(place)}: its robots.txt cannot be read; it is asked again later"
            raise SourceUnavailable(problem, _ROBOTS_RETRY) from None
        return response.body if response.status == 200 else b""


class HostQueues:
    """The requests of one listing, a line for each host.

    Args:
        marks: The marks of the source, with those of hosts that do not answer.
        is_over: Returns whether no further request may be sent.
    """

    def __init__(
        self, hosts: Hosts, marks: WebMarks, clock: Callable[[], datetime], is_over: Callable[[], bool]
    ) -> None:
        self.retry_times: dict[str, datetime] = {}
        """The hosts that this listing skips, with the earliest time of the next request."""
        self.errors: dict[str, SourceUnavailable | RateLimited] = {}
        """Why it skips them."""
        self._marks = marks
        self._hosts = hosts
        self._clock = clock
        self._is_over = is_over
        self._lines: dict[str, _Line] = {}
        self._heap: list[tuple[float, int, _Line]] = []
        self._number = 0
        self._unsent: list[tuple[PageRequest, HostAway]] = []
        self._running = 0
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="web")
        self._results: queue.SimpleQueue[tuple[_Line, PageRequest, WebResponse | CatchmentError]] = queue.SimpleQueue()

    def add(self, request: PageRequest) -> None:
        """Append a request to the line of its host. May be called while `outcomes` runs."""
        host = host_of(request.address)
        if host in self.retry_times:
            self._unsent.append((request, self._away(host)))
            return
        if host not in self._lines:
            self._lines[host] = _Line(host)
            self._push(self._lines[host], 0)
        self._lines[host].requests.append(request)

    def outcomes(self) -> Iterator[Outcome | None]:
        """Yield the outcome of each request, and None every second without one. Ends with the last request; may be repeated.

        Requests that are left when the time is over have no outcome.
        """
        while self._running or self._unsent or any(line.requests for line in self._lines.values()):
            while self._unsent:
                request, absence = self._unsent.pop()
                yield request.address, absence
            self._send_due()
            if not self._running and self._is_over():
                return
            wait = self._heap[0][0] - time.monotonic() if self._heap else 1.0
            try:
                line, request, result = self._results.get(timeout=min(max(wait, 0.005), 1.0))
            except queue.Empty:
                yield None
                continue
            self._running -= 1
            if (outcome := self._outcome(line, request, result)) is not None:
                yield request.address, outcome

    def close(self) -> None:
        """Send no further request. Requests under way end in the background."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _push(self, line: _Line, seconds: float) -> None:
        self._number += 1
        heapq.heappush(self._heap, (time.monotonic() + seconds, self._number, line))

    def _send_due(self) -> None:
        now = time.monotonic()
        while self._heap and self._heap[0][0] <= now and self._running < _AT_ONCE and not self._is_over():
            _, _, line = heapq.heappop(self._heap)
            if not line.requests:
                del self._lines[line.host]
                continue
            self._running += 1
            line.sent_at = now
            self._pool.submit(self._exchange, line, line.requests.popleft())

    def _exchange(self, line: _Line, request: PageRequest) -> None:
        result: WebResponse | CatchmentError
        try:
            result = self._hosts.get(request)
        except CatchmentError as error:
            result = error
        except Exception as error:  # noqa: BLE001 A defect ends the listing, not the thread that waits for it.
            result = Unexpected.of(error)
        self._results.put((line, request, result))

    def _outcome(
        self, line: _Line, request: PageRequest, result: WebResponse | CatchmentError
    ) -> WebResponse | ItemError | None:
        """Schedule the next request to the host. Return the outcome of this request; None if it is sent again."""
        if not isinstance(result, SourceUnavailable | RateLimited):
            if not isinstance(result, WebResponse | ItemError):
                raise result
            line.failures = 0
            if not isinstance(result, Skipped):
                self._marks.set(HOST + line.host, None)
            self._push(line, line.sent_at + self._hosts.every(request.address) - time.monotonic())
            return result
        line.failures += 1
        wait = result.retry_after or 0
        is_short = wait <= _SHORT_WAIT if isinstance(result, RateLimited) else not wait
        if line.failures < _TRIES and is_short and not isinstance(result, HostSilent):
            line.requests.append(request)
            self._push(line, max(wait, self._hosts.every(request.address)))
            return None
        self.retry_times[line.host] = self._clock() + timedelta(seconds=wait)
        self.errors[line.host] = result
        absence = self._away(line.host)
        self._unsent += [(unsent, absence) for unsent in line.requests]
        del self._lines[line.host]
        return absence

    def _away(self, host: str) -> HostAway:
        error, away = self.errors[host], AwayHost.of(host, self._marks.get(HOST + host) or self._clock().isoformat())
        if not away.problem or not error.retry_after:  # else no request was sent, because of the failures before
            away = replace(away, problem=split_remedy(str(error))[0].removeprefix(f"{host}: "))
        self._marks.set(HOST + host, f"{away.since.isoformat()} {away.problem}")
        if isinstance(error, SourceUnavailable):
            self.errors[host] = SourceUnavailable(f"{host}: {away.problem}; check its address and the network")
        return HostAway(away)
