"""A document set to be read: its text, the targets of its links, its conversation, its neighbours and its origin."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from catchment.content.extract.mail import stretches
from catchment.content.extract.vault import VaultIndex
from catchment.content.normalize.formats import ENDINGS, MAIL, NOTES, SOURCE_TEXT
from catchment.errors import NotFound
from catchment.ledger import Attached, ConversationMessage, Ledger, Named, Shown
from catchment.model import PART, LinkKind, outer_files
from catchment.records.rows import Copy
from catchment.runtime.home import Home
from catchment.views import documents, items
from catchment.views.documents import DocumentView
from catchment.views.items import ItemWhy
from catchment.views.versions import versions
from catchment.views.versions.versions import DocumentHistory, DocumentVersion

MOST_BACKLINKS = 500
"""Links from elsewhere that are resolved. An index page may have tens of thousands."""
_MOST_TARGETS = 1_000
_AROUND = 10
"""Messages before and after this one that are shown in full."""
_VERSIONS = 6
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/avif"})
"""Without SVG, which can contain scripts, and without types that browsers do not show."""


class TextKind(StrEnum):
    """How the text of a document is written."""

    NOTE = "note"
    """Markdown as a person wrote it: with HTML, and in Obsidian's dialect."""
    EXTRACTED = "extracted"
    """Markdown that the normalizer made from another format. HTML in it is text."""
    MAIL = "mail"
    """Lines of a message, with a few marks of Markdown if it was HTML."""
    SOURCE = "source"
    """Plain text, program code or another markup, line by line."""


class FileKind(StrEnum):
    """A type of file that a browser shows."""

    PICTURE = "picture"
    PDF = "pdf"


@dataclass(frozen=True, slots=True)
class MessageView:
    """The content of a message. `parts`: its text in order; True marks a quotation or a signature."""

    senders: tuple[str, ...]
    recipients: tuple[str, ...]
    copied: tuple[str, ...]
    parts: tuple[tuple[str, bool], ...]
    attached: tuple[Attached, ...]


@dataclass(frozen=True, slots=True)
class ReadMessage:
    """A message of a conversation.

    `view` has its text, people and attachments; None for messages far from the one that is read.
    """

    message: ConversationMessage
    view: MessageView | None


@dataclass(frozen=True, slots=True)
class ReadingView:
    """Everything that a reading page shows of a document.

    Attributes:
        shown: The document as the ledger has it.
        file: The type of its own file, if a browser shows it and `served_file` may return it.
        has_files: Whether `served_file` can return the files that its text embeds.
        targets: The documents that its links lead to, by the target as written. Targets without a document are missing.
        links_to, linked_from: The linked documents of the same source, each once; at most `MOST_BACKLINKS` links are resolved.
        has_more_links: Whether further links to it were not resolved.
        copies: The other documents with the same content.
        conversation: All messages of its conversation, oldest first, including itself; empty for other documents.
        history: Its latest versions.
        version: The version that is shown; None if it is the present one.
    """

    shown: Shown
    view: DocumentView
    kind: TextKind
    file: FileKind | None
    has_files: bool
    targets: Mapping[str, Named]
    links_to: tuple[Named, ...]
    linked_from: tuple[Named, ...]
    has_more_links: bool
    copies: tuple[Copy, ...]
    conversation: tuple[ReadMessage, ...]
    origin: ItemWhy
    history: DocumentHistory
    version: DocumentVersion | None


def reading(ledger: Ledger, home: Home, document: int, as_of: datetime | None = None) -> ReadingView:
    """Return a document set to be read, as it is or as it was at a time. Raises NotFound."""
    item = versions.item_of(ledger, document)
    version = None
    if as_of is None and item.document is None:
        raise NotFound(f"document {document}: deleted; open /documents/{document}/versions")
    if as_of is None:
        shown = ledger.library.document(document, mentions=MOST_BACKLINKS + 1)
    else:
        version, shown = versions.as_of(ledger, item.id, as_of)
    written = dict.fromkeys(link.target for link in shown.links if link.kind is not LinkKind.URL and link.target)
    targets = resolved(ledger, shown, list(written)[:_MOST_TARGETS])
    is_attached = PART in shown.item
    has_files = not is_attached and not _is_remote(shown)
    file = shown_as(shown.content.media_type) if is_attached else file_kind(shown.item) if has_files else None
    return ReadingView(
        shown=shown,
        view=documents.document(shown, version),
        kind=_kind(shown.content.media_type),
        file=file if version is None else None,
        has_files=has_files,
        targets=targets,
        links_to=tuple(each for each in _once(targets.values()) if each.document != document),
        linked_from=_linked_from(ledger, shown),
        has_more_links=len(shown.mentions) > MOST_BACKLINKS,
        copies=tuple(copy for copy in shown.copies if copy.document != document),
        conversation=_conversation(ledger, shown),
        origin=items.why(ledger, home, item, _iso),
        history=versions.history(ledger, item.id, _VERSIONS),
        version=version,
    )


def file_kind(name: str) -> FileKind | None:
    """Return whether a browser shows the file with this name, by its ending."""
    return shown_as(ENDINGS.get(name.rpartition(".")[2].lower(), ""))


def shown_as(media_type: str) -> FileKind | None:
    """Return whether a browser shows this media type."""
    if media_type in _PICTURES:
        return FileKind.PICTURE
    return FileKind.PDF if media_type == "application/pdf" else None


def _kind(media_type: str) -> TextKind:
    if media_type in NOTES:
        return TextKind.NOTE
    if media_type == MAIL:
        return TextKind.MAIL
    return TextKind.SOURCE if media_type in SOURCE_TEXT else TextKind.EXTRACTED


def resolved(ledger: Ledger, shown: Shown, targets: Collection[str]) -> dict[str, Named]:
    """Return the documents of the same source that links in a document lead to, by target as written."""
    called = _called(ledger, shown, targets)
    index = VaultIndex(called)
    paths = {target: index.resolve(target, _path(shown, shown.item)) for target in targets}
    return {target: called[path] for target, path in paths.items() if path in called}


def _linked_from(ledger: Ledger, shown: Shown) -> tuple[Named, ...]:
    """Return the documents with a link to this one: one by name alone leads to only one of the files with that name."""
    mentions = [(item, link) for item, link in shown.mentions[:MOST_BACKLINKS] if item != shown.item]
    if not mentions:
        return ()
    here = _path(shown, shown.item)
    index = VaultIndex({here, *_called(ledger, shown, [here])})
    linking = {item for item, link in mentions if index.resolve(link.target, _path(shown, item)) == here}
    return tuple(ledger.library.at(ledger.sources.get(shown.source).id, linking)) if linking else ()


def _called(ledger: Ledger, shown: Shown, paths: Collection[str]) -> dict[str, Named]:
    """Return the documents of the same source that may have the file names of these paths, and of their archives, by path."""
    names = [name.rpartition("/")[2] for path in paths for name in (path, *outer_files(path))]
    named_documents = ledger.library.called(ledger.sources.get(shown.source).id, names) if names else []
    return {_path(shown, named.locator): named for named in named_documents}


def _path(shown: Shown, locator: str) -> str:
    """Return the path of a file as links see it: in a repository, a colon follows the name of the repository."""
    return locator.replace(":", "/", 1) if _is_remote(shown) else locator


def _is_remote(shown: Shown) -> bool:
    """Return whether a document has an address on the web, so that it is no file on this machine."""
    return "url" in shown.metadata


def _once(documents: Iterable[Named]) -> Iterable[Named]:
    return {named.document: named for named in documents}.values()


def _conversation(ledger: Ledger, shown: Shown) -> tuple[ReadMessage, ...]:
    place = next((n for n, message in enumerate(shown.conversation) if message.document == shown.document), 0)
    near = shown.conversation[max(0, place - _AROUND) : place + _AROUND + 1]
    bodies = ledger.library.messages([message.document for message in near]) if near else {}
    views = {
        number: MessageView(*documents.people(body.content), tuple(stretches(body.content.text)), body.attached)
        for number, body in bodies.items()
    }
    return tuple(ReadMessage(message, views.get(message.document)) for message in shown.conversation)


def _iso(moment: datetime | None) -> str:
    return "later" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"
