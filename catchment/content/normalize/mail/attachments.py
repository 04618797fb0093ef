"""Return the attachments of a message with their content, or the reason for skipping it.

Connectors make items of attachments. Archives are not unpacked here: the normalizer reads attachments like other files,
within the same limits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from catchment.content.normalize.formats import ENDINGS
from catchment.content.normalize.mail.mime import Part, is_message_file, parse, parse_entity
from catchment.errors import SkipReason
from catchment.model import RawContent

__all__ = ["Attachment", "attachments", "files", "inner", "is_body", "is_file", "is_message_file", "name_of", "single"]

MAX_BYTES = 50 * 1024 * 1024

_BODIES = frozenset({"text/plain", "text/html", "text/enriched", "text/richtext", "text/x-amp-html", "text/calendar"})
_DATA = frozenset(
    {"text/css", "text/directory", "text/javascript", "text/rfc822-headers", "text/rtf", "text/vcard", "text/x-vcard"}
)
"""Text types that are always attachments."""
_NOT_FILES = frozenset(
    {
        "application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature",
        "application/pgp-encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime", "application/applefile",
        "message/delivery-status", "message/disposition-notification", "message/feedback-report",
        "message/external-body", "message/partial", "text/rfc822-headers",
    }
)  # fmt: skip
MESSAGES = frozenset({"message/rfc822", "message/global"})
_NAMES = {kind: f".{ending}" for ending, kind in reversed(ENDINGS.items())}


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file in a message.

    `part` is its IMAP section ("2.1"), unique and stable within the message. `name` is the sender's file name without
    folders, or a name made from part and type. `size` (bytes) and `content_hash` (SHA-256, hexadecimal) refer to the decoded
    `data`. `is_inline`: the text refers to the file by `cid:` and `content_id`. If `skipped` is set, `data` and
    `content_hash` are empty, and `size` is an upper bound.
    """

    part: str
    name: str
    media_type: str
    size: int
    content_hash: str
    data: bytes
    is_inline: bool = False
    content_id: str = ""
    skipped: SkipReason | None = None

    def raw(self) -> RawContent:
        """Return the file as content to normalize. A file on disk with the same bytes is the same content."""
        return RawContent(self.data, self.name, media_type=self.media_type)


def attachments(message: bytes) -> Iterator[Attachment]:
    """Iterate over the files in a message in order, including those in attached messages. Files are decoded one at a time.

    An attached message is a file as well (`.eml`). At most 1 000 parts are read, and files above 50 MB are skipped. Raises
    ParseError if parts nest more than 100 deep. The result is deterministic.
    """
    tree = parse(message)
    return (_attachment(part) for part in files(tree.root))


def single(entity: bytes, part: str) -> Attachment:
    """Return the file in a part that was fetched separately: MIME header and body (`BODY[2.MIME]` and `BODY[2]`)."""
    return _attachment(parse_entity(entity, part).root)


def inner(entity: bytes, part: str) -> Iterator[Attachment]:
    """Iterate over the files inside an attached message that was fetched like `single`."""
    root = parse_entity(entity, part).root
    return (_attachment(file) for file in files(root) if file is not root)


def files(root: Part) -> list[Part]:
    """Return the parts of a message that are files."""
    sealed = {id(part) for outer in root.walk() if outer.media_type == "multipart/encrypted" for part in outer.walk()}
    return [part for part in root.walk() if _is_file(part, root) and id(part) not in sealed]


def name_of(part: Part) -> str:
    """Return the sender's name of a file, or else a name from part number and type."""
    if part.file_name:
        return part.file_name
    kind = "message" if part.media_type in MESSAGES else "attachment"
    ending = ".eml" if part.media_type in MESSAGES else _NAMES.get(part.media_type, "")
    return f"{kind}-{part.number}{ending}"


def is_body(part: Part, root: Part) -> bool:
    """Return whether a part is text of the message itself and not a file. A text root always is."""
    if part.parts:
        return False
    return _is_text(part.media_type, disposition=part.disposition, named=bool(part.file_name), is_root=part is root)


def is_file(media_type: str, *, disposition: str, named: bool, empty: bool, is_root: bool) -> bool:
    """Return whether a leaf part is a file, by its header. An attached message is a file."""
    if media_type in MESSAGES:
        return not is_root
    if media_type.startswith("multipart/") or media_type in _NOT_FILES:
        return False
    if media_type == "text/calendar" and not is_root:
        return True
    is_text = _is_text(media_type, disposition=disposition, named=named, is_root=is_root)
    return not is_text and not (empty and not named)


def _is_text(media_type: str, *, disposition: str, named: bool, is_root: bool) -> bool:
    """Return whether a part is text of the message itself. All other text parts are files, so no text is lost.

    Inline parts may have a file name (RFC 2183, 2.1; RFC 8621, 4.1.4). Unknown text types are plain text (RFC 2046, 4.1.4).
    """
    if media_type not in _BODIES and (not media_type.startswith("text/") or media_type in _DATA):
        return False
    if is_root:
        return True
    return disposition != "attachment" and (media_type in _BODIES or disposition == "inline" or not named)


def _is_file(part: Part, root: Part) -> bool:
    if part.parts and part.media_type not in MESSAGES:
        return False
    return is_file(
        part.media_type,
        disposition=part.disposition,
        named=bool(part.file_name),
        empty=part.start == part.stop,
        is_root=part is root,
    )


def _attachment(part: Part) -> Attachment:
    name, size = name_of(part), part.largest_size
    content_id = part.header("content-id").strip("<> ")
    is_inline = bool(content_id) and part.disposition != "attachment"
    if size > MAX_BYTES:
        return Attachment(
            part.number, name, part.media_type, size, "", b"", is_inline, content_id, SkipReason.TOO_LARGE
        )
    data = part.content()
    digest = hashlib.sha256(data).hexdigest()
    return Attachment(part.number, name, part.media_type, len(data), digest, data, is_inline, content_id)
