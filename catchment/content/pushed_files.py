"""The files of pushed documents: the content of each as it was sent, and beside it a hidden file with its facts.

The folder of a source has the only copy of what programs pushed to it. A document is stored when both files are on the disk;
the content is renamed last, because a listing sees only the content.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

from catchment.content.raw_store import header_of, raw_of
from catchment.errors import BadInput
from catchment.model import RawContent
from catchment.runtime import atomic_files

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
SMALLEST = 4_096
"""Bytes that each file counts at least, so that a limit of bytes is also one of the number of files."""


def key_of(what: bytes, suffix: str) -> str:
    """Return the key of a document without one: the same for the same address, or name and content."""
    return hashlib.sha256(what).hexdigest()[:32] + (suffix if _KEY.fullmatch(f"x{suffix}") else "")


def locator(key: str) -> str:
    """Return the path of a document below the folder of its source. No folder gets large: each change lists one.

    Raises BadInput if the key cannot be the name of a file.
    """
    if _KEY.fullmatch(key) is None:
        raise BadInput("key: use 1 to 120 letters, digits, dots, - and _, starting with a letter or digit")
    return _path(key)


def put(root: Path, key: str, raw: RawContent) -> bool:
    """Store a document durably, in place of an earlier one. Return whether it differs.

    May be repeated. Raises BadInput, and OSError: FileNotFoundError if the folder of the source was removed.
    """
    content, header = root / locator(key), header_of(raw)
    facts = _facts(content)
    # Two requests with one key must not mix their files, and a removal must not leave one behind.
    with atomic_files.alone(root):
        if not content.parent.is_dir():
            content.parent.mkdir(mode=0o700)
            for folder in (root, root.parent, root.parent.parent):
                atomic_files.flush(folder)
        with suppress(FileNotFoundError):
            if facts.read_bytes() == header and content.read_bytes() == raw.data:
                # A killed process may have written it without this.
                atomic_files.flush(content.parent)
                return False
        atomic_files.write_all({facts: header, content: raw.data})
    return True


def described(root: Path, name: str) -> RawContent:
    """Return the facts of a document, without its content. A file without facts was put there by hand."""
    with suppress(FileNotFoundError, ValueError, TypeError):
        return raw_of(_facts(root / _path(name)).read_bytes(), b"")
    return RawContent(b"", name)


def remove(root: Path, key: str) -> bool:
    """Remove a document durably. Return whether it was there. May be repeated. Raises BadInput, OSError."""
    content = root / locator(key)
    if is_there := content.exists():
        with atomic_files.alone(root):
            for file in (content, _facts(content)):
                file.unlink(missing_ok=True)
            atomic_files.flush(content.parent)
    return is_there


def held(root: Path) -> int:
    """Return the bytes that all documents of a source take."""
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            with suppress(FileNotFoundError):
                total += max(os.lstat(f"{folder}/{name}").st_size, SMALLEST)
    return total


def _path(name: str) -> str:
    return f"{hashlib.sha256(name.encode(errors='surrogateescape')).hexdigest()[:2]}/{name}"


def _facts(content: Path) -> Path:
    return content.with_name(f".{content.name}.json")
