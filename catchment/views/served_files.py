"""Pictures and PDF files for a browser: the file of a document, or a file that its text embeds."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from catchment.content.normalize.formats import media_type
from catchment.content.raw_store import RawStore
from catchment.errors import NotFound
from catchment.ledger import Ledger, Shown
from catchment.model import PART, Item, LinkKind
from catchment.runtime.files_below import open_below, open_folder
from catchment.runtime.home import Home
from catchment.views import reading
from catchment.views.hosts import elsewhere
from catchment.views.resolver import Settings

T = TypeVar("T")

MOST_BYTES = 20_000_000
_CHUNK = 1 << 20
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
    missing = NotFound(f"document {document}: has no such picture or PDF")
    item = shown.item if embed is None else _embedded(ledger, shown, embed)
    root = _root(ledger, settings, shown.source)
    if root is None and (host := elsewhere(home, shown.source)):
        raise NotFound(f"document {document}: its file is on {host}; open it there")
    if embed is None and PART in shown.item:
        if (raw := _in_raw_content(home, ledger, shown, RawStore.get)) is None:
            raise NotFound(f"document {document}: its file is not kept here; open it in its message")
        return _served(raw.name, raw.data, missing)
    if item is None or root is None or PART in item or reading.file_kind(item) is None:
        raise missing
    try:
        data = _read(root, item)
    except OSError as error:
        raise missing from error
    return _served(item.rpartition("/")[2], data, missing)


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


def _read(root: Path, path: str) -> bytes:
    """Return the content of a file; one byte more than the maximum if it is larger. Raises OSError."""
    handle = open_below(open_folder(root), path)
    with open(handle, "rb") as file:  # noqa: PTH123 - a handle, not a path
        return b"" if os.fstat(handle).st_size > MOST_BYTES else file.read(MOST_BYTES + 1)
