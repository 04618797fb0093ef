"""What happens to one item inside a parser process: read it, understand it, take it apart. Pure functions of their task."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Literal, cast

import orjson

from catchment.content.codec import decode_document, encode_document, encode_extraction, moment
from catchment.content.extract import EXTRACTOR, extract
from catchment.content.normalize import NORMALIZER, kind_of, normalize
from catchment.content.secret_masking import mask, masked
from catchment.contracts import Connector
from catchment.model import Document, Item, RawContent

Content = tuple[str, str]
"""The hash of some bytes, and the code and the media type that they are read with; equal ones are one content."""


@dataclass(frozen=True, slots=True)
class ReadTask:
    """An item to read: through a pickled connector, or as the bytes that were fetched already.

    `known` is the content that the library holds of this item; the same content is not parsed again.
    """

    item: Item
    connector: bytes
    raw: RawContent | None = None
    known: Content | None = None


FORMAT = 3
"""The version of the cache's entries: changes with the parts of an encoded `Read`, and with how the cache keeps it."""

Fate = Literal["hashed", "parsed", "unchanged", "stored"]


@dataclass(frozen=True, slots=True)
class Read:
    """An item as it was read.

    `fate` is `parsed` (there is a document), `unchanged` (the item's content is the known one), `stored` (another item has
    brought the same content into the library already) or `hashed` (not decided yet). `normalizer` names the code and the
    media type that the content was read with: the same bytes are another document as another type. `title` is what the
    source or else the content calls it, "" where neither does; then it is called after `name`. `document` is encoded.
    """

    content_hash: str
    normalizer: str
    title: str
    name: str
    modified: datetime | None
    fate: Fate
    metadata: Mapping[str, Any] = field(default_factory=dict)
    document: bytes | None = None

    @property
    def content(self) -> Content:
        """What makes two contents the same."""
        return self.content_hash, self.normalizer

    def encode(self) -> bytes:
        """One line of JSON, and the document behind it."""
        about = (self.content_hash, self.normalizer, self.title, self.name, self.modified, self.fate, self.metadata)
        return orjson.dumps(about) + b"\n" + (self.document or b"")

    @classmethod
    def decode(cls, data: bytes) -> Read:
        """What was encoded."""
        line, _, document = data.partition(b"\n")
        content_hash, normalizer, title, name, modified, fate, metadata = orjson.loads(line)
        return cls(content_hash, normalizer, title, name, moment(modified), fate, metadata, document or None)


def digest(task: ReadTask) -> bytes:
    """Read an item and hash it, without parsing it; an encoded `Read`."""
    raw = _fetch(task)
    return _read(task, raw, _hash(raw), None).encode()


def read(task: ReadTask) -> bytes:
    """Read an item and turn it into a document, unless its content is the known one; an encoded `Read`."""
    raw = _fetch(task)
    content_hash = _hash(raw)
    if task.known is not None and content_hash == task.known[0]:
        as_known = _read(task, raw, content_hash, None)
        if as_known.fate == "unchanged":
            return as_known.encode()
    return _read(task, raw, content_hash, masked(normalize(raw))).encode()


def take_apart(document: bytes) -> bytes:
    """Chunks, links and entities of an encoded document, encoded."""
    return encode_extraction(extract(decode_document(document)))


def _fetch(task: ReadTask) -> RawContent:
    return task.raw or _connector(task.connector).fetch(task.item)


def _hash(raw: RawContent) -> str:
    return hashlib.sha256(raw.data).hexdigest()


def _read(task: ReadTask, raw: RawContent, content_hash: str, document: Document | None) -> Read:
    fate: Fate = "hashed" if document is None else "parsed"
    kind = kind_of(raw) if document is None else document.media_type
    charset = f"; charset={raw.encoding}" if raw.encoding else ""
    normalizer = f"{NORMALIZER}.{EXTRACTOR} {kind}{charset}"
    return Read(
        content_hash,
        normalizer,
        mask(raw.title or "") or (document and document.title) or "",
        PurePosixPath(raw.name).stem or raw.name,
        (document and document.modified) or raw.modified or task.item.modified,
        "unchanged" if (content_hash, normalizer) == task.known else fate,
        raw.metadata,
        encode_document(document) if document else None,
    )


@lru_cache(maxsize=8)
def _connector(pickled: bytes) -> Connector:
    return cast(Connector, pickle.loads(pickled))
