"""The members of all formats of containers, their addresses, and the file names of containers."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import IO, NamedTuple

from catchment.content.normalize.formats import CONTAINERS, HOLDERS, MAIL, OUTLOOK, media_type, type_by_name
from catchment.parser_pool import progress

MOST_BYTES = 10 << 30
"""The size limit of such a file."""
_WITH_PARTS = CONTAINERS | {MAIL, OUTLOOK}
_IN_MEMORY = 16 << 20
_PIECE, _HEAD = 1 << 20, 8_192


class Member(NamedTuple):
    """A file inside of a container.

    Attributes:
        name: Its path as the container has it.
        size: In bytes, as the container declares it.
        mark: Differs for every other content; "" if only reading it tells.
        problem: Why it cannot be read; "" if it can.
        open: Opens its content. The handle of one member may move that of another.
        media_type: As the container declares it; None if the name tells.
        metadata: As in `RawContent`.
    """

    name: str
    size: int
    modified: datetime | None
    mark: str
    problem: str
    open: Callable[[], IO[bytes]]
    media_type: str | None = None
    metadata: Mapping[str, str] = MappingProxyType({})

    @property
    def kind(self) -> str | None:
        """The media type, if it has parts itself."""
        if self.media_type == MAIL:
            return MAIL
        return type_by_name(self.name) if may_have_parts(self.name) else None


def kind_of_container(name: str) -> str | None:
    """Return the media type of a container by its file name; None if the file has no parts."""
    kind = type_by_name(name)
    return kind if kind in _WITH_PARTS else None


def kind_in(file: IO[bytes], name: str) -> str:
    """Return the media type of an open container: that of its content if this is an archive, or else that of its name."""
    file.seek(0)
    kind = media_type(file.read(_HEAD), name)
    file.seek(0)
    return kind if kind in CONTAINERS else type_by_name(name)


def may_have_parts(name: str) -> bool:
    """Return whether a file may have parts, by its name."""
    kind = type_by_name(name)
    return kind in _WITH_PARTS or HOLDERS.match(kind) is not None


def is_list(name: str) -> bool:
    """Return whether the only text of a file is the list of the files inside, by its name."""
    return type_by_name(name) in CONTAINERS


def addressed(members: Iterator[Member]) -> Iterator[tuple[str, Member]]:
    """Yield each member with its address, which is unique, printable, and has no `..`, drive or `!/`."""
    numbers: Counter[str] = Counter()
    for member in members:
        steps = member.name.replace("\\", "/").split("/")
        path = "/".join(step for step in steps if step not in ("", ".", "..")) or "unnamed"
        address = "".join(letter if letter.isprintable() else "\ufffd" for letter in path).replace("!/", "!\u2215")
        numbers[address] += 1
        if numbers[address] > 1:
            stem = PurePosixPath(address)
            address = str(stem.with_name(f"{stem.stem} ({numbers[address]}){stem.suffix}"))
        yield address, member


def spooled(content: IO[bytes], most_bytes: int) -> IO[bytes] | None:
    """Copy content into a file that can be read at any place, and is deleted when it is closed. None if it has more bytes."""
    copy = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - the caller closes it
    left = most_bytes
    while piece := content.read(min(_PIECE, left + 1)):
        left -= len(piece)
        if left < 0:
            copy.close()
            return None
        copy.write(piece)
    copy.seek(0)
    return copy


def sha256(content: IO[bytes]) -> str:
    """Return the hexadecimal SHA-256 of content from its present place on, and go back to its start if that is possible."""
    digest = hashlib.sha256()
    while piece := content.read(_PIECE):
        digest.update(piece)
        progress()
    if content.seekable():
        content.seek(0)
    return digest.hexdigest()
