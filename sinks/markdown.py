"""A document as a Markdown file: its name, and its content with frontmatter. Knows no disk."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import orjson

from catchment.model import DocumentCopy, EntityKind, LinkKind

ENDING = ".md"
"""Of all files and of no folder: a file and a folder never want one name."""
_REFUSED_NAMES = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]+')
_LONGEST = 180
"""Bytes of a name. Systems allow 255, and a number may be added."""
_KEY = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null)\Z)[a-z_][\w-]*\Z", re.ASCII | re.IGNORECASE)
"""Keys that are text without quotes, too."""
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that YAML does not allow within quotes, and JSON does."""
_FENCE = b"---\n"
_IDENTITY = re.compile(rb"catchment: ([0-9]{1,18})\n")
_MOST_FRONTMATTER = 1 << 20
_FILES = ("local_files", "obsidian")
_GIVEN = ("created", "date", "date created", "created_at", "creation date")
_OWN = frozenset({"source", "item", "url", "catchment"})
"""Properties with the origin of a copy. Properties of the original with these names are renamed."""


def file_name(document: DocumentCopy) -> str:
    """Return the path of a document's file below the folder, without regard to other documents."""
    parts = [document.source]
    if document.kind in _FILES and ";PART=" not in document.item:
        parts += PurePosixPath(document.item).parts or [""]
        last = parts.pop().removesuffix(ENDING)
    else:
        moment = document.created or document.modified
        title = document.title or document.item
        parts += [f"{moment:%Y}"] if moment else []
        last = f"{moment:%Y-%m-%d} {title}" if moment else title
    return "/".join([*map(_folder_name, parts), f"{_cleaned(last)}{ENDING}"])


def alternative(name: str, number: int, rank: int) -> str:
    """Return the name that a document takes if those with lower ranks belong to others; rank 0 is `name` itself."""
    mark = ("", f" ({number})")[rank] if rank < 2 else f" ({number}-{rank})"
    return f"{name.removesuffix(ENDING)}{mark}{ENDING}"


def folded(name: str) -> str:
    """Return a form of a name that is equal for all names that a disk may confuse with it."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def markdown(document: DocumentCopy) -> bytes:
    """Return a document as Markdown with frontmatter, which a source of files or notes reads as the same document."""
    renamed = {key: f"original_{key}" for key in document.properties if folded(key).strip() in _OWN}
    own = {key: value for key, value in document.properties.items() if key not in renamed}
    links = [link.target for link in document.links if link.kind is not LinkKind.URL and link.target]
    fields: dict[str, Any] = {
        "title": document.title,
        "created": None if any(own.get(key) for key in _GIVEN) else _iso(document.created),
        "modified": _iso(document.modified),
        "people": document.named(EntityKind.PERSON),
        "links": list(dict.fromkeys(links)),
        **{name: document.properties[key] for key, name in renamed.items()},
        **own,
        "source": document.source,
        "item": document.item,
        "url": document.metadata.get("url"),
        "tags": document.named(EntityKind.TAG),
        "tag": None,
    }
    lines = [_line(key, value) for key, value in fields.items() if value or value == 0]
    return b"".join((_FENCE, *lines, _line("catchment", document.id), _FENCE, document.text.encode()))


def identity(file: BinaryIO) -> int | None:
    """Return the ID of the document that a file is a copy of; None if it is no copy. Reads the frontmatter only."""
    left, last = _MOST_FRONTMATTER, b""
    if file.readline(len(_FENCE)) != _FENCE:
        return None
    while line := file.readline(left):
        if line == _FENCE:
            match = _IDENTITY.fullmatch(last)
            return int(match[1]) if match else None
        left, last = left - len(line), line
    return None


def _folder_name(name: str) -> str:
    cleaned = _cleaned(name)
    return f"{cleaned}_" if folded(cleaned).endswith(ENDING) else cleaned


def _cleaned(name: str) -> str:
    text = " ".join(_REFUSED_NAMES.sub(" ", name).split()).strip(" .")
    return text.encode()[:_LONGEST].decode(errors="ignore").strip(" .") or "untitled"


def _line(key: str, value: Any) -> bytes:
    name = key.encode() if _KEY.match(key) else orjson.dumps(key)
    text = orjson.dumps(value, default=str).decode()
    escaped = _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return name + b": " + escaped.encode() + b"\n"


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()
