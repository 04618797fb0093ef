"""Find Obsidian's extensions of Markdown: wikilinks, embeds, tags, callouts, tasks, inline fields, block ids, footnotes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from catchment.content.extract.markdown import TAGLESS
from catchment.content.extract.prose import FILLER
from catchment.model import Entity, EntityKind, Link, LinkKind

# A single bracket does not end a wikilink: the target of `[[Sq]uare]]` is `Sq]uare`.
_WIKILINK = re.compile(r"\[\[(?!\[)((?>(?:[^\[\]\n]++|\](?!\])|\[(?!\[))+))\]\]")
# The characters that end a tag in Obsidian: ASCII punctuation except `_-/`, and the Unicode blocks of punctuation except
# the joiner U+200D, which is part of emoji.
_TAG = re.compile(r"#([^\s\x00\u2000-\u200c\u200e-\u206f\u2e00-\u2e7f'!\"#$%&()*+,.:;<=>?@^`{|}~\[\]\\]++)")
_CALLOUT = re.compile(r"\n[ \t]*>[ \t>]*\[!([^\]\n]+)\][+-]?[ \t]*([^\n]*)")
_TASK = re.compile(r"\n[ \t>]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]+\[([^\]\n])\][ \t]+([^\n]*)")
_BLOCK = re.compile(r"\^([A-Za-z0-9-]+)[ \t]*(?=\n|\Z)")
_FOOTNOTE = re.compile(r"\n[ \t>]*\[\^([^\]\s]+)\]:")
_INLINE_FOOTNOTE = re.compile(r"\^\[((?>(?:[^\[\]\n]++|\[[^\[\]\n]*+\])*))\]")
_FIELD_LINE = re.compile(
    r"\n[ \t>]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+(?:\[[^\]\n]\][ \t]+)?)?"
    r"([^\[\](){}<>:|#\x00\n]{1,60})::(?:[ \t]+([^\n]*)|(?=\n|\Z))"
)
_FIELD_BRACKETED = re.compile(
    r"[\[(]([^\[\](){}<>:|#\x00\n]{1,60})::[ \t]*((?>(?:[^\[\]()\n]++|\[[^\[\]\n]*+\]|\([^()\n]*+\))*))[\])]"
)


def wikilinks(text: str, masked: str) -> list[Link]:
    """Return wikilinks and embeds with target, anchor and label. The separator may be `\\|`, which tables require."""
    if "[[" not in masked:
        return []
    links = []
    for match in _WIKILINK.finditer(masked):
        start = match.start()
        before = masked[start - 1] if start else ""
        if before == "\\":
            continue
        embed = before == "!"
        kind = LinkKind.EMBED if embed else LinkKind.WIKILINK
        if link := wikilink(kind, text[match.start(1) : match.end(1)], start - embed, match.end()):
            links.append(link)
    return links


def wikilink(kind: LinkKind, inside: str, start: int = 0, end: int = 0) -> Link | None:
    """Return the link for the text between double brackets, or None if it has neither target nor anchor."""
    destination, bar, label = inside.partition("|")
    if bar:
        destination = destination.removesuffix("\\")
    target, _, anchor = destination.partition("#")
    target, anchor = target.strip(), anchor.strip()
    if not target and not anchor:
        return None
    return Link(kind, target, anchor, label.strip(), start, end)


def entities(text: str, masked: str, prose: str) -> Iterator[Entity]:
    """Yield all entities except headings. `prose` is `masked` with the links blanked out."""
    if _TAG.search(prose):
        yield from _tags(TAGLESS.sub(lambda match: FILLER * len(match[0]), f"\n{prose}")[1:])
    lines = "\n" + masked
    if "[!" in masked:
        yield from _callouts(text, lines)
    if "] " in masked or "]\t" in masked:
        yield from _tasks(text, lines)
    if "::" in prose:
        yield from _fields(text, prose)
    if "^" in masked:
        for match in _BLOCK.finditer(masked):
            if match.start() == 0 or masked[match.start() - 1].isspace():
                yield Entity(EntityKind.BLOCK, match[1], "", match.start(), match.end(1))
    if "[^" in masked or "^[" in masked:
        yield from _footnotes(text, masked)


def _tags(prose: str) -> Iterator[Entity]:
    for match in _TAG.finditer(prose):
        start = match.start()
        if start and not prose[start - 1].isspace() and not _starts_quotation(prose, start):
            continue
        value = match[1].rstrip("/")
        if value and not value.isdecimal():
            yield Entity(EntityKind.TAG, value.lower(), "", start, start + 1 + len(value))


def _starts_quotation(prose: str, position: int) -> bool:
    """Return whether only quotation marks (`>`) precede this position on its line."""
    if prose[position - 1] != ">":
        return False
    return not prose[prose.rfind("\n", 0, position) + 1 : position].strip("> \t")


def _callouts(text: str, lines: str) -> Iterator[Entity]:
    for match in _CALLOUT.finditer(lines):
        kind = match[1].partition("|")[0].strip().lower()
        title = text[match.start(2) - 1 : match.end(2) - 1].strip()
        yield Entity(EntityKind.CALLOUT, kind, title, match.start(1) - 3, match.end() - 1)


def _tasks(text: str, lines: str) -> Iterator[Entity]:
    for match in _TASK.finditer(lines):
        start, end = match.start(2) - 1, match.end(2) - 1
        yield Entity(EntityKind.TASK, text[start:end].strip(), match[1], match.start(1) - 2, end)


def _fields(text: str, prose: str) -> Iterator[Entity]:
    lines = "\n" + prose
    for pattern, first in ((_FIELD_LINE, 1), (_FIELD_BRACKETED, 0)):
        for match in pattern.finditer(lines):
            name = match[1].strip(" \t*_~")
            value = text[match.start(2) - 1 : match.end(2) - 1].strip() if match[2] else ""
            if any(letter.isalpha() for letter in name):
                yield Entity(EntityKind.FIELD, name, value, match.start(first) - 1, match.end() - 1)


def _footnotes(text: str, masked: str) -> Iterator[Entity]:
    for match in _FOOTNOTE.finditer("\n" + masked):
        yield Entity(EntityKind.FOOTNOTE, match[1], "", match.start(1) - 3, match.end() - 1)
    for match in _INLINE_FOOTNOTE.finditer(masked):
        words = text[match.start(1) : match.end(1)].strip()
        if words:
            yield Entity(EntityKind.FOOTNOTE, words, "", match.start(), match.end())
