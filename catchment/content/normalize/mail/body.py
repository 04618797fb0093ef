"""Assemble the readable text of a message as Markdown: select its text parts and their best alternatives."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from catchment.charsets import codec_of
from catchment.content.normalize.decode import UNKNOWN_NAME, decode
from catchment.content.normalize.exchange.calendars import invitation
from catchment.content.normalize.mail import transport
from catchment.content.normalize.mail.alternatives import united
from catchment.content.normalize.mail.attachments import is_body
from catchment.content.normalize.mail.encrypted import signed_content, unarmored
from catchment.content.normalize.mail.html_body import all_words, page
from catchment.content.normalize.mail.mime import Part, parse_entity
from catchment.content.normalize.mail.replies import mark_replies

_MAX_TEXT = 20 * 1024 * 1024
_MAX_ATTACHED = 5
_ENRICHED = re.compile(r"<param>(?>(?:[^<]++|<(?!/?param>))*)(?:</param>|\Z)|</?[A-Za-z][^<>]{0,60}>", re.IGNORECASE)
_UUENCODED = re.compile(r"^begin [0-7]{3,4} (\S[^\n]{0,250})\n(?>(?:[!-`][ -`]{0,90}\n)+)end[ \t]*$", re.MULTILINE)
"""A file in a plain text, as programs wrote it before MIME."""
_REPORTS = frozenset(
    {
        "message/delivery-status",
        "message/disposition-notification",
        "message/feedback-report",
        "text/rfc822-headers",
    }
)
_NOTICES = {
    "message/partial": "this is one fragment of a message (message/partial)",
    "message/external-body": "a part is stored externally and was not fetched (message/external-body)",
}
_SMIME = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime"})
_PAGES = frozenset({"text/html", "text/x-amp-html"})
_SHOWN = ("from", "to", "date", "subject")


@dataclass
class ReadBody:
    """The text of a message, its protection (`OpenPGP`, `S/MIME` or ""), and warnings."""

    text: str = ""
    signed: str = ""
    encrypted: str = ""
    warnings: list[str] = field(default_factory=list)


def read(root: Part) -> ReadBody:
    """Return the text of a message, with quotations and signature marked."""
    body = ReadBody()
    body.text = mark_replies(_joined([_Reader(body, root, 0).text(root)]))
    body.warnings = list(dict.fromkeys(body.warnings))
    return body


class _Reader:
    """Reads the parts of one message. `depth` is the number of enclosing messages."""

    def __init__(self, body: ReadBody, root: Part, depth: int) -> None:
        self._body = body
        self._root = root
        self._depth = depth

    def text(self, part: Part) -> str:
        """Return the text of a part and the parts below it."""
        kind = part.media_type
        match kind:
            case "multipart/alternative":
                return self._alternative(part)
            case "multipart/related":
                return self._related(part)
            case "multipart/signed":
                return self._signed(part)
            case "multipart/encrypted":
                self._encrypted("OpenPGP")
                return ""
            case "message/rfc822" | "message/global":
                return self._attached(part)
        if part.parts:
            return _joined([self.text(inner) for inner in part.parts])
        if kind in _SMIME:
            return self._smime(part)
        if kind in _NOTICES:
            self._body.warnings.append(_NOTICES[kind])
            return self._plain(part)
        if kind in _REPORTS:
            return self._plain(part)
        if kind == "text/calendar":
            return invitation(self._plain(part))
        return self._leaf(part) if is_body(part, self._root) else ""

    def _alternative(self, part: Part) -> str:
        """Return the united forms of a text, or the first form if they agree; an invitation follows."""
        text, invitations = "", []
        for inner in part.parts:
            if _holds(inner, "text/calendar"):
                invitations.append(self.text(inner))
            elif inner.media_type not in _PAGES or not all_words(inner.content(), inner.charset) <= set(text.split()):
                text = united(text, self.text(inner))
        return _joined([text, *invitations])

    def _related(self, part: Part) -> str:
        """Return the root part first, then the text of other parts."""
        if not part.parts:
            return ""
        first = start(part)
        return _joined([self.text(inner) for inner in sorted(part.parts, key=lambda inner: inner is not first)])

    def _signed(self, part: Part) -> str:
        protocol = part.parameters.get("protocol", "").lower()
        self._body.signed = self._body.signed or ("OpenPGP" if "pgp" in protocol else "S/MIME")
        return self.text(part.parts[0]) if part.parts else ""

    def _encrypted(self, scheme: str) -> None:
        self._body.encrypted = scheme
        self._body.warnings.append(f"the message is encrypted ({scheme}); only its headers were read")

    def _smime(self, part: Part) -> str:
        if self._depth >= _MAX_ATTACHED:
            return ""
        inner = signed_content(part.content())
        if inner is None:
            self._encrypted("S/MIME")
            return ""
        self._body.signed = "S/MIME"
        tree = parse_entity(inner)
        return _Reader(self._body, tree.root, self._depth + 1).text(tree.root)

    def _attached(self, part: Part) -> str:
        """Return an attached message as a quotation with its main headers."""
        if self._depth >= _MAX_ATTACHED:
            self._body.warnings.append(f"attached messages more than {_MAX_ATTACHED} deep were omitted")
            return ""
        inner = part.parts[0]
        text = _Reader(self._body, inner, self._depth + 1).text(inner)
        head = [f"{name.title()}: {value}" for name in _SHOWN if (value := inner.header(name))]
        lines = [*head, "", *text.strip("\n").split("\n")] if text.strip() else head
        return "\n".join(f"> {line}" if line else ">" for line in lines)

    def _leaf(self, part: Part) -> str:
        if codec_of(part.charset or "") is None and UNKNOWN_NAME in decode(part.content(), part.charset).warnings:
            self._body.warnings.append(UNKNOWN_NAME)
        if part.media_type in _PAGES:
            if part.stop - part.start > _MAX_TEXT:
                self._body.warnings.append(f"the text is longer than {_MAX_TEXT >> 20} MB; the rest was omitted")
            return page(part.content()[:_MAX_TEXT], part.charset)
        text = self._plain(part)
        if part.media_type in ("text/enriched", "text/richtext"):
            return _ENRICHED.sub("", text.replace("<<", "\ue000")).replace("\ue000", "<")
        if part.parameters.get("format", "").lower() == "flowed":
            text = unflowed(text, part.parameters.get("delsp", "").lower() == "yes")
        text, files = _UUENCODED.subn(r"\1", text)
        if files:
            self._body.warnings.append("files in the text (uuencode) were not read; only their names are in the text")
        text, signed, encrypted = unarmored(text)
        self._body.signed = self._body.signed or signed
        if encrypted:
            self._body.encrypted = encrypted
            self._body.warnings.append(f"part of the text is encrypted ({encrypted}) and was not read")
        return text

    def _plain(self, part: Part) -> str:
        if not transport.is_known(part.encoding):
            self._body.warnings.append("a part has an unknown transport encoding and was read undecoded")
        data = part.content()
        if len(data) > _MAX_TEXT:
            self._body.warnings.append(f"the text is longer than {_MAX_TEXT >> 20} MB; the rest was omitted")
            data = data[:_MAX_TEXT]
        text = decode(data, part.charset).text
        if "\ufffd" in text:
            self._body.warnings.append("some characters are not valid in the declared charset")
        return text


def unflowed(text: str, delete_space: bool) -> str:
    """Join the lines of `format=flowed` text into paragraphs (RFC 3676). Quotations keep their depth."""
    out: list[str] = []
    depth_before, is_open = 0, False
    for line in text.split("\n"):
        content = line.lstrip(">")
        depth = len(line) - len(content)
        content = content.removeprefix(" ")
        if not is_open or depth != depth_before or content == "-- ":
            out.append("\n" + (f"{'>' * depth} " if depth else ""))
        is_open, depth_before = content.endswith(" ") and content != "-- ", depth
        out.append(content[:-1] if is_open and delete_space else content)
    return "".join(out)[1:]


def _holds(part: Part, kind: str) -> bool:
    """Return whether a part, or the first leaf of its start parts, has this type."""
    while part.parts and part.media_type != "message/rfc822":
        part = start(part)
    return part.media_type == kind


def start(part: Part) -> Part:
    """Return the root part of `multipart/related` (RFC 2387), or the first part of another multipart."""
    named = part.parameters.get("start", "").strip("<> ") if part.media_type == "multipart/related" else ""
    starts = (inner for inner in part.parts if named and inner.header("content-id").strip("<> ") == named)
    return next(starts, part.parts[0])


def _joined(texts: list[str]) -> str:
    return "\n\n".join(stripped for text in texts if (stripped := text.strip("\n")).strip())
