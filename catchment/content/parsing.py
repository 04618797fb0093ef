"""The work of a parser process on one item: fetch, hash, normalize and extract. Pure functions of their task."""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from io import BytesIO
from pathlib import PurePosixPath
from typing import IO, Any, Literal, cast

import orjson

from catchment.content import readers
from catchment.content.codec import decode_document, encode_document, encode_extraction, moment
from catchment.content.extract import EXTRACTOR, extract
from catchment.content.normalize import NORMALIZER, normalize, unpacked
from catchment.content.normalize.formats import CONTAINERS, HOLDERS, MAIL, MAILBOX, OUTLOOK, SOURCE_TEXT
from catchment.content.parts.containers import is_list, kind_in, kind_of_container, may_have_parts, sha256
from catchment.content.parts.listing import ListedPart, listed, parts_of
from catchment.content.parts.open_files import LAST
from catchment.content.secret_masking import extraction_without_secrets, masked, without_secrets
from catchment.contracts import Connector, Openable
from catchment.errors import ParseError
from catchment.model import PARTS, WITH_RECOGNIZED, Document, Item, PageText, RawContent, StoredDocument
from catchment.settings import Limits

CODE = f"{NORMALIZER}{readers.versions()}.{EXTRACTOR}"
"""The version of the code that makes documents and extractions, with that of the readers of other packages."""

Content = tuple[str, str]
"""A content hash, and the code version and media type used to read it. Items with equal pairs share a document."""


@dataclass(frozen=True, slots=True)
class ReadTask:
    """An item to read, through a pickled connector or from `raw` if its bytes are already fetched.

    `known` is the item's content in the library; the same content is not parsed again. `recognized`: the text on the pictures
    of its pages, as it was then. `carrier`: the item that it is a part of; then `raw` is the content of that. `limits`:
    for its parts.
    """

    item: Item
    connector: bytes
    raw: RawContent | None = None
    known: Content | None = None
    recognized: Mapping[int, PageText] = field(default_factory=dict)
    carrier: Item | None = None
    limits: Limits = field(default_factory=Limits)

    @property
    def name(self) -> str:
        """The file name of the item, as far as it is known before it is fetched."""
        return self.raw.name if self.raw and self.carrier is None else self.item.locator

    @property
    def has_parts(self) -> bool:
        """Whether it has parts, by its name."""
        return self.lists(kind_of_container(self.name) or "")

    def lists(self, kind: str) -> bool:
        """Whether the parts of an item of this media type are items, too. Parts of parts belong to the outermost one.

        The attachments of a message of a connector that cannot open it are items already.
        """
        is_message = kind in (MAIL, OUTLOOK) and isinstance(_connector(self.connector), Openable)
        return self.carrier is None and (is_message or kind in CONTAINERS or HOLDERS.match(kind) is not None)


SHORT = 32 * 1024
"""Bytes of an encoded document up to which it is extracted with its parse, and waits for its delivery in memory."""

FORMAT = 6
"""The version of the cache entries. Increase it when the fields of an encoded `Read` or its storage change."""

Fate = Literal["hashed", "parsed", "unchanged", "stored"]


@dataclass(frozen=True, slots=True)
class Read:
    """The result of reading an item.

    `fate` is `parsed` (`document` is set), `unchanged` (the content is the known one), `stored` (the library already has the
    content from another item) or `hashed` (not decided yet). `normalizer` names the code version and the media type, because
    the same bytes of another type give another document. `title` is from the source, else from the content; if it is empty,
    `name` serves as the title. `document` and `extraction` are encoded; only a short document has its extraction already.
    `seconds`: the time of reading and parsing. `parts`: if they are items; None if they are not, or cannot be listed.
    """

    content_hash: str
    normalizer: str
    title: str
    name: str
    modified: datetime | None
    fate: Fate
    metadata: Mapping[str, Any] = field(default_factory=dict)
    document: bytes | None = None
    extraction: bytes | None = None
    seconds: float = 0.0
    parts: tuple[ListedPart, ...] | None = None

    @classmethod
    def of_stored(cls, stored: StoredDocument) -> Read:
        """Return a document of the library as if it had just been read, to be extracted again."""
        normalizer, _, rest = stored.normalizer.partition(".")
        kind = rest.partition(" ")[2]
        return cls(
            stored.content_hash,
            f"{normalizer}.{EXTRACTOR} {kind}",
            stored.title,
            "",
            stored.modified,
            "parsed",
            stored.metadata,
            encode_document(stored.document),
        )

    @property
    def content(self) -> Content:
        """The key of the content: items with equal keys share a document."""
        return self.content_hash, self.normalizer

    def encode(self) -> bytes:
        """Return three lines: JSON, the document and the extraction."""
        about = (self.content_hash, self.normalizer, self.title, self.name, self.modified, self.fate, self.metadata)
        return b"\n".join(
            (
                orjson.dumps((*about, self.seconds, self.parts), default=tuple),
                self.document or b"",
                self.extraction or b"",
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> Read:
        """Return the result that `encode` encoded."""
        line, document, extraction = data.split(b"\n")
        content_hash, normalizer, title, name, modified, fate, metadata, seconds, parts = orjson.loads(line)
        about = (content_hash, normalizer, title, name, moment(modified), fate, metadata)
        listed = (
            None if parts is None else tuple(ListedPart._make((*each[:3], moment(each[3]), each[4])) for each in parts)
        )
        return cls(*about, document or None, extraction or None, seconds, listed)


def digest(task: ReadTask) -> bytes:
    """Fetch and hash an item without parsing it; return an encoded `Read`."""
    raw = _fetch(task)
    content_hash = _hash(raw)
    task, (data, kind) = _of_content(task, content_hash), unpacked(raw)
    return _with_parts(task, data, kind, _read(task, raw, content_hash, kind)).encode()


def read(task: ReadTask) -> bytes:
    """Fetch an item and parse it unless its content is the known one; return an encoded `Read`.

    The extraction of a short document is made at once, because sending the text again would take as long. That of code is not:
    its parser may crash, which must leave the document.
    """
    start = time.perf_counter()
    if task.carrier is None and is_list(task.name):
        return replace(_read_container(task), seconds=time.perf_counter() - start).encode()
    raw = _fetch(task)
    content_hash = _hash(raw)
    task, (data, kind) = _of_content(task, content_hash), unpacked(raw)
    if task.known is not None and content_hash == task.known[0]:
        as_known = _read(task, raw, content_hash, kind)
        if as_known.fate == "unchanged":
            return _with_parts(task, data, kind, as_known).encode()
    document, parts = _parsed(task, raw, data, kind)
    document = masked(document)
    reading = _read(task, raw, content_hash, document.media_type, document)
    extraction = None
    if document.media_type not in SOURCE_TEXT and len(reading.document or b"") <= SHORT:
        # The step `extract` repeats what fails here, and reports it.
        with suppress(Exception):
            extraction = _extraction(document)
    return replace(reading, extraction=extraction, seconds=time.perf_counter() - start, parts=parts).encode()


def _parsed(task: ReadTask, raw: RawContent, data: bytes, kind: str) -> tuple[Document, tuple[ListedPart, ...] | None]:
    """Return the document of an item, and its parts if they are items. `data` and `kind`: as unpacked."""
    has_items = task.lists(kind)
    # The parts of an item inside of another are listed with the outer one, unless the name of the item is that of none.
    is_hidden = task.carrier is not None and not may_have_parts(task.item.locator)
    files: tuple[ListedPart, ...] = ()
    if kind in CONTAINERS and (has_items or kind != MAILBOX):
        files = _parts(task, data, kind)
        document = listed(kind, files)
    else:
        document = normalize(raw, task.recognized)
        try:
            if has_items or (is_hidden and HOLDERS.match(kind)):
                files = _parts(task, data, kind)
        except ParseError as error:
            return replace(document, warnings=(*document.warnings, f"files inside not read: {error}")), None
    if files and is_hidden:
        warning = f"files inside not read: {len(files):,}; give it the ending of its type"
        document = replace(document, warnings=(*document.warnings, warning))
    return document, files if has_items else None


def _with_parts(task: ReadTask, data: bytes, kind: str, reading: Read) -> Read:
    """Return the result for a content that need not be parsed with the parts of the item."""
    with suppress(ParseError):  # its warning is in the document
        return replace(reading, parts=_parts(task, data, kind) if task.lists(kind) else None)
    return reading


def _parts(task: ReadTask, data: bytes, kind: str) -> tuple[ListedPart, ...]:
    return tuple(parts_of(BytesIO(data), kind, task.limits))


def _read_container(task: ReadTask) -> Read:
    """Read a container that is not in memory as a whole: its document is the list of its parts."""
    with _opened(task, task.item) as (raw, file):
        kind = kind_in(file, raw.name)
        content_hash = sha256(file)
        parts = tuple(parts_of(file, kind, task.limits))
        as_known = _read(task, raw, content_hash, kind)
        if as_known.fate == "unchanged":
            return replace(as_known, parts=parts)
    return replace(_read(task, raw, content_hash, kind, masked(listed(kind, parts))), parts=parts)


def extract_document(document: bytes) -> bytes:
    """Return the encoded extraction (chunks, links and entities) of an encoded document."""
    return _extraction(decode_document(document))


def _extraction(document: Document) -> bytes:
    return encode_extraction(extraction_without_secrets(extract(document), document.text))


def _fetch(task: ReadTask) -> RawContent:
    if task.carrier is None:
        return task.raw or _connector(task.connector).fetch(task.item)
    with _opened(task, task.carrier) as (raw, file):
        key = task.connector, task.carrier.locator, task.carrier.version
        path = task.item.locator.removeprefix(task.carrier.locator + PARTS)
        part = LAST.read(key, raw, file, path, task.limits.max_bytes)
    return replace(part, encoding=raw.encoding, metadata={**raw.metadata, **part.metadata})


@contextmanager
def _opened(task: ReadTask, item: Item) -> Iterator[tuple[RawContent, IO[bytes]]]:
    connector = _connector(task.connector)
    if task.raw is None and isinstance(connector, Openable):
        with connector.opened(item) as opened:
            yield opened
    else:
        raw = task.raw or connector.fetch(item)
        yield raw, BytesIO(raw.data)


def _of_content(task: ReadTask, content_hash: str) -> ReadTask:
    """Return the task without the text on pictures of another content: the item has changed since."""
    is_known = task.known is not None and task.known[0] == content_hash
    return task if is_known or not task.recognized else replace(task, recognized={})


def _hash(raw: RawContent) -> str:
    """Hash the bytes, and of a web page its address, on which its links depend, and its summary.

    Of a pushed file only the bytes, with which a deep listing compares them; see `_facts`.
    """
    digest = hashlib.sha256(raw.data)
    if raw.address and "pushed_by" not in raw.metadata:
        digest.update(f"\0{raw.address}".encode(errors="surrogatepass"))
    if raw.summary:
        digest.update(f"\0{raw.summary}".encode(errors="surrogatepass"))
    return digest.hexdigest()


def _read(task: ReadTask, raw: RawContent, content_hash: str, kind: str, document: Document | None = None) -> Read:
    fate: Fate = "hashed" if document is None else "parsed"
    charset = f"; charset={raw.encoding}" if raw.encoding else ""
    normalizer = f"{CODE} {kind}{charset}{_facts(raw)}{_mark(task.recognized)}"
    titles = raw.title or (document and document.title) or "", PurePosixPath(raw.name).stem or raw.name
    (title, name), metadata = without_secrets((titles, raw.metadata))
    return Read(
        content_hash,
        normalizer,
        title,
        name,
        moment(raw.metadata.get("sent")) or (document and document.modified) or raw.modified or task.item.modified,
        "unchanged" if (content_hash, normalizer) == task.known else fate,
        metadata,
        encode_document(document) if document else None,
    )


def _facts(raw: RawContent) -> str:
    """Return a part of the normalizer that differs with the facts that a program gives of its file; "" for other sources."""
    if "pushed_by" not in raw.metadata:
        return ""
    facts = raw.name, raw.title, raw.modified, raw.address, raw.metadata
    return f"; facts={hashlib.sha256(orjson.dumps(facts)).hexdigest()[:16]}"


def _mark(recognized: Mapping[int, PageText]) -> str:
    """Return a suffix of the normalizer that differs with the recognized text; "" without any."""
    texts = sorted((page, each.text, each.problem) for page, each in recognized.items())
    return f"{WITH_RECOGNIZED}{hashlib.sha256(orjson.dumps(texts)).hexdigest()[:16]}" if texts else ""


@lru_cache(maxsize=8)
def _connector(pickled: bytes) -> Connector:
    return cast(Connector, pickle.loads(pickled))
