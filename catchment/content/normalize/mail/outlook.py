"""Convert Outlook message files (.msg): map the metadata from xberg to the properties of mail messages."""

from __future__ import annotations

from typing import Any

from catchment.content.normalize.language_detection import language
from catchment.content.normalize.mail import words
from catchment.content.normalize.mail.dates import moment
from catchment.model import Document

_PEOPLE = {"to": "to_emails", "cc": "cc_emails", "bcc": "bcc_emails"}


def outlook(metadata: Any, text: str, media_type: str) -> Document:
    """Return the message as a document. The subject is the title, the sender the author."""
    mail = metadata.format and metadata.format.email
    properties: dict[str, Any] = {}
    sender = _sender(mail, metadata.authors)
    if sender:
        properties["from"] = [sender]
    for name, attribute in _PEOPLE.items():
        if people := words.mailboxes(each.encode() for each in getattr(mail, attribute, None) or ()):
            properties[name] = people
    if identifiers := words.identifiers((getattr(mail, "message_id", None) or "").encode()):
        properties["message-id"] = identifiers[0]
    if attachments := getattr(mail, "attachments", ()):
        properties["attachment-names"] = list(attachments)
    sent = moment(metadata.created_at or "")
    return Document(
        text=text,
        media_type=media_type,
        title=words.text((metadata.subject or "").encode())[:1_000] or None,
        language=language(text),
        author=sender or None,
        created=sent,
        modified=sent,
        properties=dict(sorted(properties.items())),
    )


def _sender(mail: Any, authors: Any) -> str:
    """Return `Name <address>`; directory addresses of Exchange, which have no `@`, are omitted."""
    name = getattr(mail, "from_name", None) or next(iter(authors or ()), "")
    address = getattr(mail, "from_email", None) or ""
    if "@" not in address:
        return str(name or address)
    return f"{name} <{address}>" if name and name != address else str(address)
