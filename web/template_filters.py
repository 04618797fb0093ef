"""How the templates write times, numbers and names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from markupsafe import Markup, escape

from catchment.audit.verify import visible
from catchment.model import SYNC_FIGURES, ago, count, in_words, local_time, size
from catchment.search.language import type_of
from deployments.actions.desk import manifest

_CLAUSES = re.compile(r"((?<=\.) (?=[A-Z`])|; |, (?=then:? ))")
"""The separators of clauses."""
_COMMAND = re.compile("`(.+?)`")
_IS_COMMAND = re.compile("`|catchment [a-z]")
_OUTCOMES = ("succeeded", "moved", "deleted", "held", "quarantined", "skipped", "away", "decided")


def day(moment: datetime) -> str:
    """Return the local date, with the year unless it is the present one: "17 May", "8 Sep 2025"."""
    local = local_time(moment)
    return f"{local.day} {local:%b}" if local.year == datetime.now().year else f"{local.day} {local:%b %Y}"  # noqa: DTZ005


def clock(moment: datetime) -> str:
    """Return the local time of day, with the date unless it is today: "14:20:05", "17 May, 14:20"."""
    local = local_time(moment)
    is_today = local.date() == local_time(datetime.now(UTC)).date()
    return f"{local:%H:%M:%S}" if is_today else f"{day(moment)}, {local:%H:%M}"


def month(moment: datetime | None) -> str:
    """Return the local month: "May 2026"."""
    return f"{local_time(moment):%B %Y}" if moment else "Without a date"


def number(value: int) -> str:
    """Return a number with separators: "5,372"."""
    return f"{value:,}"


def mark_matches(parts: Iterable[tuple[str, bool]]) -> Markup:
    """Return a text as HTML. The parts with True are marked."""
    return Markup("").join(
        Markup("<mark>{}</mark>").format(part) if is_marked else escape(part) for part, is_marked in parts
    )


def mark_words(title: str, words: Iterable[str]) -> Markup:
    """Return a title as HTML, with the words marked."""
    pattern = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True) if word)
    pieces = re.split(rf"(?<!\w)({pattern})(?!\w)", title, flags=re.IGNORECASE) if pattern else [title]
    return mark_matches((piece, index % 2 == 1) for index, piece in enumerate(pieces))


def person(name: str) -> str:
    """Return a sender without the address, if there is a name: "Ada <ada@example.org>" becomes "Ada"."""
    return name.partition(" <")[0].strip('"') or name


def by_type(media_types: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the number of documents by the value of `type:` that finds them; most first."""
    sizes: Counter[str] = Counter()
    for media_type, documents in media_types.items():
        sizes[type_of(media_type)] += documents
    return sizes.most_common()


def kind_name(kind: str) -> str:
    """Return a kind of source in words."""
    return manifest(kind).label or manifest(kind).title


def plain(value: str) -> str:
    """Return a recorded word with spaces: "parse_error" becomes "parse error"."""
    return value.replace("_", " ")


def sentence(text: str) -> str:
    """Return a text with a capital and a full stop. A first word that is an address or a command stays unchanged."""
    capital = text[:1].upper() + text[1:] if text.partition(" ")[0].isalpha() else text
    return capital if capital.endswith((".", "?")) else f"{capital}."


def codes(text: str) -> Markup:
    """Return a text as HTML, with its `commands` as such."""
    return Markup(_COMMAND.sub(r"<code>\1</code>", str(escape(text))))


def without_commands(text: str) -> str:
    """Return the clauses of a text that name no command. For a place with a button."""
    pieces = ["", *_CLAUSES.split(text)]
    pairs = [pair for pair in zip(pieces[::2], pieces[1::2], strict=True) if not _IS_COMMAND.search(pair[1])]
    return "".join("".join(pair) for pair in pairs).lstrip("; ")


def outcomes(summary: Mapping[str, int]) -> str:
    """Return the changes of a sync in words: "3 added or updated, 1 moved"; empty without changes."""
    return ", ".join(f"{summary[key]:,} {SYNC_FIGURES[key]}" for key in _OUTCOMES if summary.get(key))


def query(address: str, parameters: Mapping[str, object], **extra: object) -> str:
    """Return an address with the parameters that have a value: "/jobs?state=pending"."""
    values = {name: value for name, value in {**parameters, **extra}.items() if value is not None}
    return f"{address}?{urlencode(values)}" if values else address


def seconds(length: timedelta) -> str:
    """Return a short duration: "0.5 s", "12 s", "3 min"."""
    total = length.total_seconds()
    return f"{total:.1f} s" if total < 10 else in_words(total)


FILTERS = {
    function.__name__: function
    for function in (
        ago,
        by_type,
        clock,
        codes,
        count,
        day,
        outcomes,
        mark_words,
        kind_name,
        mark_matches,
        month,
        number,
        person,
        plain,
        query,
        seconds,
        sentence,
        size,
        in_words,
        type_of,
        visible,
        without_commands,
    )
}
"""The filters of the templates."""
