"""Find headings and inline links, `[label](destination)`, in Markdown. Wikilinks and tags are in `notes`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from catchment.content.extract.blocks import TAG
from catchment.content.extract.prose import FILLER
from catchment.model import Entity, EntityKind, Link, LinkKind

_HEADING = re.compile(r"\n {0,3}(#{1,6})[ \t]++([^\n]++)")
_UNDERLINED = re.compile(r"\n( {0,3}[^\s>|#\x00][^\n]*+)\n(=++|--++)[ \t]*(?=\n|\Z)")
_LIST_ITEM = re.compile(r" {0,3}(?:[-*+]|[0-9]{1,9}[.)])[ \t]")
_TITLE = r"(?:\"[^\"\n]*+\"|'[^'\n]*+'|\([^()\n]*+\))"
_LINK = re.compile(
    r"\[((?>(?:[^\[\]\\\n]++|\n(?![ \t>]*\n)|\\.|\[[^\[\]\n]*+\])*))\]\((?:"
    r"[ \t]*+(?:<([^<>\n]*+)>|((?>(?:[^\s()\\]++|\\.|\((?>(?:[^\s()\\]++|\\.)*)\))*)))"
    rf"(?:[ \t\n]++{_TITLE})?[ \t]*+\)|[ \t\n]++{_TITLE}[ \t]*+\))"
)
_LABEL = r"\[(?!\^|\s*\])(?>(?:[^\[\]\\]++|\\.)+)\]"
TAGLESS = re.compile(
    rf"\n[ \t>*+.)0-9-]*+{_LABEL}:[ \t]*+\n?[ \t>]*+(?:<[^<>\n]*+>|[^\s<]\S*+)"
    rf"(?:[ \t]*+\n?[ \t>]*+{_TITLE})?[ \t]*+(?=\n|\Z)|{_LABEL}\[[^\[\]]*+\]|{TAG.pattern}"
)
"""Definitions of links (`[label]: address`), links to them (`[text][label]`) and HTML tags: there is no tag in them."""
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def headings(text: str, masked: str) -> list[Entity]:
    """Return all headings in order, with the level as detail."""
    entities = []
    if "#" in masked:
        for match in _HEADING.finditer("\n" + masked):
            start, end = match.start(2) - 1, match.end(2) - 1
            if value := _without_closing(text[start:end].strip()):
                entities.append(Entity(EntityKind.HEADING, value, str(len(match[1])), match.start(1) - 1, end))
    if "\n==" in masked or "\n--" in masked:
        entities += _underlined(text, masked)
        entities.sort(key=lambda heading: heading.start)
    return entities


def _underlined(text: str, masked: str) -> Iterator[Entity]:
    """Yield one-line headings that are underlined with `===` or `---`."""
    for match in _UNDERLINED.finditer("\n" + masked):
        before = match.start() - 2
        if (before >= 0 and masked[before] != "\n") or _LIST_ITEM.match(match[1]):
            continue
        start, end = match.start(1) - 1, match.end(1) - 1
        level = "1" if match[2][0] == "=" else "2"
        yield Entity(EntityKind.HEADING, text[start:end].strip(), level, start, match.end(2) - 1)


def _without_closing(heading: str) -> str:
    bare = heading.rstrip("#")
    return bare.rstrip() if bare != heading and (not bare or bare[-1] in " \t") else heading


def links(text: str, masked: str) -> Iterator[Link]:
    """Yield inline links and images, including images within links. Paths are percent-decoded, URLs are not."""
    if "](" not in masked:
        return
    for match in _LINK.finditer(masked):
        if link := _link_of(text, masked, match):
            yield link
        if "](" in match[1]:
            inside = (_link_of(text, masked, each) for each in _LINK.finditer(masked, match.start(1), match.end(1)))
            yield from (picture for picture in inside if picture and masked[picture.start] == "!")


def _link_of(text: str, masked: str, match: re.Match[str]) -> Link | None:
    group = 2 if match[2] is not None else 3
    destination = _ESCAPE.sub(r"\1", text[match.start(group) : match.end(group)])
    image = match.start() > 0 and masked[match.start() - 1] == "!"
    label = " ".join(_ESCAPE.sub(r"\1", text[match.start(1) : match.end(1)]).split())
    return _link(destination, label, match.start() - image, match.end(), image) if destination else None


def _link(destination: str, label: str, start: int, end: int, image: bool) -> Link:
    if _SCHEME.match(destination) or destination.startswith("//"):
        return Link(LinkKind.URL, destination, "", label, start, end)
    target, _, anchor = destination.partition("#")
    kind = LinkKind.EMBED if image else LinkKind.MARKDOWN
    return Link(kind, unquote(target).strip(), unquote(anchor).strip(), label, start, end)


def without(masked: str, links: list[Link]) -> str:
    """Return the text with these links blanked out, so that their labels and URLs are not matched again."""
    if not links:
        return masked
    parts: list[str] = []
    position = 0
    for link in sorted(links, key=lambda each: each.start):
        if link.start >= position:
            parts += masked[position : link.start], FILLER * (link.end - link.start)
            position = link.end
    return "".join((*parts, masked[position:]))
