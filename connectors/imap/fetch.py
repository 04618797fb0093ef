"""Read messages and attachments, many in one request, in the expected order."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import islice

from catchment.content.normalize.mail import letterhead
from catchment.content.normalize.mail.attachments import Attachment, attachments, inner, single
from catchment.errors import FetchFailed, Skipped, SkipReason, Vanished
from catchment.model import Item, RawContent
from connectors.imap.connection_pool import Pool
from connectors.imap.errors import ResponseTooLarge
from connectors.imap.names import MessageAddress, parse_locator

_AHEAD = 50
_AHEAD_BYTES = 4_000_000
_REMOVED = "no longer in its folder; the next sync checks whether it was moved or deleted"


class _ReadAhead(threading.local):
    """The items that a thread expects, and the messages that it has read already; `alone`: it reads only one at a time."""

    def __init__(self) -> None:
        self.expected: list[Item] = []
        self.bodies: dict[MessageAddress, bytes | None] = {}
        self.alone = False


class MessageReader:
    """Reads items. Each thread has its own expected items and its own cache."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._local = _ReadAhead()

    def expect(self, items: Sequence[Item]) -> None:
        """Announce the items that this thread will read next, in this order."""
        self._local.expected = list(items)
        self._local.bodies = {}
        self._local.alone = False

    def read(self, item: Item) -> RawContent:
        """Return one message or attachment. Raises Vanished, FetchFailed or Skipped."""
        address = parse_locator(item.locator)
        if address is None:
            raise FetchFailed("folder refused by the server; check its permissions")
        if address.part:
            return self._file(address, item)
        body = self._body(address)
        return RawContent(body, f"message-{address.uid}.eml", media_type="message/rfc822", modified=item.modified)

    def _file(self, address: MessageAddress, item: Item) -> RawContent:
        whole = address._replace(part="")
        file = None
        if whole in self._local.bodies or self._is_expected(whole):
            message = self._body(whole)
            file = next((file for file in attachments(message) if file.part == address.part), None)
        if file is None:
            message, file = self._part(address, item.attributes.get("within"))
        if file.skipped is not None:
            raise Skipped(file.skipped)
        arrived = item.modified and item.modified.isoformat()
        known = {
            "message-id": item.attributes.get("message_id"),
            "sent": arrived,
            **letterhead(message, file.media_type),
        }
        metadata = {name: value for name, value in known.items() if value}
        return RawContent(file.data, file.name, media_type=file.media_type, modified=item.modified, metadata=metadata)

    def _part(self, address: MessageAddress, within: str | None) -> tuple[bytes, Attachment]:
        """Return the header of a message and a file, from the attached message in part `within` if the server does not number
        the file."""
        part = within or address.part
        try:
            response = self._pool.in_folder(
                address.folder, address.validity, lambda session: session.part(address.uid, part)
            )
        except ResponseTooLarge:
            raise Skipped(SkipReason.TOO_LARGE) from None
        if response is None:
            raise Vanished(_REMOVED)
        header, entity = response
        if within is None:
            return header, single(entity, part)
        return header, next(file for file in inner(entity, part) if file.part == address.part)

    def _body(self, address: MessageAddress) -> bytes:
        if address not in self._local.bodies:
            self._local.bodies = self._read(address, self._ahead(address))
        body = self._local.bodies[address]
        if body is None:
            raise Vanished(_REMOVED)
        return body

    def _read(self, address: MessageAddress, ahead: Sequence[MessageAddress]) -> dict[MessageAddress, bytes | None]:
        """Read messages in one request; only the first if another turns out larger than announced. Raises Skipped."""
        uids = [message.uid for message in ahead]
        try:
            bodies = self._pool.in_folder(address.folder, address.validity, lambda session: session.bodies(uids))
        except ResponseTooLarge:
            if len(ahead) == 1:
                raise Skipped(SkipReason.TOO_LARGE) from None
            self._local.alone = True
            return self._read(address, [address])
        return {address: bodies.get(address.uid) for address in ahead}

    def _ahead(self, address: MessageAddress) -> list[MessageAddress]:
        """Return this message and the expected ones after it in its folder, up to the size of one request."""
        if self._local.alone:
            return [address]
        messages, size = [address], 0
        expected = self._local.expected
        places = [parse_locator(item.locator) for item in expected]
        start = places.index(address) if address in places else len(places)
        following = zip(expected[start:], places[start:], strict=True)
        for item, other in islice(following, _AHEAD * 4):
            size += 0 if other is None or other.part else item.size or 0
            if size > _AHEAD_BYTES or len(messages) >= _AHEAD:
                break
            if other is not None and not other.part and other != address and other[:2] == address[:2]:
                messages.append(other)
        return messages

    def _is_expected(self, address: MessageAddress) -> bool:
        return any(item.locator == address.locator for item in self._local.expected)
