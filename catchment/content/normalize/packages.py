"""Read zip-based office files: the declared type of a package, and its parts within fixed limits.

OPC (ECMA-376 part 2) declares the type in `[Content_Types].xml` and in the relationships of the package; ODF and EPUB
declare it in the member `mimetype`. Part names are case-insensitive, as OPC requires.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import unquote
from xml.etree.ElementTree import Element, TreeBuilder, XMLParser
from xml.etree.ElementTree import ParseError as XMLError

from catchment.content.normalize import archives
from catchment.errors import ParseError, ResourceExhausted

MAX_PART = 32 * 1024 * 1024
"""Bytes of one part."""
_MAX_ELEMENTS = 500_000
"""Elements of one part; their tree takes up to 100 MB."""
_MAX_DEPTH = 500
_PIECE = 65_536
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    XMLError,
    LookupError,
    NotImplementedError,
    EOFError,
    ValueError,
    OSError,
)
"""The exceptions of zipfile, zlib and expat for damaged data."""
_IS_ENCRYPTED, _LAST_METHOD = 1, 99
"""A flag of a member, and the highest assigned compression method; encrypted members of iWork files exceed it."""
_TYPES, _RELATIONSHIPS = "[content_types].xml", "/relationships"
_MAIN = re.compile(
    r"(application/(?:vnd\.openxmlformats-officedocument\.\w+\.\w+|vnd\.ms-(?:word|excel|powerpoint|visio)\.[\w.]+?))"
    r"(Template)?\.main(?:\+xml)?\Z"
)
"""Matches content types of main parts: the media type of the file with `.main` or `.main+xml`."""
_TOO_MANY = f"a part has more than {_MAX_ELEMENTS:,} elements, or nests more than {_MAX_DEPTH} deep (fixed limits)"
LOCKED = "the file is encrypted; save a copy without a password"
_NOT_READ = "a part of the package cannot be read; open it in its own program and save it again"


@dataclass(frozen=True, slots=True)
class Relation:
    """A relationship of a part: ID, last segment of its type, and target (a part name, or a URL if external)."""

    id: str
    kind: str
    target: str
    is_external: bool


class Package:
    """The parts of a zip-based office file.

    Every method raises ParseError if a part is damaged and ResourceExhausted if it exceeds the limits of this module.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._zip = archives.opened(data)
        self._members = {_part_name(member.filename): member for member in self._zip.infolist()}

    @property
    def names(self) -> list[str]:
        """All part names in lower case, in the order of the package."""
        return list(self._members)

    def has(self, name: str) -> bool:
        return name.lower() in self._members

    def read(self, name: str) -> bytes:
        """Return a part's bytes. Raises ParseError if it is missing, damaged or encrypted."""
        member = self._member(name)
        if member.file_size > MAX_PART:
            raise ResourceExhausted(f"a part is larger than {MAX_PART >> 20} MB (a fixed limit)")
        try:
            return self._zip.read(member)
        except _DAMAGE as error:
            raise ParseError(_NOT_READ) from error

    def feed(self, name: str, target: Any) -> None:
        """Parse a part of any size as a stream into `target`, a target of `xml.etree.ElementTree.XMLParser`."""
        member = self._member(name)
        parser = XMLParser(target=target)
        try:
            with self._zip.open(member) as part:
                while piece := part.read(_PIECE):
                    parser.feed(piece)
            parser.close()
        except _DAMAGE as error:
            raise ParseError(_NOT_READ) from error

    def tree(self, name: str) -> Element:
        """Return a part as a tree with local names. Attributes with relationship IDs have the prefix `r:`."""
        return tree(self.read(name))

    def relations(self, part: str = "") -> list[Relation]:
        """Return the relationships of a part, or of the package."""
        folder, name = posixpath.split(part)
        source = posixpath.join(folder, "_rels", f"{name}.rels")
        if not self.has(source):
            return []
        return [relation for each in self.tree(source).iter("Relationship") if (relation := _relation(each, folder))]

    def _member(self, name: str) -> zipfile.ZipInfo:
        member = self._members.get(name.lower())
        if member is None:
            raise ParseError("a part is missing in the package; open it in its own program and save it again")
        if member.flag_bits & _IS_ENCRYPTED or member.compress_type > _LAST_METHOD:
            raise ParseError(LOCKED)
        return member

    @cached_property
    def declared_type(self) -> str | None:
        """The media type that the package declares, or None."""
        if self.has("mimetype"):
            return self.read("mimetype")[:200].decode("ascii", "replace").strip()
        return _media_type(self._content_types[self.main_part]) if self.main_part else None

    @cached_property
    def main_part(self) -> str | None:
        """The name of the main part of an OPC package in lower case; None if no part has such a content type."""
        if not self.has(_TYPES):
            return None
        related = [relation.target for relation in self.relations() if relation.kind == "officeDocument"]
        return next(
            (name for name in (*related, *self._content_types) if _media_type(self._content_types.get(name, ""))), None
        )

    def with_main_part(self, path: str) -> bytes:
        """Return the package with its main part, if it has one, at this path. The parts of its folder are moved along.

        Raises ResourceExhausted if a part is to be moved and the package unpacks to more than 64 MB.
        """
        if self.main_part is None or self._members[self.main_part].filename == path:
            return self._data
        if sum(member.file_size for member in self._members.values()) > archives.MAX_INFLATED:
            raise ResourceExhausted(
                f"the main part has an unusual name, and the file unpacks to more than {archives.MAX_INFLATED >> 20} MB "
                "(a fixed limit); save it again with another program"
            )
        (folder, main), (new_folder, new_main) = posixpath.split(self.main_part), posixpath.split(path)
        renamed = {f"{folder}/{main}": path, f"{folder}/_rels/{main}.rels": f"{new_folder}/_rels/{new_main}.rels"}
        absolute = re.compile(rb'(Target\s*=\s*")/' + re.escape(folder.encode()) + rb"/", re.IGNORECASE)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as written:
            for name, member in self._members.items():
                content = self.read(name)
                if name.endswith(".rels"):
                    content = absolute.sub(rb"\g<1>/%s/" % new_folder.encode(), content)
                beside = new_folder + "/" + member.filename[len(folder) + 1 :]
                same_place = beside if name.startswith(f"{folder}/") else member.filename
                written.writestr(zipfile.ZipInfo(renamed.get(name, same_place)), content)
        return out.getvalue()

    def with_parts(self, contents: Mapping[str, bytes]) -> bytes:
        """Return the package with these contents of parts. The other parts are not unpacked."""
        out = io.BytesIO(self._data)
        with zipfile.ZipFile(out, "a") as written:
            for name, content in contents.items():
                former = written.getinfo(self._members[name].filename)
                written.filelist.remove(former)
                del written.NameToInfo[former.filename]
                written.writestr(zipfile.ZipInfo(former.filename), content)
        return out.getvalue()

    @cached_property
    def _content_types(self) -> dict[str, str]:
        """Content types by part name."""
        listed = self.tree(_TYPES)
        by_ending = {each.get("Extension", "").lower(): each.get("ContentType", "") for each in listed.iter("Default")}
        types = {name: by_ending.get(posixpath.splitext(name)[1][1:], "") for name in self._members}
        for each in listed.iter("Override"):
            if (name := _part_name(each.get("PartName", ""))) in types:
                types[name] = each.get("ContentType", "")
        return types


def declared_type(data: bytes) -> str | None:
    """Return the media type that a zip-based package declares; None without a declaration or if it is damaged."""
    try:
        return Package(data).declared_type
    except (ParseError, ResourceExhausted):
        return None


def tree(data: bytes) -> Element:
    """Parse XML into a tree with local names. Raises ParseError if it is damaged or has a document type definition."""
    parser = XMLParser(target=_Builder())
    try:
        parser.feed(data)
        root: Element = parser.close()
    except _DAMAGE as error:
        raise ParseError(_NOT_READ) from error
    return root


class _Builder(TreeBuilder):
    """Builds a tree with local names; rejects document type definitions, and too many or too deep elements."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = self._elements = 0

    def start(self, tag: str, attributes: dict[str, str], /) -> Element:
        self._depth += 1
        self._elements += 1
        if self._depth > _MAX_DEPTH or self._elements > _MAX_ELEMENTS:
            raise ResourceExhausted(_TOO_MANY)
        return super().start(local_name(tag), {_attribute(name): value for name, value in attributes.items()})

    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(local_name(tag))

    def doctype(self, _name: str, _public: str | None, _system: str | None) -> None:
        raise ParseError(_NOT_READ)


def local_name(name: str) -> str:
    """Return the name of an element without its namespace."""
    return name.rpartition("}")[2]


def _attribute(name: str) -> str:
    space, _, local = name.rpartition("}")
    return f"r:{local}" if space.endswith(_RELATIONSHIPS) else local


def _part_name(name: str) -> str:
    return name.replace("\\", "/").lstrip("/").lower()


def _relation(element: Element, folder: str) -> Relation | None:
    target, kind = element.get("Target", ""), element.get("Type", "").rpartition("/")[2]
    if element.get("TargetMode") == "External":
        return Relation(element.get("Id", ""), kind, target, is_external=True)
    path = unquote(target.partition("#")[0])
    name = path if path.startswith("/") else posixpath.join(folder, path)
    return Relation(element.get("Id", ""), kind, _part_name(posixpath.normpath(name)), is_external=False)


def _media_type(content_type: str) -> str | None:
    """Return the media type of files by the content type of their main part; None for other content types."""
    main = _MAIN.match(content_type)
    return None if main is None else f"{main[1]}.12" if main[1].endswith("macroEnabled") else main[1]
