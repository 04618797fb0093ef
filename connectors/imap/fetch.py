"""How messages and files are read: many in one request, in the order in which they will be asked for."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import islice

from catchment.content.normalize.mail.attachments import Attachment, attachments, single
from catchment.errors import FetchFailed, Skipped, Vanished
from catchment.model import Item, RawContent, SkipReason
from connectors.imap.errors import ResponseTooLarge
from connectors.imap.names import MessagePlace, place
from connectors.imap.pool import Request
from connectors.imap.session import ImapSession

_AHEAD = 50
_AHEAD_BYTES = 4_000_000
_GONE = "it is not in its folder any more; the next sync decides what that means"


class MessageReader:
    """Reads items. Each thread has an expectation and a memory of its own."""

    def __init__(self, ask: Request) -> None:
        self._ask = ask
        self._mine = threading.local()

    def expect(self, items: Sequence[Item]) -> None:
        """These are asked for next, in this order."""
        self._mine.expected = list(items)
        self._mine.bodies = {}
        self._mine.alone = False

    def read(self, item: Item) -> RawContent:
        """One message or file. Raises Vanished, FetchFailed or Skipped."""
        at = place(item.locator)
        if at is None:
            raise FetchFailed("the server refused to open this folder; see whether it may be read")
        if at.part:
            return self._file(at, item)
        body = self._body(at)
        return RawContent(body, f"message-{at.uid}.eml", media_type="message/rfc822", modified=item.modified)

    def _file(self, at: MessagePlace, item: Item) -> RawContent:
        whole = at._replace(part="")
        if whole in self._bodies or self._is_expected(whole):
            found = next((file for file in attachments(self._body(whole)) if file.part == at.part), None)
        else:
            found = None
        file = found or self._part(at)
        if file.skipped is not None:
            raise Skipped(file.skipped)
        told = {"message-id": said} if (said := item.attributes.get("message_id")) else {}
        return RawContent(file.data, file.name, media_type=file.media_type, modified=item.modified, metadata=told)

    def _part(self, at: MessagePlace) -> Attachment:
        def question(session: ImapSession) -> bytes | None:
            session.open(at.folder, at.validity)
            return session.part(at.uid, at.part)

        try:
            entity = self._ask(question)
        except ResponseTooLarge:
            raise Skipped(SkipReason.TOO_LARGE) from None
        if entity is None:
            raise Vanished(_GONE)
        return single(entity, at.part)

    def _body(self, at: MessagePlace) -> bytes:
        if at not in self._bodies:
            self._mine.bodies = self._read(at, self._ahead(at))
        body = self._bodies[at]
        if body is None:
            raise Vanished(_GONE)
        return body

    def _read(self, at: MessagePlace, ahead: Sequence[MessagePlace]) -> dict[MessagePlace, bytes | None]:
        """The messages, or the first alone if a larger one than the server said is among them. Raises Skipped."""

        def question(session: ImapSession) -> dict[int, bytes]:
            session.open(at.folder, at.validity)
            return session.bodies([place.uid for place in ahead])

        try:
            bodies = self._ask(question)
        except ResponseTooLarge:
            if len(ahead) == 1:
                raise Skipped(SkipReason.TOO_LARGE) from None
            self._mine.alone = True
            return self._read(at, [at])
        return {place: bodies.get(place.uid) for place in ahead}

    def _ahead(self, at: MessagePlace) -> list[MessagePlace]:
        """This message, and as many of those expected after it in its folder as one request should bring."""
        if getattr(self._mine, "alone", False):
            return [at]
        found, size = [at], 0
        expected: list[Item] = getattr(self._mine, "expected", [])
        places = [place(item.locator) for item in expected]
        start = places.index(at) if at in places else len(places)
        following = zip(expected[start:], places[start:], strict=True)
        for item, other in islice(following, _AHEAD * 4):
            size += 0 if other is None or other.part else item.size or 0
            if size > _AHEAD_BYTES or len(found) >= _AHEAD:
                break
            if other is not None and not other.part and other != at and other[:2] == at[:2]:
                found.append(other)
        return found

    def _is_expected(self, at: MessagePlace) -> bool:
        return any(item.locator == at.locator for item in getattr(self._mine, "expected", []))

    @property
    def _bodies(self) -> dict[MessagePlace, bytes | None]:
        bodies: dict[MessagePlace, bytes | None] = getattr(self._mine, "bodies", {})
        return bodies
