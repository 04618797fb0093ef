"""Read references: RIS (`.ris`), and those that `bibtex` parses."""

from __future__ import annotations

import re

from catchment.content.normalize.decode import declared_encoding, decode
from catchment.content.normalize.exchange.bibtex import END, START, Reference, bibtex, spoken
from catchment.model import Document

_MAX_REFERENCES, _MAX_LISTED, _MAX_NAMED = 10_000, 1_000, 20
_TAG = re.compile(r"^([A-Z][A-Z0-9]) {1,2}-[ \t]*", re.MULTILINE)
_PAIR = re.compile(r"(\w+):(\w*)")
_RIS = (
    "TI:title T1:title CT:title AU:author A1:author A2:editor ED:editor PY:year Y1:year DA:date JO:journal JF:journal "
    "JA:journal T2:journal BT:journal PB:publisher VL:volume IS:number SP:pages EP:pages DO:doi UR:url SN:isbn KW:keywords "
    "ID:key AB:abstract N2:abstract N1:note"
)
_WORDS = (
    "author:Authors editor:Editors date:Date year:Year month:Month journal:In journaltitle:In booktitle:In series:In "
    "publisher:Publisher school:Publisher institution:Publisher organization:Publisher volume:Volume number:Number "
    "pages:Pages doi:DOI url:Link isbn:ISBN keywords:Keywords key:Key abstract: note: annote: annotation:"
)
_NAMES, _LABELS = dict(_PAIR.findall(_RIS)), dict(_PAIR.findall(_WORDS))
"""BibTeX's names of the tags of RIS, and the labels of these."""
_DOI = re.compile(r"(?:https?://(?:dx\.)?doi\.org/|doi:\s*)?(10\.\S+)", re.IGNORECASE)


def references(data: bytes, media_type: str) -> Document:
    """Return each reference under its title. Authors are people, keywords tags. A file without references stays as it is."""
    text, warnings, properties = decode(data, declared_encoding(data))
    entries = bibtex(text) if media_type.endswith("bibtex") else _ris(text)
    read = entries[:_MAX_REFERENCES]
    if damaged := [number for number, entry in enumerate(read, 1) if not entry.keys() >= {START, END}]:
        warnings += (f"damaged references: {len(damaged)} (no. {', '.join(map(str, damaged[:_MAX_NAMED]))})",)
    warnings += (
        (f"references not read: {len(entries) - len(read):,}; split the file",) if len(entries) > len(read) else ()
    )
    listed = {"authors": _listed(read, "author", "editor"), **properties, "tags": _listed(read, "keywords")}
    return Document(
        text="\n\n".join(map(_written, read)) or text,
        media_type=media_type,
        title=read[0].get("title", [""])[0] or None if len(read) == 1 else None,
        properties={name: values for name, values in listed.items() if values},
        warnings=warnings,
    )


def _listed(entries: list[Reference], *names: str) -> list[str]:
    values = (value for entry in entries for name in names for value in entry.get(name, ()))
    return list(dict.fromkeys(filter(None, values)))[:_MAX_LISTED]


def _written(entry: Reference) -> str:
    lines = [f"## {next(iter(entry.get('title', ())), '') or 'Reference'}", ""]
    for name, label in _LABELS.items():
        values = filter(None, dict.fromkeys(entry.get(name, ())))
        words = ("–" if name == "pages" else ", ").join(values)
        words = _DOI.sub(r"https://doi.org/\1", words, count=1) if name == "doi" else words
        lines += ([f"- {label}: {words}"] if label else ["", words]) if words else []
    return "\n".join(lines)


def _ris(text: str) -> list[Reference]:
    _, *pieces = _TAG.split(text)
    entries: list[Reference] = []
    for tag, value in zip(map(str, pieces[::2]), pieces[1::2], strict=True):
        if tag == START or not entries or END in entries[-1]:
            entries.append({})
        name, words = _NAMES.get(tag, tag), " ".join(value.split())
        words = spoken(words) if name in ("author", "editor") else words
        words = words.rstrip("/").replace("/", "-") if name in ("year", "date") else words
        entries[-1].setdefault(name, []).append(words)
    return entries
