"""The files of pushed documents: the content of each as it was sent, and beside it a hidden file with its facts.

The folder of a source has the only copy of what programs pushed to it. A document is stored when both files are on the disk;
the content is written last, because a listing sees only the content.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from pathlib import Path

from catchment.content.raw_store import header_of, raw_of
from catchment.model import RawContent
from catchment.runtime import atomic_files

KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
"""The key of a document in its source, which is also the name of its file."""


def key_of(what: bytes, suffix: str) -> str:
    """Return the key of a document without one: the same for the same address, or name and content."""
    return hashlib.sha256(what).hexdigest()[:32] + (suffix if KEY.fullmatch(f"x{suffix}") else "")


def locator(key: str) -> str:
    """Return the path of a document below the folder of its source. No folder gets large: each change lists one."""
    return f"{hashlib.sha256(key.encode()).hexdigest()[:2]}/{key}"


def put(root: Path, key: str, raw: RawContent) -> bool:
    """Store a document durably, in place of an earlier one. Return whether it differs. May be repeated. Raises OSError."""
    content, facts, header = root / locator(key), _facts(root, key), header_of(raw)
    if not content.parent.is_dir():
        content.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (root, root.parent, root.parent.parent):
            atomic_files.flush(folder)
    # Two requests with one key must not mix their files.
    with atomic_files.alone(root):
        with suppress(FileNotFoundError):
            if facts.read_bytes() == header and content.read_bytes() == raw.data:
                # A killed process may have written it without this.
                atomic_files.flush(content.parent)
                return False
        atomic_files.write(facts, header)
        atomic_files.write(content, raw.data)
    return True


def described(root: Path, key: str) -> RawContent:
    """Return the facts of a document, without its content. A file without facts was put there by hand."""
    with suppress(FileNotFoundError, ValueError, TypeError):
        return raw_of(_facts(root, key).read_bytes(), b"")
    return RawContent(b"", key)


def remove(root: Path, key: str) -> bool:
    """Remove a document durably. Return whether it was there. May be repeated. Raises OSError."""
    content = root / locator(key)
    if is_there := content.exists():
        with atomic_files.alone(root):
            for file in (content, _facts(root, key)):
                file.unlink(missing_ok=True)
            atomic_files.flush(content.parent)
    return is_there


def _facts(root: Path, key: str) -> Path:
    content = root / locator(key)
    return content.with_name(f".{key}.json")
