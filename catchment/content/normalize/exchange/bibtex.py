"""Parse references in BibTeX and BibLaTeX (`.bib`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from catchment.content.normalize import tex
from catchment.errors import ResourceExhausted

START, END = "TY", "ER"
"""What a reference has that is not damaged: the first and the last tag of RIS."""
Reference = dict[str, list[str]]
"""The values of a reference by BibTeX's names of its fields."""
_MAX_ENTRY, _MAX_MACRO, _MAX_ADDED, _MAX_NAMES = 200_000, 300, 32 * 1024 * 1024, 1_000
"""Characters of an entry and of an abbreviation, and those that abbreviations may add to a file; names in a list."""
_ENTRY = re.compile(r"(?:^|(?<=\}))[ \t]*@[ \t]*([A-Za-z]+)\s*[{(](?:\s*([^\s,={}()\"]+)\s*,)?", re.MULTILINE)
_FIELD = re.compile(r"[\s,]*([\w:.-]+)\s*(?==)")
_PART = re.compile(r"\s*[=#]\s*(?:([{\"])|([^\s{}\",#=()]+))")
_MARK = re.compile(r"\\.|[{}\"]", re.DOTALL)
_COMMAND = re.compile(r"\\(?:[A-Za-z]+\*?\s*(?=\{)|([&%$#_{}]))")
_SIGNS = {"~": " ", "---": "—", "--": "–", "``": "“", "''": "”", "{": "", "}": ""}
_SIGN = re.compile("|".join(map(re.escape, _SIGNS)))
_AND = re.compile(" and ", re.IGNORECASE)


def bibtex(text: str) -> list[Reference]:
    """Return the references. A damaged one ends where a line, or the text after a brace, starts with the next.

    Raises ResourceExhausted if abbreviations make the text much longer.
    """
    _, *pieces = _ENTRY.split(text)
    entries: list[Reference] = []
    macros, room = dict[str, str](), len(text) + _MAX_ADDED
    for kind, key, body in zip(map(str.lower, pieces[::3]), pieces[1::3], pieces[2::3], strict=True):
        fields, is_whole = _fields(body[:_MAX_ENTRY], macros)
        if kind == "string":
            macros |= {name: value[:_MAX_MACRO] for name, value in fields.items()}
        elif kind not in ("comment", "preamble"):
            entries.append({name: _values(name, value) for name, value in fields.items()} | {"key": [key or ""]})
            entries[-1] |= {START: [], END: []} if is_whole else {}
            if (room := room - sum(map(len, fields.values()))) < 0:
                raise ResourceExhausted(f"abbreviations add more than {_MAX_ADDED >> 20} MB (a fixed limit)")
    return entries


def spoken(name: str) -> str:
    """Return a name in the order of speech: `Ada Berg` for `Berg, Ada`."""
    *family, first = (part.strip() for part in name.split(","))
    return " ".join(filter(None, (first, *family)))


def _fields(body: str, macros: dict[str, str]) -> tuple[dict[str, str], bool]:
    """Return the fields of an entry as written, and whether the entry ends after them."""
    at, fields = 0, dict[str, str]()
    while field := _FIELD.match(body, at):
        at, words = field.end(), ""
        while part := _PART.match(body, at):
            start, at = part.end(), _end(body, part.end(), part[1]) if part[1] else part.end()
            words += body[start : at - 1] if part[1] else macros.get(part[2].lower(), part[2])
        fields.setdefault(field[1].lower(), words)
    return fields, body[at:].lstrip(" \t\n,")[:1] in ("}", ")")


def _end(body: str, at: int, opener: str) -> int:
    """Return the place after the end of a value; beyond the text if it has none."""
    depth = int(opener == "{")
    for mark in _MARK.finditer(body, at):
        depth += {"{": 1, "}": -1}.get(mark[0], 0)
        if depth == 0 and mark[0] == ("}" if opener == "{" else opener):
            return mark.end()
    return len(body) + 1


def _values(name: str, written: str) -> list[str]:
    if name in ("doi", "url"):
        return [re.sub(r"[\s{}\\]", "", written)]
    if name in ("author", "editor"):
        return [each for each in _names(written) if each != "others"]
    return [_plain(word) for word in (re.split(r"[,;\n]", written) if name == "keywords" else (written,))]


def _names(written: str) -> Iterator[str]:
    """Yield the people of a list. A name in braces is that of an organization, which may have an `and` or a comma."""
    name = ""
    for part in _AND.split(" ".join(written.split()), maxsplit=_MAX_NAMES):
        name = f"{name} and {part}" if name else part.strip()
        if name.count("{") <= name.count("}"):
            yield _plain(name) if name.startswith("{") and name.endswith("}") else spoken(_plain(name))
            name = ""


def _plain(written: str) -> str:
    text = _COMMAND.sub(lambda command: command[1] or "", tex.with_letters(written))
    return " ".join(_SIGN.sub(lambda sign: _SIGNS[sign[0]], text).split())
