"""The title of a text: the declared title, or else its only heading of the first level.

A title in properties or metadata is a matter of the reader; both precede.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from catchment.content.normalize import tex

RST, ORG, ASCIIDOC, TEX = "text/x-rst", "text/x-org", "text/x-asciidoc", "text/x-tex"
BRACES = r"\s*(?:\[[^\]\n]*\]\s*)?\{(?P<words>(?>(?:[^{}\\]|\\.|\{(?>(?:[^{}\\\n]|\\.|\{[^{}\n]*\})*)\}){0,500}))\}"
"""An argument of TeX, after an optional one."""
_DECLARED = {
    RST: re.compile(r"^\.\. title::[ \t]+(?P<words>.+)", re.MULTILINE),
    TEX: re.compile(r"^[^%\n]*\\title" + BRACES, re.MULTILINE),
    ORG: re.compile(r"^#\+title:[ \t]*(?P<words>\S.*)", re.MULTILINE | re.IGNORECASE),
    ASCIIDOC: re.compile(r"\A(?>(?:(?:[ \t]*|(?://|:).*)\n)*)#[ \t]+(?P<words>.+)"),
}
_COMMAND = re.compile(r"\\label\{[^{}]*\}|\\[A-Za-z]+\*?[ \t]*|\\(?=\W)|[{}]")
_MARK = re.compile(
    r"\n {0,3}(?:(#{1,6})[ \t]++([^\n]++)|(`{3,}+|~{3,}+)(?s:[^\n]*+\n.*?(?:^ {0,3}\3[`~]*[ \t]*$|\Z))|(<!--))"
    r"|\n[ \t]*(?=\n {0,3}(?![-*+>|#=]|\d{1,9}[.)][ \t])([^\s][^\n]*+)\n(==++|--++)[ \t]*(?=\n|\Z))",
    re.MULTILINE,
)
"""A heading with `#`, fenced code, the start of a comment, or the blank line above a heading underlined with `===` or `---`."""
_CLOSING = re.compile(r"(?:\A|[ \t])#+\Z")
_LINKED = re.compile(r"!?\[\[(?:[^\[\]|\n]*\|)?([^\[\]|\n]*)\]\]|!?\[([^\[\]\n]*)\]\([^()\n]*\)")


def title_of(headings: Iterable[tuple[int, str]]) -> str | None:
    """Return the first of these headings (level, words) if it has level 1 and no other has, else None.

    This is the rule for every text that declares no title: with headings of one rank only, a document is named by its file.
    Headings without words do not count.
    """
    worded = ((level, words) for level, words in headings if words)
    level, title = next(worded, (0, ""))
    return title if level == 1 and all(level > 1 for level, _ in worded) else None


def declared_title(text: str, kind: str) -> str | None:
    """Return the title that a text without its code blocks declares in its markup."""
    match = _DECLARED[kind].search(text)
    return words(match["words"], kind) or None if match else None


def words(written: str, kind: str) -> str:
    """Return the words of a title on one line, without the commands of TeX and the closing marks of AsciiDoc."""
    if kind == TEX:
        written = _COMMAND.sub("", tex.with_letters(written)).replace("~", " ")
    elif kind == ASCIIDOC:
        written = re.sub(r"(?<=\s)[=#]+\s*\Z", "", written)
    return " ".join(written.split())


def headings(text: str) -> Iterator[tuple[int, str]]:
    """Yield level and words of the Markdown headings outside fenced code and comments. Linear even if no comment ends."""
    text, place = f"\n\n{text}", 0
    last_end = text.rfind("-->")
    while mark := _MARK.search(text, place):
        place = mark.end()
        if mark[1]:
            heading = mark[2].strip()
            yield len(mark[1]), unlinked(_CLOSING.sub("", heading) if heading.endswith("#") else heading)
        elif mark[5]:
            yield 1 if mark[6].startswith("=") else 2, unlinked(mark[5])
        elif mark[4] and place <= last_end:
            place = text.index("-->", place) + len("-->")


def unlinked(text: str) -> str:
    """Replace links by their labels, including linked images."""
    for _ in range(2 if "[" in text else 0):
        text = _LINKED.sub(lambda link: link[1] or link[2] or "", text)
    return text.strip()
