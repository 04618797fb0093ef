"""Search on a real ledger: word forms, corrections, filters and totals."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from catchment.content.normalize.formats import READERS
from catchment.errors import BadInput, TookTooLong
from catchment.ledger import Ledger, time_limit
from catchment.ledger.library import query_sql
from catchment.model import Document, Entity, EntityKind
from catchment.search.language import TYPES, type_of
from catchment.search.results import Results
from catchment.search.search import search
from catchment.search.widen import is_near
from catchment.views.documents import document
from tests.documents import document_named
from tests.ledger.world import World, content, delivered, note

pytestmark = pytest.mark.databases

NOW = datetime(2026, 3, 11, tzinfo=UTC)


_ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 10000000000) SELECT max(n) FROM t"


def put(world: World, locator: str, text: str, *, entities: Sequence[Entity] = (), **of_document: object) -> None:
    world.see(note(locator, content(text)))
    batch = world.claim()
    title = locator.rpartition("/")[2].removesuffix(".md")
    done = delivered(batch.jobs[0].id, text, title=title, entities=entities)
    document = Document(**{"text": text, "media_type": "text/markdown", **of_document})  # type: ignore[arg-type]
    world.ledger.queue.deliver(batch.token, [replace(done, document=document)])


def ask(world: World, text: str, **how: int) -> Results:
    return search(world.ledger, text, NOW, **how)  # type: ignore[arg-type]


def found(world: World, text: str) -> list[str]:
    return [hit.item for hit in ask(world, text).hits]


@pytest.mark.parametrize(
    ("text", "language", "query"),
    [
        ("The girder is rusty", "en", "girders"),
        ("The girders are rusty", "en", "girder"),
        ("She was running", "en", "runs"),
        ("Die Häuser am Fluss", "de", "Haus"),
        ("Das Haus am Fluss", "de", "Häuser"),
        ("les chevaux noirs", "fr", "noire"),
        ("красивые дома", "ru", "красивая"),
        ("اشترى العسل من السوق", "ar", "عسل"),
        ("عسل من السوق", "ar", "العسل"),
        ("بالعسل والخبز", "ar", "العسل"),
    ],
)
def test_other_forms_of_a_word_are_found(world: World, text: str, language: str, query: str) -> None:
    put(world, "a.md", text, language=language)
    put(world, "b.md", "Something else entirely", language="en")
    results = ask(world, query)
    assert [hit.item for hit in results.hits] == ["a.md"]
    assert results.corrected == []


def test_exact_word_form_ranks_first(world: World) -> None:
    put(world, "many.md", "two girders")
    put(world, "one.md", "one girder")
    put(world, "none.md", "nothing of the kind")
    assert found(world, "girder") == ["one.md", "many.md"]
    assert found(world, "girders") == ["many.md", "one.md"]
    assert found(world, '"girder"') == ["one.md"], "what is quoted is meant as it is"


@pytest.mark.parametrize("query", ["girdr", "grider", "gilder", "girdder", "corodded girder", "Girdr"])
def test_a_word_that_occurs_nowhere_is_corrected(world: World, query: str) -> None:
    put(world, "a.md", "The corroded girder")
    put(world, "b.md", "Quite another thing")
    results = ask(world, query)
    assert [hit.item for hit in results.hits] == ["a.md"]
    ((word, instead),) = [(one.text, one.corrections) for one in results.corrected]
    assert (word, instead) == (query.split(maxsplit=1)[0], ("corroded" if "corodded" in query else "girder",))


def test_a_word_that_occurs_is_not_corrected(world: World) -> None:
    put(world, "a.md", "The guilder of 1650")
    put(world, "b.md", "The gilder of frames")
    assert found(world, "gilder") == ["b.md"]
    assert ask(world, "guilder").corrected == []


def test_rare_misspelling_also_finds_the_frequent_word(world: World) -> None:
    put(world, "typo.md", "the rudedr of the boat")
    for n in range(4):
        put(world, f"{n}.md", f"the rudder, part {n}")
    results = ask(world, "rudedr")
    assert [hit.item for hit in results.hits] == ["typo.md", "0.md", "1.md", "2.md", "3.md"]
    ((word, count, instead),) = [(one.text, one.count, one.corrections) for one in results.corrected]
    assert (word, count, instead) == ("rudedr", 1, ("rudder",))
    assert ask(world, "rudder").corrected == []
    assert found(world, '"rudedr"') == ["typo.md"]


def test_a_form_of_a_word_is_no_reason_for_a_correction(world: World) -> None:
    put(world, "a.md", "They retire early", language="en")
    put(world, "b.md", "They are returning", language="en")
    results = ask(world, "retiring")
    assert ([hit.item for hit in results.hits], results.corrected) == (["a.md"], [])


def test_both_sides_of_or_are_found_in_other_forms(world: World) -> None:
    put(world, "a.md", "girders", language="en")
    put(world, "b.md", "painting", language="en")
    assert sorted(found(world, "girder OR paint")) == ["a.md", "b.md"]


@pytest.mark.parametrize("query", ["cat", "x1", "-girdr bridge", "girdr*", '"girdr"'])
def test_queries_that_are_not_corrected(world: World, query: str) -> None:
    put(world, "a.md", "A girder, a cap and y1")
    assert ask(world, query).hits == []


def test_partial_matches_are_returned_as_a_fallback(world: World) -> None:
    put(world, "a.md", "rust and paint")
    put(world, "b.md", "rust")
    put(world, "c.md", "a varnish for doors")
    results = ask(world, "rust paint varnish")
    first, *others = (hit.item for hit in results.hits)
    assert (first, sorted(others), results.is_partial) == ("a.md", ["b.md", "c.md"], True)
    assert not ask(world, "rust paint").is_partial
    assert ask(world, "putty lacquer").hits == []


def test_words_near_each_other_count_more_than_scattered_ones(world: World) -> None:
    apart = " and then something else" * 15
    put(world, "scattered.md", f"the spare ladder{apart} the key{apart} a garage")
    put(world, "together.md", f"where they met{apart}. On the wall of the garage: a spare key.{apart}{apart}")
    for n in range(5):
        put(world, f"{n}.md", "a text about other things")
    first, second = ask(world, "where is the spare key for the garage").hits
    assert (first.item, second.item) == ("together.md", "scattered.md")
    assert first.score > 2 * second.score


def test_words_of_a_name_are_near_all_words_of_its_text(world: World) -> None:
    apart = " and then something else" * 15
    put(world, "Garage.md", f"where they met{apart} behind the mirror hangs a spare one")
    put(world, "scattered.md", f"the spare{apart} the garage")
    assert found(world, "where is the spare for the garage") == ["Garage.md", "scattered.md"]


def test_date_before_1970_is_listed(world: World) -> None:
    put(world, "old.md", "valve", created=datetime(1962, 3, 1, tzinfo=UTC))
    put(world, "new.md", "pump", created=datetime(2026, 3, 1, tzinfo=UTC))
    assert found(world, "source:notes") == ["new.md", "old.md"]


@pytest.mark.parametrize(
    "unknown",
    ["Xqkana", "XK99", "XK-99", "HttpQkanaFactory", "qkana_factory", "2019", "q7.11", "a@qkana.example", "qk*"],
)
def test_no_word_is_required_if_no_document_has_it(world: World, unknown: str) -> None:
    put(world, "a.md", "the faulty thermostat valve; the radiator in the nursery stays cold")
    put(world, "b.md", "a valve")
    for query in ("thermostat valve {}", "{} thermostat valve", "thermostat valve {} nursery cold", "valve 2018 {}"):
        results = ask(world, query.format(unknown))
        first = results.hits[0].item
        assert first in {"a.md", "b.md"} if "2018" in query else first == "a.md", query
        assert results.is_partial
    assert ask(world, f'thermostat "no valve" {unknown}').total == 0, "a phrase is required"


def test_a_document_with_the_identifier_precedes_one_with_a_common_word(world: World) -> None:
    put(world, "a.md", "invoice for a valve and a pump")
    put(world, "b.md", "invoice for a pump")
    put(world, "c.md", "XK-99 is on the boiler")
    assert found(world, "invoice XK99 lacquer")[0] == "c.md"


def test_common_words_do_not_count_in_partial_matches(world: World) -> None:

    for n in range(25):
        put(world, f"{n}.md", f"the word {n} of the page")
    put(world, "a.md", "varnish for a hull")
    results = ask(world, "the varnish of the keel")
    assert ([hit.item for hit in results.hits], results.is_partial) == (["a.md"], True)
    assert ask(world, "the word").total == 25
    assert ask(world, "the of varnishing nowhere").total == 1
    assert ask(world, "the of " * 3 + '"nowhere at all"').total == 0


def test_one_of_two_words_is_enough_with_or(world: World) -> None:
    put(world, "a.md", "rust")
    put(world, "b.md", "paint")
    put(world, "c.md", "wood")
    assert sorted(found(world, "rust OR paint")) == ["a.md", "b.md"]


def test_filters_narrow_the_hits(world: World) -> None:
    tags = [Entity(EntityKind.TAG, "work/bridge", "", 0, 1)]
    put(world, "projects/bridge.md", "rust", entities=tags, language="en", author="Maja Lind")
    put(world, "100%.md", "rust here", language="de", media_type="application/pdf")
    for query, expected in {
        "tag:work": ["projects/bridge.md"],
        "tag:work/bridge": ["projects/bridge.md"],
        "tag:nothing": [],
        "-tag:work": ["100%.md"],
        "has:tag": ["projects/bridge.md"],
        "path:projects": ["projects/bridge.md"],
        "path:100%": ["100%.md"],
        "path:1%0": [],
        "title:BRIDGE": ["projects/bridge.md"],
        "lang:de": ["100%.md"],
        "type:pdf": ["100%.md"],
        "type:application/pdf": ["100%.md"],
        "from:lind": ["projects/bridge.md"],
        "-from:lind": ["100%.md"],
        "source:notes lang:en": ["projects/bridge.md"],
        "source:NOTES lang:en": ["projects/bridge.md"],
        "kind:obsidian lang:en": ["projects/bridge.md"],
    }.items():
        for words in ("rust ", ""):
            assert found(world, words + query) == expected, query


def test_has_code_finds_definitions_and_blocks_of_code(world: World) -> None:
    put(world, "a.md", "before\n\n- ```python\n  x = 1\n  ```")
    put(world, "b.md", "~ ~~~ `code` in a line")
    put(world, "c.md", "before\n~~~\nx\n~~~")
    put(world, "d.py", "def f(): ...", entities=[Entity(EntityKind.SYMBOL, "f", "function", 0, 12)])
    assert {*found(world, "has:code")} == {"a.md", "c.md", "d.py"}
    assert found(world, "-has:code") == ["b.md"]


@pytest.mark.parametrize("query", ["749.90", "749.9", "12", "running", "2026-06-01", "cellar", '"-3.25"'])
def test_note_is_found_by_the_values_of_its_properties(world: World, query: str) -> None:
    values = {
        "cost": 749.9,
        "rooms": [12, "cellar"],
        "done": True,
        "status": "running",
        "due": "2026-06-01",
        "level": -3.25,
    }
    put(world, "a.md", "A pump", properties=values)
    put(world, "b.pdf", "Twelve pages", properties={"pages": 12}, media_type="application/pdf")
    assert found(world, query) == ["a.md"]
    assert found(world, "true") == []


def test_properties_of_a_note_are_shown_in_words(world: World) -> None:
    values = {
        "tags": ["a"],
        "Aliases": "Pump",
        "title": "a",
        "cost": 749.9,
        "done": False,
        "empty": None,
        "partners": ["[[People/Ada|Ada L.]]", "[[Bo]]"],
        "type": {"ends": [1, 2], "of": "pump"},
    }
    expected = {"cost": "749.9", "done": "no", "partners": "Ada L., Bo", "type": "ends: 1, 2; of: pump"}
    for media_type, facts in {"text/markdown": expected, "application/pdf": {}}.items():
        put(world, "a.md", f"A pump in {media_type}", properties=values, media_type=media_type)
        assert document(document_named(world.ledger, "a.md")).facts == facts


def test_type_finds_exactly_the_documents_that_it_names(world: World) -> None:
    for media_type in (*READERS, "application/x-from-elsewhere"):
        put(world, f"{media_type}.bin", f"A text of {media_type}", media_type=media_type)
    of_type: dict[str, set[str]] = defaultdict(set)
    for media_type in world.ledger.library.types():
        of_type[type_of(media_type)].add(f"{media_type}.bin")
        hits = ask(world, f"type:{media_type}", limit=200).hits
        assert [hit.item for hit in hits] == [f"{media_type}.bin"]
    assert {name for name in of_type if "/" in name} == {"application/x-from-elsewhere"}
    assert {*of_type} - {"application/x-from-elsewhere"} == {*TYPES} - {"issue", "pull", "task"}
    for name, expected in of_type.items():
        results = ask(world, f"type:{name}", limit=200)
        assert ({hit.item for hit in results.hits}, results.total) == (expected, len(expected)), name


def test_document_with_another_title_is_found_by_the_name_of_its_file(world: World) -> None:
    def put_titled(locator: str, title: str) -> None:
        world.see(note(locator, content(locator)))
        batch = world.claim()
        world.ledger.queue.deliver(batch.token, [delivered(batch.jobs[0].id, locator, title=title)])

    put_titled("help/Call-Outs v1.2.md", "Change the title")
    put_titled("md/Müller", "Invoice")
    put_titled("INBOX;UIDVALIDITY=7;UID=12", "Regatta")
    for query, expected in {
        "title:call-outs": ["help/Call-Outs v1.2.md"],
        'title:"outs v1.2"': ["help/Call-Outs v1.2.md"],
        'title:"change the title"': ["help/Call-Outs v1.2.md"],
        "title:muller": ["md/Müller"],
        "title:invoice": ["md/Müller"],
        "title:md": [],
        "title:help": [],
        "title:12": [],
        "title:inbox": [],
        "title:regatta": ["INBOX;UIDVALIDITY=7;UID=12"],
    }.items():
        assert found(world, query) == expected, query


def test_copy_that_passes_the_filter_is_shown(world: World) -> None:
    put(world, "old/a.md", "the same")
    put(world, "new/b.md", "the same")
    (hit,) = ask(world, "same path:new").hits
    assert (hit.item, len(hit.places)) == ("new/b.md", 2)


def test_pages_are_consecutive_with_a_constant_total(world: World) -> None:
    for n in range(5):
        put(world, f"{n}.md", f"rust {n}")
    pages = [ask(world, "rust", limit=2, offset=offset) for offset in (0, 2, 4, 6)]
    assert [len(page.hits) for page in pages] == [2, 2, 1, 0]
    assert [page.total for page in pages[:3]] == [5, 5, 5]
    assert len({hit.item for page in pages for hit in page.hits}) == 5
    assert not pages[3].is_partial


def test_links_of_notes_do_not_clutter_a_snippet(world: World) -> None:
    put(world, "a.md", "See [[Bridges/Main girder|the girder]] and [[rust]], or ![[Girder plan]].")
    (hit,) = ask(world, "girder").hits
    assert hit.snippet == "See the [girder] and rust, or [Girder] plan."


def test_snippet_has_the_most_and_rarest_words(world: World) -> None:
    for n in range(30):
        put(world, f"{n}.md", f"pump number {n}")
    filler = " and so on" * 30
    put(world, "a.md", f"the pump{filler} the pump leaks{filler} the leak of the pump drips{filler}")
    assert "the [leak] of the [pump] [drips]" in ask(world, "pump leak drips").hits[0].snippet
    assert "the [pump] [leaks] and" in ask(world, "pump leaks OR absent").hits[0].snippet


@pytest.mark.parametrize(
    ("text", "snippet"),
    [
        ("## The girder\n\nis **very *rusty*** and _old_", "The [girder] is very rusty and old"),
        ('![A girder](img/girder.png) seen [here](https://x.org/a_(b) "girder")', "A [girder] seen here"),
        ("[![girder](a.png)](https://x.org) of steel", "[girder] of steel"),
        ("| part | state |\n|---|:-:|\n| girder | rusty |", "part state [girder] rusty"),
        ("- [ ] paint the girder\n1. [x] done\n> - [-] rent\n- [?] a", "☐ paint the [girder] ☑ done ☒ rent ? a"),
        (
            r"a girder $\hat{x}_{k|k-1} = A_k$ of `_a_ [b]` and _c_",
            r"a [girder] $\hat{x}_{k|k-1} = A_k$ of _a_ [b] and c",
        ),
        ("a girder: $5 and _so_ $6, $$\nx_{1} * y_{1}\n$$", "a [girder]: $5 and so $6, $$ x_{1} * y_{1} $$"),
        ("<details><summary>The girder</summary>is<br>old</details>", "The [girder] is old"),
        ('<kbd>Ctrl</kbd>+<kbd>C</kbd> <img alt="girder"> a < b > c <T>', 'Ctrl+C <img alt="[girder]"> a < b > c <T>'),
        ("The girder[^1] is old.\n\n[^1]: As [seen], [^a-z] [ ]", "The [girder] is old. As [seen], [^a-z] [ ]"),
        ("a %% old one %% girder %%\nof\nrust\n%% of steel<!-- TODO -->", "a [girder] of steel"),
        ("%% the girder %% <!-- a girder -->", "the [girder] a [girder]"),
        ('<%* tp.date.now("YYYY") -%>\n{{date}} girder {{title}} is <% tp.file.title %>', "[girder] is"),
        ("```girder\nrust\n```\n> ~~~~ python\n> x\n> ~~~~\n- ```\n  y\n  ```", "[girder] rust x y"),
        ("{{girder}} costs 5% {a} <T>", "[girder] costs 5% {a} <T>"),
        ("girder_of_steel 2 * 3 * 4, a == b == c [1]", "[girder]_of_steel 2 * 3 * 4, a == b == c [1]"),
        ("> [!note] Seen\n> a `girder` {% of %} steel", "Seen a [girder] steel"),
    ],
)
def test_snippet_has_no_markup(world: World, text: str, snippet: str) -> None:
    put(world, "a.md", text)
    assert ask(world, "girder").hits[0].snippet == snippet


def test_marks_are_told_from_other_brackets(world: World) -> None:
    put(world, "a.py", "rust[girder] = [1] + girder", media_type="text/x-python")
    (hit,) = ask(world, "girder").hits
    assert hit.snippet == "rust[[girder]] = [1] + [girder]"
    assert [part for part, is_marked in hit.parts if is_marked] == ["girder", "girder"]
    assert "".join(part for part, _ in hit.parts) == "rust[girder] = [1] + girder"


def test_snippet_of_code_is_unchanged(world: World) -> None:
    put(world, "a.py", "[[girder]] = **x**  # see [a](b)", media_type="text/x-python")
    assert ask(world, "girder").hits[0].snippet == "[[[girder]]] = **x** # see [a](b)"


def test_snippets_mark_parts_of_identifiers(world: World) -> None:
    put(world, "a.md", "class HttpClientFactory: retry_after = PDFs")
    for query, snippet in {
        "client": "class Http[Client]Factory: retry_after = PDFs",
        "ClientFactory": "class Http[ClientFactory]: retry_after = PDFs",
        "http client": "class [HttpClient]Factory: retry_after = PDFs",
        "fact*": "class HttpClient[Factory]: retry_after = PDFs",
        '"client"': "class HttpClientFactory: retry_after = PDFs",
        "retry": "class HttpClientFactory: [retry]_after = PDFs",
    }.items():
        for hit in ask(world, query).hits:
            assert hit.snippet == snippet, query
    assert found(world, "client") == ["a.md"]


def test_hits_in_code_name_the_definition(world: World) -> None:
    text = "def first():\n    return 1\n\ndef second():\n    return girder\n"
    symbols = [
        Entity(EntityKind.SYMBOL, "first", "function", 4, 9),
        Entity(EntityKind.SYMBOL, "second", "function", 32, 38),
    ]
    put(world, "a.py", text, entities=symbols, media_type="text/x-python")
    assert [hit.symbol for hit in ask(world, "girder").hits] == ["second"]
    assert [hit.symbol for hit in ask(world, "first").hits] == ["first"]


def test_hit_of_an_issue_has_its_page_number_and_state(world: World) -> None:
    world.see(note("o/r#12", attributes={"state": "open"}))
    batch = world.claim()
    metadata = {"kind": "issue", "number": 12, "url": "https://example.org/o/r/issues/12"}
    world.ledger.queue.deliver(batch.token, [delivered(batch.jobs[0].id, "girder", metadata=metadata)])
    (hit,) = ask(world, "girder").hits
    assert (hit.url, hit.number, hit.state) == ("https://example.org/o/r/issues/12", 12, "open")


def test_issues_are_filtered_by_state_label_and_kind(world: World) -> None:
    of = {
        "o/r#1": ("issue", "open", ["Bug"]),
        "o/r#2": ("issue", "closed", []),
        "o/r#3": ("pull", "merged", ["bug", "needs review"]),
    }
    world.see(*(note(one, one, attributes={"state": state, "labels": its}) for one, (_, state, its) in of.items()))
    batch = world.claim(3)
    rows = [delivered(job.id, job.item.locator, metadata={"kind": of[job.item.locator][0]}) for job in batch.jobs]
    world.ledger.queue.deliver(batch.token, rows)
    put(world, "plain.md", "an open question with a label")
    for query, numbers in {
        "is:open": {1},
        "is:closed": {2, 3},
        "-is:open type:issue": {2},
        "type:pull": {3},
        "is:open type:issue label:bug": {1},
        'label:"Needs review"': {3},
    }.items():
        assert set(found(world, query)) == {f"o/r#{number}" for number in numbers}, query


def test_tasks_are_found_by_state_words_and_due_date(world: World) -> None:
    lines = {" ": "paint the girder 📅 2026-05-01", "/": "order rust [due:: 2026-04-01]", "x": "sweep", "-": "rent"}
    tasks = [Entity(EntityKind.TASK, text, status) for status, text in lines.items()]
    text = "\n".join(["the bridge", *(f"- [{status}] {text}" for status, text in lines.items())])
    for name in ("Bridge.md", "Copy.md"):
        put(world, name, text, entities=tasks)
    put(world, "Rust.md", "no task", entities=[Entity(EntityKind.TASK, "", " ")])
    for query, expected in {
        "type:task is:open": ["◪ order rust [due:: 2026-04-01]", "☐ paint the girder 📅 2026-05-01"],
        "type:task is:closed": ["☑ sweep", "☒ rent"],
        "type:task -is:open sweep": ["☑ [sweep]"],
        "type:task girder": ["☐ paint the [girder] 📅 2026-05-01"],
        "type:task bridge rust": ["◪ order [rust] [due:: 2026-04-01]"],
        "type:task is:open -rust": ["☐ paint the girder 📅 2026-05-01"],
        "type:task is:merged": [],
    }.items():
        assert [hit.snippet for hit in ask(world, query).hits] == expected, query
    results = ask(world, "type:task", limit=1, offset=1)
    assert (results.total, [hit.state for hit in results.hits]) == (4, ["open"])
    assert results.hits[0].places == (("notes", "Bridge.md"), ("notes", "Copy.md"))
    assert [hit.title for hit in ask(world, "-type:task bridge").hits] == ["Bridge"]


def test_unanswered_is_the_last_message_of_another_person(world: World) -> None:
    sent, draft = {"labels": ["\\Sent"]}, {"flags": ["\\Draft"]}
    mails: dict[str, tuple[str, dict[str, object]]] = {
        "asked": ("", {}),
        "reply": ("asked", sent),
        "again": ("reply", {}),
        "drafted": ("again", draft),
        "copied": ("", {}),
        "copied too": ("", sent),
        "marked": ("", {"flags": ["\\Answered", "\\Seen"]}),
        "list": ("", {}),
        "no reply": ("", {}),
        "saved": ("", {"flags": None}),
    }
    for day, (name, (answers, attributes)) in enumerate(mails.items(), 1):
        flags = {name: value for name, value in ({"flags": []} | attributes).items() if value is not None}
        world.see(note(name, content(name), attributes=flags))
        properties = {"message-id": name.removesuffix(" too"), "references": [answers] if answers else []}
        properties |= {"list-id": "news"} if name == "list" else {}
        author = "Shop <no-reply@example.org>" if name == "no reply" else "Nora Replyson <nora@example.org>"
        batch = world.claim()
        done = delivered(batch.jobs[0].id, name, title=name)
        created = datetime(2026, 3, day, tzinfo=UTC)
        subject = name.removesuffix(" too")
        document = Document(name, "message/rfc822", subject, author=author, created=created, properties=properties)
        world.ledger.queue.deliver(batch.token, [replace(done, document=document)])
    assert found(world, "is:unanswered") == ["again"]
    assert set(found(world, "-is:unanswered")) == set(mails) - {"again"}


def test_newest_documents_come_first_by_request(world: World) -> None:
    for number, day in enumerate((3, 9, 1)):
        put(world, f"{number}.md", "pump " * (number + 1), created=datetime(2026, 3, day, tzinfo=UTC))
    put(world, "other.md", "valve", created=datetime(2026, 3, 10, tzinfo=UTC))
    assert found(world, "pump sort:date") == ["1.md", "0.md", "2.md"]
    assert found(world, "where is the pump sort:date") == ["1.md", "0.md", "2.md"]
    assert found(world, "sort:date")[:2] == ["other.md", "1.md"]
    assert ask(world, "pump valve sort:date").total == 0


def test_documents_are_found_by_their_arrival(world: World) -> None:
    put(world, "a.md", "pump", created=datetime(2020, 1, 1, tzinfo=UTC))
    arrived = world.clock.moment.date().isoformat()
    assert (found(world, f"added:{arrived}"), found(world, "added:2020")) == (["a.md"], [])
    assert found(world, f"date:{arrived}") == []


def test_misspelled_tag_or_folder_names_the_nearest(world: World) -> None:
    put(world, "My Letters/a.md", "words", entities=[Entity(EntityKind.TAG, "irish/music", "", 0, 1)])
    assert found(world, "tag:Irish") == found(world, 'in:"my letters"') == ["My Letters/a.md"]
    for query, nearest in {
        "tag:irsh": "tag:irish",
        "tag:musik": "tag:irish/music",
        "in:my-leters": 'in:"my letters"',
    }.items():
        with pytest.raises(BadInput, match=f"is not known; did you mean {nearest}"):
            ask(world, query)
    assert found(world, "tag:zebra") == found(world, "-tag:irsh tag:zebra") == []
    assert (
        ask(world, "words tag:zebra in:q").notice == "tag:zebra, in:q: not known; no document has such a tag or folder"
    )


def test_source_as_a_folder_is_named(world: World) -> None:
    put(world, "a.md", "words")
    (source,) = world.ledger.sources.all()
    with pytest.raises(BadInput, match=f"in:{source.name} is not known; did you mean source:{source.name}"):
        ask(world, f"words in:{source.name}")
    put(world, f"{source.name}/b.md", "words")
    assert found(world, f"words in:{source.name}") == [f"{source.name}/b.md"]


def test_results_show_how_the_query_was_understood(world: World) -> None:
    put(world, "a.md", "two girders, greenhouse", language="en")
    understood = ask(world, 'girder green house -rust "two girders" path:a').understood
    assert [(word.text, word.count, word.forms, word.parts) for word in understood.words] == [
        ("girder", 0, ("girders",), ()),
        ("green", 0, (), ("greenhouse",)),
        ("house", 0, (), ("greenhouse",)),
        ("two girders", 0, (), ()),
    ]
    assert (understood.excluded, understood.filters) == (("rust",), ("path:a",))


def test_unknown_filters_are_refused(world: World) -> None:
    with pytest.raises(BadInput):
        ask(world, "tga:bridge")


@pytest.mark.parametrize(
    ("word", "other", "distance"),
    [
        ("a", "a", 0),
        ("ab", "ba", 1),
        ("girder", "girdr", 1),
        ("kitten", "sitting", 3),
        ("", "abc", 3),
        ("abcd", "badc", 2),
    ],
)
def test_distance_between_words(word: str, other: str, distance: int) -> None:
    assert [is_near(word, other, most) for most in range(distance + 2)] == [False] * distance + [True, True]
    assert is_near(other, word, distance)


def test_common_word_ranks_only_the_latest_matches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(9):
        put(world, f"{n}.md", f"water of the river, part {n}")
    assert (ask(world, "water").total, ask(world, "water").is_capped) == (9, False)
    monkeypatch.setattr(query_sql, "_MOST", 4)
    monkeypatch.setattr("catchment.search.search.DEPTH", 4)
    for query in ("water", "water -hill", "river water", "type:text/markdown"):
        results = ask(world, query, limit=3)
        assert (len(results.hits), results.total, results.is_capped) == (3, 4, True), query
        if results.understood.words:
            assert {hit.item for hit in results.hits} <= {"5.md", "6.md", "7.md", "8.md"}
    assert sorted(found(world, "water path:0.md")) == ["0.md"], "a filter applies before"
    assert len(ask(world, "water", limit=9).hits) == 9


@pytest.mark.parametrize(
    "query",
    [
        " ".join(f"w\u043e\u0439{n} OR {chr(97 + n % 26)}{n}" for n in range(25)),
        " ".join(f"{chr(0x4E00 + n)}{chr(0x5E00 + n)}" for n in range(50)),
        " ".join(f"-w{n}" for n in range(49)) + " rust",
        " ".join(f"{'-' * (n % 2)}{('tag', 'path', 'from', 'in', 'title')[n % 5]}:w{n}" for n in range(50)),
    ],
    ids=range(4),
)
@pytest.mark.full
def test_largest_query_of_each_kind_is_answered(world: World, query: str) -> None:
    put(world, "a.md", "rust and paint")
    assert ask(world, query).total <= 1
    with closing(Ledger.inspect(world.url, only=["notes"])) as limited:
        assert search(limited, query, NOW).total == ask(world, query).total


@pytest.mark.parametrize(
    "word", ["w{0}", "w{0} -v{0}", "w{0} -path:v{0}", "W{0}HttpClient", "w{0}*", '"w{0} rust"', "w{0} OR rust"]
)
def test_a_query_of_many_words_takes_little_time(world: World, word: str) -> None:
    """The time to prepare a statement grows with the square of its words."""
    put(world, "a.md", "rust and paint")
    query = " ".join(word.format(n) for n in range(50 // word.count("{0}") // (1 + word.count("OR"))))

    def seconds(ledger: Ledger) -> float:
        begun = time.process_time()
        search(ledger, query, NOW)
        return time.process_time() - begun

    with closing(Ledger.inspect(world.url, only=["notes"])) as limited:
        for ledger in (world.ledger, limited):
            assert min(seconds(ledger) for _ in range(3)) < 0.7


def test_search_ends_at_its_deadline(world: World) -> None:
    """All parts of the search share it: this one passes when the first begins. Short statements are no exception."""
    put(world, "a.md", "rust and paint")
    with pytest.raises(TookTooLong, match="the query took too long and was stopped; use fewer words or add a filter"):
        ask(world, "rust OR paint", seconds=0)
    assert ask(world, "rust OR paint", seconds=60).total == 1


def test_deadline_covers_transactions_together(world: World) -> None:
    with time_limit(60.0), time_limit(0.0), pytest.raises(TookTooLong), world.ledger._store.read() as reading:
        reading.execute(text(_ENDLESS))
    with time_limit(0.05), pytest.raises(TookTooLong):
        for _ in range(1_000_000):
            world.ledger.sources.all()
            with world.ledger._store.read() as reading:
                reading.execute(text(_ENDLESS.replace("10000000000", "1000000")))
