"""The readable text of a message: which of its parts, in which of their forms, put together as Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from catchment.content.normalize.mail import words
from catchment.content.normalize.mail.attachments import is_body
from catchment.content.normalize.mail.calendar import invitation
from catchment.content.normalize.mail.encrypted import signed_content, unarmored
from catchment.content.normalize.mail.html import page
from catchment.content.normalize.mail.mime import Part, parse_entity
from catchment.content.normalize.mail.replies import apart

_MAX_TEXT = 20 * 1024 * 1024
_MAX_ATTACHED = 5
_ENRICHED = re.compile(r"<param>(?>(?:[^<]++|<(?!/?param>))*)(?:</param>|\Z)|</?[A-Za-z][^<>]{0,60}>", re.IGNORECASE)
_REPORTS = frozenset(
    {
        "message/delivery-status",
        "message/disposition-notification",
        "message/feedback-report",
        "text/rfc822-headers",
    }
)
_NOTICES = {
    "message/partial": "it is one piece of a message that was sent in several",
    "message/external-body": "a part of it is kept elsewhere, and was not fetched",
}
_SMIME = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime"})
_STUB = 300
_FAR_MORE = 3
_SHOWN = ("from", "to", "date", "subject")


@dataclass
class ReadBody:
    """The text of a message, and what was found out on the way."""

    text: str = ""
    signed: str = ""
    encrypted: str = ""
    warnings: list[str] = field(default_factory=list)

    def warn(self, warning: str) -> None:
        """Say once what was odd."""
        if warning not in self.warnings:
            self.warnings.append(warning)


def read(root: Part) -> ReadBody:
    """The text of a message: what was written, quoted and signed told apart."""
    found = ReadBody()
    found.text = apart(_joined([_Reader(found, root, 0).text(root)]))
    return found


class _Reader:
    """Reads the parts of one message; `depth` counts the messages around it."""

    def __init__(self, found: ReadBody, root: Part, depth: int) -> None:
        self._found = found
        self._root = root
        self._depth = depth

    def text(self, part: Part) -> str:
        """What a part and those below it say."""
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
            self._found.warn(_NOTICES[kind])
            return self._plain(part)
        if kind in _REPORTS:
            return self._plain(part)
        if kind == "text/calendar":
            return invitation(self._plain(part))
        return self._leaf(part) if is_body(part, self._root) else ""

    def _alternative(self, part: Part) -> str:
        """The plain form, unless the page says far more; an invitation is added to either."""
        forms = [(inner, self.text(inner)) for inner in part.parts if not _holds(inner, "text/html")]
        plain = _joined([said for inner, said in forms if not _holds(inner, "text/calendar")])
        invited = _joined([said for inner, said in forms if _holds(inner, "text/calendar")])
        if len(plain) < _STUB:
            pages = [said for inner in part.parts if _holds(inner, "text/html") and (said := self.text(inner))]
            if pages and (not plain.strip() or len(pages[-1]) > _FAR_MORE * len(plain) + 100):
                plain = pages[-1]
        return _joined([plain, invited])

    def _related(self, part: Part) -> str:
        """The part that the others belong to, and any further text."""
        if not part.parts:
            return ""
        first = _start(part)
        return _joined([self.text(inner) for inner in sorted(part.parts, key=lambda inner: inner is not first)])

    def _signed(self, part: Part) -> str:
        protocol = part.parameters.get("protocol", "").lower()
        self._found.signed = self._found.signed or ("OpenPGP" if "pgp" in protocol else "S/MIME")
        return self.text(part.parts[0]) if part.parts else ""

    def _encrypted(self, how: str) -> None:
        self._found.encrypted = how
        self._found.warn(f"the message is encrypted ({how}); only its headers can be read")

    def _smime(self, part: Part) -> str:
        if self._depth >= _MAX_ATTACHED:
            return ""
        inner = signed_content(part.content())
        if inner is None:
            self._encrypted("S/MIME")
            return ""
        self._found.signed = "S/MIME"
        tree = parse_entity(inner)
        return _Reader(self._found, tree.root, self._depth + 1).text(tree.root)

    def _attached(self, part: Part) -> str:
        """A message in the message, quoted, with the headers that say where it is from."""
        if self._depth >= _MAX_ATTACHED:
            self._found.warn(f"it holds messages within messages; those more than {_MAX_ATTACHED} deep were left out")
            return ""
        inner = part.parts[0]
        said = _Reader(self._found, inner, self._depth + 1).text(inner)
        head = [f"{name.title()}: {value}" for name in _SHOWN if (value := inner.header(name))]
        lines = [*head, "", *said.strip("\n").split("\n")] if said.strip() else head
        return "\n".join(f"> {line}" if line else ">" for line in lines)

    def _leaf(self, part: Part) -> str:
        if part.media_type in ("text/html", "text/x-amp-html"):
            if part.stop - part.start > _MAX_TEXT:
                self._found.warn("its text is very long; the rest was left out")
            return page(part.content()[:_MAX_TEXT], part.charset)
        text = self._plain(part)
        if part.media_type in ("text/enriched", "text/richtext"):
            return _ENRICHED.sub("", text.replace("<<", "\ue000")).replace("\ue000", "<")
        if part.parameters.get("format", "").lower() == "flowed":
            text = unflowed(text, part.parameters.get("delsp", "").lower() == "yes")
        text, signed, encrypted = unarmored(text)
        self._found.signed = self._found.signed or signed
        if encrypted:
            self._found.encrypted = encrypted
            self._found.warn(f"text in the message is encrypted ({encrypted}) and cannot be read")
        return text

    def _plain(self, part: Part) -> str:
        if not part.is_encoding_known:
            self._found.warn("the transport encoding of a part is unknown; it was read as it is")
        data = part.content()
        if len(data) > _MAX_TEXT:
            self._found.warn("its text is very long; the rest was left out")
            data = data[:_MAX_TEXT]
        text = words.decoded(data, part.charset)
        if "\ufffd" in text:
            self._found.warn("some characters cannot be read in the encoding that the message says")
        return text


def unflowed(text: str, delete_space: bool) -> str:
    """Lines that were broken to fit (RFC 3676) as the paragraphs that they were; quotations keep their depth."""
    out: list[str] = []
    depth_before, is_open = 0, False
    for line in text.split("\n"):
        said = line.lstrip(">")
        depth = len(line) - len(said)
        said = said.removeprefix(" ")
        if not is_open or depth != depth_before or said == "-- ":
            out.append("\n" + (f"{'>' * depth} " if depth else ""))
        is_open, depth_before = said.endswith(" ") and said != "-- ", depth
        out.append(said[:-1] if is_open and delete_space else said)
    return "".join(out)[1:]


def _holds(part: Part, kind: str) -> bool:
    """Whether a form of the text is of this type, or begins with it."""
    while part.parts and part.media_type != "message/rfc822":
        part = _start(part)
    return part.media_type == kind or (kind == "text/html" and part.media_type == "text/x-amp-html")


def _start(part: Part) -> Part:
    """Its first part, or that which it names as the one that the others belong to (RFC 2387)."""
    named = part.parameters.get("start", "").strip("<> ") if part.media_type == "multipart/related" else ""
    starts = (inner for inner in part.parts if named and inner.header("content-id").strip("<> ") == named)
    return next(starts, part.parts[0])


def _joined(texts: list[str]) -> str:
    return "\n\n".join(stripped for text in texts if (stripped := text.strip("\n")).strip())
