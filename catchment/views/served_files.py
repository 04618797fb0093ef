"""Pictures and PDF files for a browser: the file of a document, or a file that its text embeds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from catchment.content.normalize.formats import media_type
from catchment.content.parts.listing import OpenContainer, container_in, read_part
from catchment.content.pictures.drawing import page_picture
from catchment.content.raw_store import RawStore
from catchment.errors import ItemError, NotFound, Vanished
from catchment.ledger import Ledger, Shown
from catchment.model import PART, PARTS, Item, LinkKind, RawContent
from catchment.parser_pool import ParserPool
from catchment.records.rows import ItemRow
from catchment.runtime.files_below import open_below, open_folder
from catchment.runtime.home import Home
from catchment.settings import Limits
from catchment.views import reading
from catchment.views.hosts import elsewhere
from catchment.views.resolver import Settings

T = TypeVar("T")

MOST_BYTES = 20_000_000
_CHUNK = 1 << 20
_SHOWN_PIXELS = 1_600
_EMBEDS = (LinkKind.EMBED, LinkKind.CANVAS)


@dataclass(frozen=True, slots=True)
class ServedFile:
    """A picture or PDF. `media_type` follows from the bytes, not from the name."""

    name: str
    media_type: str
    data: bytes


def served_file(home: Home, ledger: Ledger, settings: Settings, document: int, embed: str | None = None) -> ServedFile:
    """Return the file of a document, or the file that its text embeds with this target.

    An attached file comes from the raw content. Reads only below the folder of a source with consent, and follows no links.
    Raises NotFound, also if the file is missing, larger than `MOST_BYTES`, neither a picture nor a PDF, or on another host.
    """
    shown = ledger.library.document(document, mentions=0)
    if embed is None:
        return _served(*own_file(home, ledger, settings, shown, MOST_BYTES), _missing(document))
    item, root = _embedded(ledger, shown, embed), _root(ledger, settings, shown.source)
    if item is None or root is None or reading.file_kind(item) is None:
        raise _missing(document)
    return _served(item.rpartition("/")[2], _read(root, item, MOST_BYTES, _missing(document)), _missing(document))


def own_file(home: Home, ledger: Ledger, settings: Settings, shown: Shown, most_bytes: int) -> tuple[str, bytes]:
    """Return name and content of the file of a document on this machine, with at most one byte more than `most_bytes`.

    A file outside of a folder comes from the raw content. Reads only below the folder of a source with consent, and follows no
    links. Raises NotFound, also if the file is on another host.
    """
    if PARTS in shown.item and (row := ledger.intake.of_document(shown.document)) and row.container.endswith(PARTS):
        return _part(ledger, settings, shown, row, most_bytes)
    if PART in shown.item:
        if (raw := _in_raw_content(home, ledger, shown, RawStore.get)) is None:
            raise NotFound(f"document {shown.document}: its file is not kept here; open it in its message")
        return raw.name, raw.data
    if (root := _root(ledger, settings, shown.source)) is None:
        if raw := _in_raw_content(home, ledger, shown, RawStore.get):
            return raw.name, raw.data
        if host := elsewhere(home, shown.source):
            raise NotFound(f"document {shown.document}: its file is on {host}; open it there")
        raise _missing(shown.document)
    return shown.item.rpartition("/")[2], _read(root, shown.item, most_bytes, _missing(shown.document))


def _part(ledger: Ledger, settings: Settings, shown: Shown, row: ItemRow, most_bytes: int) -> tuple[str, bytes]:
    """Return name and content of a part of a file. A parser process reads it."""
    root, missing = _root(ledger, settings, shown.source), _missing(shown.document)
    if root is None:
        raise missing
    carrier, path = row.container.removesuffix(PARTS), row.locator.removeprefix(row.container)
    try:
        with ParserPool(1) as pool:
            raw = pool.call(Limits(), part_of_file, root, carrier, path, most_bytes)
    except ItemError as error:
        raise missing from error
    return raw.name, raw.data


def part_of_file(root: Path, carrier: str, path: str, most_bytes: int) -> RawContent:
    """Return a part of a file below a folder. Runs in a parser process. Raises ItemError."""
    try:
        handle = open_below(open_folder(root), carrier)
    except OSError as error:
        raise Vanished("the file is not there") from error
    with open(handle, "rb") as file:  # noqa: PTH123 - a handle, not a path
        return read_part(OpenContainer(*container_in(RawContent(b"", carrier), file)), path, most_bytes)


def _missing(document: int) -> NotFound:
    return NotFound(f"document {document}: has no such picture or PDF")


def drawn_page(home: Home, ledger: Ledger, settings: Settings, document: int, page: int) -> ServedFile:
    """Return a recognized page of a document as a PNG, upright. A parser process draws it. Raises NotFound or ItemError."""
    shown = ledger.library.document(document, mentions=0)
    read = ledger.recognition.texts({shown.content_hash}).get(shown.content_hash, {}).get(page)
    if read is None:
        raise NotFound(f"document {document}: page {page} has no recognized text")
    _, data = own_file(home, ledger, settings, shown, MOST_BYTES)
    with ParserPool(1) as pool:
        png = pool.call(Limits(), page_picture, data, shown.content.media_type, page, read.turn, _SHOWN_PIXELS)
    return ServedFile(f"{page}.png", "image/png", png)


def keeps_file(home: Home, ledger: Ledger, shown: Shown) -> bool:
    """Return whether the raw content of an attached file is kept on this machine. Does not read it."""
    return bool(_in_raw_content(home, ledger, shown, lambda raw, number, item: raw.holds({number: item})))


def _in_raw_content(home: Home, ledger: Ledger, shown: Shown, look: Callable[[RawStore, int, Item], T]) -> T | None:
    """Look for an attached file in the raw content. Returns None if its source has no consent, or no raw content is kept."""
    row = ledger.intake.of_document(shown.document)
    if row is None or not home.raw.exists() or not ledger.consents.agreed(shown.source):
        return None
    with closing(RawStore(home.raw, home.raw_bytes)) as raw:
        return look(raw, row.id, Item(row.locator, row.container, row.version, row.identity))


def _served(name: str, data: bytes, missing: NotFound) -> ServedFile:
    kind = media_type(data[:_CHUNK], "")  # without the name, which would decide for a text
    if len(data) > MOST_BYTES or reading.shown_as(kind) is None:
        raise missing
    return ServedFile(name, kind, data)


def _embedded(ledger: Ledger, shown: Shown, embed: str) -> str | None:
    if not any(link.target == embed and link.kind in _EMBEDS for link in shown.links):
        return None
    documents = reading.resolved(ledger, shown, [embed])
    return documents[embed].locator if embed in documents else None


def _root(ledger: Ledger, settings: Settings, source: str) -> Path | None:
    configured = settings().get(source) if ledger.consents.agreed(source) else None
    root = getattr(configured, "root", None)
    return root if isinstance(root, Path) else None


def _read(root: Path, path: str, most_bytes: int, missing: NotFound) -> bytes:
    """Return the content of a file; one byte more than the maximum if it is larger."""
    try:
        handle = open_below(open_folder(root), path)
    except OSError as error:
        raise missing from error
    with open(handle, "rb") as file:  # noqa: PTH123 - a handle, not a path
        return file.read(most_bytes + 1)
