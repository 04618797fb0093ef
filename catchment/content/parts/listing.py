"""List the parts of an item at all levels, within one budget, and read a part by its address."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from io import BytesIO
from typing import IO, NamedTuple

from catchment.content.normalize import unpacked
from catchment.content.normalize.formats import MAIL, MAILBOX, OUTLOOK, SAVED_PAGE
from catchment.content.parts import archive_members, embedded, message_members, ordered_members
from catchment.content.parts.containers import Member, addressed, is_list, kind_in, sha256, spooled
from catchment.errors import ParseError, ResourceExhausted, Skipped, SkipReason, Vanished
from catchment.model import PARTS, Document, RawContent
from catchment.parser_pool import progress
from catchment.settings import Limits

_MOST_DEPTH = 5
_OF_MAILBOX = 5
"""The limits of a mailbox, in those of an archive."""
_NEAR = 4_096
"""How many members before the last one are kept: of a mailbox with 500,000 messages, all take 365 MB."""
_TOO_DEEP = "…"
_DEEP = f"an archive in more than {_MOST_DEPTH} others; unpack the outer ones"


class ListedPart(NamedTuple):
    """A part of an item. `path`: its address, relative to the item. `problem`: why it cannot be read, or ""."""

    path: str
    version: str
    size: int | None
    modified: datetime | None
    problem: str


def parts_of(file: IO[bytes], kind: str, limits: Limits) -> Iterator[ListedPart]:
    """Yield the parts of a container, outer ones before those inside them.

    Raises ParseError if it is damaged, and ResourceExhausted if all levels together exceed the limits.
    """
    yield from _Walk(limits, _OF_MAILBOX if kind == MAILBOX else 1).parts(file, kind, "", 1)


def read_part(container: OpenContainer, path: str, most_bytes: int) -> RawContent:
    """Return the content of a part. Raises ItemError: ParseError if it cannot be read, Vanished if it is not there."""
    address, _, rest = path.partition(PARTS)
    if address == _TOO_DEEP:
        raise ParseError(_DEEP)
    member = container.find(address)
    if rest:
        part = read_part(container.inside(address, member, most_bytes), rest, most_bytes)
        return replace(part, metadata={**member.metadata, **part.metadata})
    if member.problem:
        raise ParseError(member.problem)
    with archive_members.readable(), member.open() as content:
        data = content.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise Skipped(SkipReason.TOO_LARGE)
    name, kind, head = address.rpartition("/")[2], member.media_type, dict(member.metadata)
    return RawContent(data, name, media_type=kind, modified=member.modified, metadata=head)


def container_in(raw: RawContent, file: IO[bytes]) -> tuple[IO[bytes], str]:
    """Return an item with parts and its media type. A file whose name does not tell the type is read, and decompressed."""
    if is_list(raw.name):
        return file, kind_in(file, raw.name)
    data, kind = unpacked(replace(raw, data=file.read()))
    return BytesIO(data), kind


def listed(kind: str, parts: Iterable[ListedPart]) -> Document:
    """Return the document of a container without own text: the paths of its direct parts, as a Markdown list."""
    lines = [f"- {part.path}" for part in parts if PARTS not in part.path]
    return Document("\n".join(lines), kind, properties={"files": len(lines)})


class OpenContainer:
    """An open container, whose members are found in any order; in their own order it is fastest."""

    def __init__(self, file: IO[bytes], kind: str) -> None:
        self.kind = kind
        self._file = file
        self._start()
        self._inside: tuple[str, OpenContainer] | None = None

    def find(self, address: str) -> Member:
        """Return a member. Raises Vanished."""
        for _ in range(2):
            if address in self._near:
                return self._near[address]
            for path, member in self._members:
                progress()
                self._near[path] = member
                if path == address:
                    return member
                if len(self._near) > _NEAR:
                    self._near.popitem(last=False)
            self._start()
        raise Vanished("no longer in its archive; the next sync reads the archive again")

    def _start(self) -> None:
        self._members = addressed(_reader(self.kind)(self._file))
        self._near: OrderedDict[str, Member] = OrderedDict()

    def inside(self, address: str, member: Member, most_bytes: int) -> OpenContainer:
        """Return a container inside of this one. It stays open until another one is asked for."""
        if self._inside is None or self._inside[0] != address:
            with archive_members.readable(), member.open() as content:
                copy = spooled(content, most_bytes)
            if copy is None or member.kind is None:
                raise Skipped(SkipReason.TOO_LARGE)
            if self._inside is not None:
                self._inside[1].close()
            self._inside = address, OpenContainer(copy, _kind(copy, member))
        return self._inside[1]

    def close(self) -> None:
        """Close it, with its file and what is open inside of it."""
        if self._inside is not None:
            self._inside[1].close()
        self._file.close()


class _Walk:
    """The listing of one item, with what it used of its limits."""

    def __init__(self, limits: Limits, factor: int) -> None:
        self._most_bytes = limits.max_bytes
        self._most_parts, self._most_unpacked = limits.max_parts * factor, limits.unpacked_mb * factor * 1_000_000
        self._listed = self._unpacked = 0

    def parts(self, file: IO[bytes], kind: str, prefix: str, depth: int) -> Iterator[ListedPart]:
        for address, member in addressed(_reader(kind)(file)):
            if depth > _MOST_DEPTH:
                yield ListedPart(prefix + _TOO_DEEP, "deep", None, None, _DEEP)
                return
            progress()
            self._spend(member.size)
            path, version, problem, copy = prefix + address, member.mark, member.problem, None
            inner = member.kind
            if not problem and (inner or not version):
                try:
                    with archive_members.readable(), member.open() as content:
                        copy = spooled(content, self._most_bytes) if inner else None
                        version = version or sha256(copy or content)[:32]
                except ParseError as error:
                    problem = str(error)
            yield ListedPart(path, version or f"{member.size:x}", member.size, member.modified, problem)
            if copy is not None:
                # A damaged container has a job of its own, which reports the damage.
                with copy, suppress(ParseError):
                    yield from self.parts(copy, _kind(copy, member), path + PARTS, depth + 1)

    def _spend(self, size: int) -> None:
        self._listed += 1
        self._unpacked += size
        if self._listed > self._most_parts:
            raise ResourceExhausted(
                f"more than {self._most_parts:,} files inside; unpack it, or raise limits.max_parts"
            )
        if self._unpacked > self._most_unpacked:
            most = f"{self._most_unpacked // 1_000_000:,.0f} MB"
            raise ResourceExhausted(
                f"unpacks to more than {most}; if you trust it, raise limits.unpacked_mb or unpack it"
            )


def _kind(file: IO[bytes], member: Member) -> str:
    return member.kind if member.media_type == MAIL and member.kind else kind_in(file, member.name)


def _reader(kind: str) -> Callable[[IO[bytes]], Iterator[Member]]:
    return _READERS.get(kind, embedded.office_members)


_READERS: Mapping[str, Callable[[IO[bytes]], Iterator[Member]]] = {
    "application/pdf": embedded.pdf_members,
    "application/zip": archive_members.zip_members,
    "application/x-tar": archive_members.tar_members,
    MAILBOX: message_members.mailbox_members,
    SAVED_PAGE: message_members.page_members,
    MAIL: message_members.attached_members,
    OUTLOOK: message_members.outlook_members,
    **{kind: partial(ordered_members.ordered_members, kind=kind) for kind in ordered_members.FORMATS},
}
