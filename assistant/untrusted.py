"""Texts that other people wrote: cleaned of invisible characters and active markup, and fenced in the text form of an answer.

A document may contain instructions. The fence shows where it begins and ends; its random ID is new for each answer, so that no
document can contain it.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

_CONTROL_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn"}
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U00016fe4\U0001d159\U000e0000-\U000e0fff]"
)
"""Invisible characters of other categories: those with the property Default_Ignorable_Code_Point, and blank ones."""
_TAGS = (
    "abbr b blockquote br caption cite code dd del details dfn div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 hr i ins kbd"
    " li mark ol p pre q rp rt ruby s samp section small span strong sub summary sup table tbody td tfoot th thead tr u ul var"
).replace(" ", "|")
_HARMLESS = "|".join(
    (
        rf"/?(?:{_TAGS}) ?/?>",
        r"!--(?!-?>)[^<>]*-->",
        r"[\w.+-]+@[\w.-]+>",
        r"https?://[^\s<>\"'`=&\\|]*>",
    )
)
"""Matches the harmless text after a `<`: these tags without attributes, comments, and addresses that are their own text."""
_MARKUP = re.compile(rf"<(?=[a-z/!?])(?!{_HARMLESS})", re.IGNORECASE)
_IMAGE = re.compile(r"!(?=\[)(?!\[\[(?!//)[^\[\]\n:\\]*\]\](?![(\[]))")
"""The start of an image, but not of an embedded note such as ![[Statutes#Water]]."""
_PLACE = r"(?!//)[^()<>:&\\]"
_LINK = re.compile(rf"\](?=\()(?!\((?:{_PLACE}|\((?:{_PLACE})*\))*\))")
"""The end of the text of a link, unless only a place in the same library can follow: no host, no entity, no escape."""
_DEFINITION = re.compile(r"\](?=:)(?!:\s*+(?!//)[^\s<>:&\\]*+(?:\s|$))")
"""The end of the label of an address that is defined apart, with the same exception. In a quotation, `>` may precede it."""
_SAID = frozenset({"truncated", "next_offset", "offset"})
"""Fields that the last line of an answer has in words."""
_FENCE = re.compile(r"<([/\s]*untrusted)", re.IGNORECASE)


class Untrusted(BaseModel):
    """Fields with texts of other people, cleaned."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _cleaned(cls, value: Any) -> Any:
        if isinstance(value, list):
            return [cleaned(each) for each in value]
        return cleaned(value) if isinstance(value, str) else value


def cleaned(text: str) -> str:
    """Return a text without invisible characters and terminal control sequences, and with harmless markup only.

    An assistant that repeats an image makes its client request the address, which can contain text that the assistant has read.
    """
    text = _IGNORABLE.sub("", _CONTROL_SEQUENCE.sub("", text))
    if not text.isascii() or not text.isprintable():
        text = "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in _INVISIBLE)
    for start in (_IMAGE, _LINK, _DEFINITION):
        text = start.sub(r"\g<0> ", text)
    return _MARKUP.sub("‹", text)


def short(text: str, characters: int = 300) -> str:
    """Return one line of at most so many characters."""
    line = " ".join(text[: 4 * characters].split())
    return line if len(line) <= characters else f"{line[: characters - 1]}…"


def as_text(answer: BaseModel) -> str:
    """Return an answer as text, with untrusted fields, and rows that have some, between `<untrusted id=…>` and its end."""
    return "\n".join(_lines(answer, secrets.token_hex(4)))


def _lines(value: BaseModel, fence: str) -> Iterator[str]:
    for name in type(value).model_fields:
        field = getattr(value, name)
        match field:
            case Untrusted():
                yield from _fenced(field, fence)
            case [BaseModel(), *_]:
                yield from _table(name, field, fence)
            case None | [] | {}:
                continue
            case _ if name in _SAID:
                continue
            case _:
                yield f"{name}: {_plain(field)}"


def _fenced(fields: Untrusted, fence: str) -> Iterator[str]:
    yield f"<untrusted id={fence}>"
    for name, value in fields.model_dump(exclude_none=True).items():
        if text := _harmless(value, fence):
            yield f"{name}:\n{text}" if "\n" in text else f"{name}: {text}"
    yield f"</untrusted id={fence}>"


def _table(name: str, rows: Sequence[BaseModel], fence: str) -> Iterator[str]:
    """Yield the names of the columns that are not empty, and a line for each row, with tabs between the values."""
    flat = [{**row.model_dump(exclude={"untrusted"}), **_others(row)} for row in rows]
    columns = [column for column in flat[0] if any(row[column] not in (None, 0) for row in flat)]
    is_fenced = any(map(_others, rows))
    yield "\t".join([f"{name}:", *columns])
    yield from [f"<untrusted id={fence}>"] * is_fenced
    for row in flat:
        yield "\t".join(" ".join(_harmless(row[column], fence).split()) for column in columns)
    yield from [f"</untrusted id={fence}>"] * is_fenced


def _others(row: BaseModel) -> dict[str, Any]:
    fields = getattr(row, "untrusted", None)
    return fields.model_dump() if isinstance(fields, Untrusted) else {}


def _harmless(value: Any, fence: str) -> str:
    return "" if value is None else _FENCE.sub(r"‹\1", _plain(value).replace(fence, ""))


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_plain(each)}" for key, each in value.items())
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
