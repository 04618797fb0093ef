"""The query language: filters, text and refused queries."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.errors import BadInput
from catchment.ledger import Filter, FilterName, Query
from catchment.search.language import parse, sentence, without_filters, written

NOW = datetime(2026, 3, 11, 15, tzinfo=UTC)  # a Wednesday
SOURCES = {"notes": "obsidian", "mail": "imap"}


def read(text: str) -> Query:
    return parse(text, SOURCES, NOW)


def words(query: Query) -> list[list[str]]:
    return [[term.text for term in group] for group in query.wanted]


def days(query: Query) -> tuple[str, str]:
    """The first day of the only filter, a date, and the first one after it."""
    (found,) = query.filters
    assert found.name is FilterName.DATE
    first, last = (datetime.fromtimestamp(micros / 1_000_000, UTC).date().isoformat() for micros in found.values)
    return first, last


def test_filters_and_words_come_in_any_order() -> None:
    query = read('tag:bridge rust "main girder" -painted path:"My projects"')
    assert query.filters == (Filter(FilterName.TAG, ("bridge",)), Filter(FilterName.PATH, ("My projects",)))
    assert words(query) == [["rust"], ["main girder"]]
    assert [term.text for term in query.unwanted] == ["painted"]


@pytest.mark.parametrize("name", ["tag", "Tag", "TAG"])
def test_a_filter_has_its_name_in_any_case(name: str) -> None:
    typed = f"rust {name}:bridge"
    assert (read(typed).filters, words(read(typed))) == ((Filter(FilterName.TAG, ("bridge",)),), [["rust"]])
    assert (written(typed), without_filters(typed).strip()) == ((f"{name}:bridge",), "rust")
    with pytest.raises(BadInput, match="did you mean tag:"):
        read(f"{name}s:bridge")


@pytest.mark.parametrize(
    "typed", ["“main girder”", "„main girder“", "»main girder«", "«main girder»", "”main girder”", "＂main girder＂"]
)
def test_quotation_marks_of_any_language_quote(typed: str) -> None:
    ((term,),) = read(typed).wanted
    assert (term.text, term.is_quoted) == ("main girder", True)
    assert read(f"path:{typed}").filters == (Filter(FilterName.PATH, ("main girder",)),)
    assert sentence(f"rust -{typed}") == "rust"


def test_or_joins_two_terms() -> None:
    assert words(read('rust OR "main girder" OR paint bridge')) == [["rust", "main girder", "paint"], ["bridge"]]
    assert words(read("OR rust OR")) == [["rust"]]


def test_minus_before_a_filter_excludes() -> None:
    assert read("-tag:draft x").filters == (Filter(FilterName.TAG, ("draft",), is_negated=True),)


@pytest.mark.parametrize(
    "text",
    [
        "http://x.org",
        "12:30",
        "std::string",
        "Note: x",
        "key:value",
        "a:b",
        "so it is: 42",
        "port:80",
        '"tga:x"',
        "Date: 2025",
        "TO: x",
    ],
)
def test_text_with_a_colon_is_text(text: str) -> None:
    assert (read(text).filters, written(text), without_filters(text)) == ((), (), text)


@pytest.mark.parametrize(
    ("value", "first", "beyond"),
    [
        ("2025", "2025-01-01", "2026-01-01"),
        ("2025-12", "2025-12-01", "2026-01-01"),
        ("2024-2", "2024-02-01", "2024-03-01"),
        ("2025-03-14", "2025-03-14", "2025-03-15"),
        ("today", "2026-03-11", "2026-03-12"),
        ("yesterday", "2026-03-10", "2026-03-11"),
        ('"this week"', "2026-03-09", "2026-03-16"),
        ('"last week"', "2026-03-02", "2026-03-09"),
        ("wednesday", "2026-03-11", "2026-03-12"),
        ("thursday", "2026-03-05", "2026-03-06"),
        ('"last monday"', "2026-03-09", "2026-03-10"),
        ('"last 7 days"', "2026-03-04", "2026-03-12"),
        ('"last 3 weeks"', "2026-02-18", "2026-03-12"),
        ('"last month"', "2026-02-01", "2026-03-01"),
        ('"last year"', "2025-01-01", "2026-01-01"),
        ('"this year"', "2026-01-01", "2027-01-01"),
    ],
)
def test_dates(value: str, first: str, beyond: str) -> None:
    assert days(read(f"date:{value}")) == (first, beyond)


@pytest.mark.parametrize(
    ("value", "begin", "end"),
    [
        ("7d", "2026-03-04T15:00", "2026-03-12T00:00"),
        ("90m", "2026-03-11T13:30", "2026-03-12T00:00"),
        ("2w", "2026-02-25T15:00", "2026-03-12T00:00"),
        ("2026-03-01T08:30", "2026-03-01T08:30", "2026-03-01T08:31"),
        ("2026-03-01T08:30+01:00", "2026-03-01T07:30", "2026-03-01T07:31"),
    ],
)
def test_times_are_written_as_for_since(value: str, begin: str, end: str) -> None:
    wanted = [datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp() * 1_000_000 for time in (begin, end)]
    for name in ("date", "added"):
        assert [*read(f"{name}:{value}").filters[0].values] == wanted
    (after,), (before,) = read(f"after:{value}").filters, read(f"before:{value}").filters
    assert after.values[0] == before.values[1] == wanted[0]


def test_after_is_from_a_date_on_and_before_excludes_it() -> None:
    (after,), (before,) = read("after:2025").filters, read("before:2025").filters
    assert after.values[0] == before.values[1] == datetime(2025, 1, 1, tzinfo=UTC).timestamp() * 1_000_000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tga:bridge", "did you mean tag:"),
        ("tag:", "tag: needs a value, such as tag:bridge"),
        ('source:""', "needs a value"),
        ('is:""', "is: needs a value, such as is:open"),
        ("source:note", "did you mean source:notes?"),
        ("kind:github", "it can be imap, obsidian"),
        ("type:pfd", "did you mean type:pdf?"),
        ("has:teeth", "it can be attachment"),
        ("is:opne", "did you mean is:open?"),
        ("sort:name", "it can be date"),
        ("after:2025-13", "is not a date; write 2025, 2025-03, 2025-03-14, 2025-03-14T15:00, today, monday"),
        ("date:9999-12-31", "is not a date"),
        ("before:someday", "is not a date"),
        ("added:7y", "is not a date; write 2025, 2025-03, 2025-03-14, 2025-03-14T15:00, today, monday, 7d"),
    ],
)
def test_nonsense_is_refused_with_the_remedy(text: str, problem: str) -> None:
    with pytest.raises(BadInput) as refused:
        read(text)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        " OR ".join(f"w{n}" for n in range(400)),
        " ".join(f"w{n}" for n in range(51)),
        " ".join(f"-w{n}" for n in range(51)),
        " ".join(f"title:w{n}" for n in range(5_000)),
        " ".join(chr(0x4E00 + n) * 2 for n in range(400)),
        " ".join(f'"w{n} x" w{n}* -w{n} tag:w{n}' for n in range(13)),
    ],
)
def test_too_many_terms_of_any_kind_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"query: \d+ words and filters; use at most 50, or quote words as a phrase"):
        read(text)


def test_repeated_terms_count_once() -> None:
    assert words(read("girder " * 14_000)) == [["girder"]]
    assert words(read("girder OR " * 14_000 + "rust")) == [["girder", "rust"]]
    assert len(read("tag:bridge " * 5_000).filters) == 1
    assert len(words(read(" ".join(f"w{n}" for n in range(50))))) == 50


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read(text)
    except BadInput as refused:
        assert (":" in text or len(text) > 100) and "\n" not in str(refused)


@given(st.dates(date(1, 1, 2), date(9998, 12, 30)), st.sampled_from(["week", "month", "year"]))
def test_whole_spans_hold_their_day(day: date, unit: str) -> None:
    now = datetime(day.year, day.month, day.day, tzinfo=UTC)
    (found,) = parse(f'date:"this {unit}"', {}, now).filters
    assert found.values[0] <= now.timestamp() * 1_000_000 < found.values[1]


@pytest.mark.parametrize("name", ["source", "kind", "lang"])
def test_repeated_filters_on_a_single_value_find_any_of_them(name: str) -> None:
    first, second = {"source": ("notes", "mail"), "kind": ("obsidian", "imap"), "lang": ("de", "en")}[name]
    sources = {"notes": "obsidian", "mail": "imap"}
    query = parse(f"x {name}:{first} {name}:{second} {name}:{first} -{name}:{first} tag:a tag:b", sources, NOW)
    assert query.filters == (
        Filter(FilterName(name), (first, second)),
        Filter(FilterName(name), (first,), is_negated=True),
        Filter(FilterName.TAG, ("a",)),
        Filter(FilterName.TAG, ("b",)),
    )


def test_tasks_are_no_type_of_document() -> None:
    assert [len(each.values) for each in read("type:task type:pdf").filters] == [1, 1]
