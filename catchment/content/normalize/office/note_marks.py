"""Number the footnotes and endnotes of a Word document (ECMA-376 part 1, 17.11) in the order of their marks.

xberg writes marks twice and numbers them in two ways, so that some lead to other notes. It gets marks as text, and no notes.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

from catchment.content.normalize.office.flow import Flow, field_address
from catchment.content.normalize.packages import Package
from catchment.errors import ParseError, ResourceExhausted

_REFERENCE = re.compile(
    rb"<w:(foot|end)noteReference\b[^<>]*?\bw:id=[\"'](-?\d{1,9})[\"'][^<>]*?(?:/>|></w:\1noteReference>)"
)
_MARK = re.compile("\ue000(foot|end)(-?\\d+)\ue001")
_NOTES = '<w:{0}notes xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"/>'

Notes = dict[tuple[str, str], str]
"""The texts of notes by kind ("foot", "end") and ID."""


def marked(data: bytes) -> tuple[bytes, Notes]:
    """Return a package with marks as text and without notes, and the notes; the same package if it has none."""
    package = Package(data)
    main = package.main_part or ""
    changed: dict[str, bytes] = {}
    notes: Notes = {}
    try:
        for relation in package.relations(main):
            kind = relation.kind.removesuffix("notes")
            if kind in ("foot", "end"):
                links = {link.id: link.target for link in package.relations(relation.target) if link.is_external}
                for note in package.tree(relation.target):
                    flow = Flow()
                    _write(flow, note, links)
                    notes[kind, note.get("id", "")] = flow.text()
                changed[relation.target] = _NOTES.format(kind).encode()
        content = package.read(main) if notes else b""
    except (ParseError, ResourceExhausted):  # `unread` reports it
        return data, {}
    plain = _REFERENCE.sub("<w:t>\ue000\\1\\2\ue001</w:t>".encode(), content)
    return (package.with_parts({**changed, main: plain}), notes) if plain != content else (data, {})


def numbered(text: str, notes: Notes) -> str:
    """Return the text with numbered marks and the notes behind it."""
    numbers: dict[tuple[str, str], int] = {}

    def number(mark: re.Match[str]) -> str:
        return f"[^{numbers.setdefault((mark[1], mark[2]), len(numbers) + 1)}]"

    text = _MARK.sub(number, text)
    return "\n\n".join((text, *(f"[^{number}]: {notes[key]}" for key, number in numbers.items() if notes.get(key))))


def _write(flow: Flow, element: Element, links: dict[str, str], address: str = "") -> None:
    """Write the text of a note in one paragraph."""
    for child in element:
        match child.tag:
            case "t":
                flow.write(child.text or "", address)
            case "br" | "tab":
                flow.write(" ", address)
            case "hyperlink":
                target = links.get(child.get("r:id", ""), "")
                _write(
                    flow, child, links, f"{target}#{anchor}" if target and (anchor := child.get("anchor")) else target
                )
            case "fldSimple":
                _write(flow, child, links, field_address(child.get("instr", "")) or address)
            case "p":
                _write(flow, child, links, address)
                flow.write(" ")
            case name if name != "Fallback":
                _write(flow, child, links, address)
