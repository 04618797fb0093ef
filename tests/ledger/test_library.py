"""Documents, shared contents, links, and search by words."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from catchment.errors import NotFound, SkipReason
from catchment.ledger import ContentFacts, Named, SkippedOutcome
from catchment.model import Chunk, Document, Entity, EntityKind, Extraction, Item, Link, LinkKind, Priority, Upsert
from catchment.views import resolver
from catchment.views.items import because
from tests.documents import document_named
from tests.hits import find_hits
from tests.ledger.world import NORMALIZER, World, content, delivered, jobs_of, note, notes

pytestmark = pytest.mark.databases

RIVER = "The river rose by two metres in spring. Der Fluß stieg über die Wiesen; même le café fut inondé."


def put(world: World, locator: str, text: str, **more: object) -> None:
    world.see(note(locator, content(text)))
    batch = world.claim()
    title = locator.rpartition("/")[2].removesuffix(".md")
    world.ledger.queue.deliver(batch.token, [delivered(batch.jobs[0].id, text, **{"title": title, **more})])  # type: ignore[arg-type]


def test_delivered_document_is_shown_unchanged(world: World) -> None:
    zone = timezone(timedelta(hours=2))
    document = Document(
        "Héllo 🌊 world",
        "text/markdown",
        "Own title",
        "fr",
        "Ada",
        datetime(1969, 12, 31, 23, 59, tzinfo=UTC),
        datetime(2026, 5, 1, 2, 0, 0, 123456, tzinfo=zone),
        {"tags": ["a"], "nested": {"b": None}},
        ("odd frontmatter",),
    )
    link = Link(LinkKind.WIKILINK, "Other", "Top", "label", 0, 5)
    entities = (Entity(EntityKind.ALIAS, "Salut"), Entity(EntityKind.TAG, "a/b", "", 1, 4, 0.5))
    extraction = Extraction((Chunk(0, 7, "A > B"), Chunk(5, 13)), (link,), entities)
    world.see(note("x/Note.md"))
    batch = world.claim()
    outcome = delivered(batch.jobs[0].id, document.text, title="Note", metadata={"path": "x"})
    at = datetime(2026, 11, 1, tzinfo=UTC)
    world.ledger.queue.deliver(batch.token, [replace(outcome, document=document, extraction=extraction, modified=at)])
    shown = document_named(world.ledger, "x/Note.md")
    assert shown.content == replace(document, modified=datetime(2026, 5, 1, 0, 0, 0, 123456, tzinfo=UTC))
    assert (shown.title, shown.source, shown.item, shown.modified) == ("Note", "notes", "x/Note.md", at)
    assert (shown.links, shown.entities, shown.aliases) == ((link,), entities, ("Salut",))
    assert (shown.metadata, shown.normalizer) == ({"path": "x"}, NORMALIZER)
    assert world.ledger.library.document(shown.document) == shown


def test_warning_of_an_item_is_shown_until_it_is_gone(world: World) -> None:
    put(world, "page", RIVER)
    for warning in ("its page was not read: HTTP status 410", ""):
        item = note("page", content(RIVER), attributes={"warning": warning} if warning else {})
        world.see(item)
        shown = document_named(world.ledger, "page")
        assert shown.content.warnings == ((warning,) if warning else ())
        row = resolver.item(world.ledger, "page", dict)
        assert warning in because(world.ledger, row, (), str)


@pytest.mark.parametrize("name", ["Café.md", "Été/Йод.md", "한국.md", "がく/x.md"])
@pytest.mark.parametrize("on_disk", ["NFC", "NFD"])
def test_name_is_found_in_any_unicode_form(world: World, name: str, on_disk: Literal["NFC", "NFD"]) -> None:
    locator = unicodedata.normalize(on_disk, name)
    put(world, locator, "words", title="Ñame")
    put(world, "other.md", "more words")
    last = name.rpartition("/")[2]
    for form in ("NFC", "NFD"):
        for asked in (name, last, last.removesuffix(".md")):
            assert document_named(world.ledger, unicodedata.normalize(form, asked)).item == locator
            assert [i.locator for i in world.ledger.intake.find(unicodedata.normalize(form, asked))] == [locator]
        assert document_named(world.ledger, unicodedata.normalize(form, "Ñame")).item == locator
        assert world.found(unicodedata.normalize(form, name.partition(".")[0].partition("/")[0])) == [locator]


def test_exact_spelling_ranks_first(world: World) -> None:
    forms = [unicodedata.normalize(form, "sub/Café.md") for form in ("NFC", "NFD")]
    names = [*forms, "sub/café.md", "deeper/sub/Café.md"]
    for name in names:
        put(world, name, f"words of {name}")
    for name in names:
        assert document_named(world.ledger, name).item == name
        assert [item.locator for item in resolver.find(world.ledger, name, dict).listed] == [name]
    assert resolver.find(world.ledger, "Café.md", dict).items[0].locator == forms[0]
    assert {item.locator for item in world.ledger.intake.find("CAFÉ")} == set(names)


def test_pattern_characters_in_a_name_are_literal(world: World) -> None:
    put(world, "a_b.md", "one")
    put(world, "acb.md", "two")
    assert document_named(world.ledger, "a_b").item == "a_b.md"
    for name in ("a%", "%", "_cb.md", "\\"):
        with pytest.raises(NotFound):
            document_named(world.ledger, name)


def test_content_of_two_sources_is_stored_once_and_found_once(world: World) -> None:
    other = world.ledger.sources.put("mail", "local_files", Priority.HIGH)
    world.ingest(note("a.md"), text=RIVER)
    sync = world.begin(other)
    world.ledger.intake.record(sync.id, [Upsert(note("b.pdf"))], {})
    batch = world.ledger.queue.claim(other.id, 10, owner="worker")
    assert world.ledger.library.contents([content(RIVER), "x"], NORMALIZER) == {
        content(RIVER): ContentFacts(None, None)
    }
    assert world.ledger.library.contents([content(RIVER)], "2") == {}
    items = [world.ledger.intake.find(name)[0].id for name in ("a.md", "b.pdf")]
    assert world.ledger.library.normalizers(items) == {items[0]: NORMALIZER}
    known = replace(delivered(batch.jobs[0].id, RIVER, title="b"), document=None, extraction=None)
    assert world.ledger.queue.deliver(batch.token, [known]).succeeded == jobs_of(batch)
    hit = find_hits(world.ledger, "river")[0]
    assert hit.places == (("notes", "a.md"), ("mail", "b.pdf"))
    assert [(h.source, h.item) for h in find_hits(world.ledger, "river", source="mail")] == [("mail", "b.pdf")]
    assert world.ledger.library.sizes() == {"notes": 1, "mail": 1}


def test_two_items_with_one_content_in_one_batch_share_it(world: World) -> None:
    world.ingest(*notes(3), text=RIVER)
    assert world.ledger.library.sizes() == {"notes": 3}
    assert len(find_hits(world.ledger, "river")) == 1


def test_unreferenced_content_is_removed_with_its_words(world: World) -> None:
    put(world, "a.md", "ancient words", links=[Link(LinkKind.WIKILINK, "x")])
    put(world, "a.md", "modern words")
    assert world.found("ancient") == []
    assert world.found("modern") == ["a.md"]
    assert world.ledger.library.contents([content("ancient words")], NORMALIZER) == {}
    assert list(world.ledger.library.links(world.source.id)) == []


def test_an_edit_keeps_the_document(world: World) -> None:
    put(world, "a.md", "first")
    before = document_named(world.ledger, "a.md").document
    put(world, "a.md", "second")
    assert document_named(world.ledger, "a.md").document == before


@pytest.mark.parametrize(
    ("words", "snippet"),
    [
        ("river", "The [river] rose"),
        ("RIVER spring", "The [river] rose by two metres in [spring]."),
        ('"two metres"', "by [two metres] in"),
        ('"metres two"', None),
        ("riv*", "The [river] rose"),
        ("riv", None),
        ("uber", "stieg [über] die"),
        ("même cafe", "[même] le [café] fut"),
        ("river -spring", None),
        ("river -winter", "The [river] rose"),
        ('river -"two metres"', None),
        ("-river", None),
        ("wiesen; (river)", "The [river] rose"),
    ],
)
def test_words_phrases_beginnings_and_exclusions(world: World, words: str, snippet: str | None) -> None:
    put(world, "a.md", RIVER)
    hits = find_hits(world.ledger, words)
    assert len(hits) == (snippet is not None)
    assert all(snippet in hit.snippet for hit in hits if snippet)


def test_any_text_is_a_query(world: World) -> None:
    put(world, "x.md", "neither here nor there")
    signs = ["", " ", '"', '""', "*", "-", '-"', "AND", "OR NOT", "a:b", "heading:y", "(", "NEAR(a b)", "'; --"]
    for words in [*signs, "a\x00b", "\ud800", "^a", "+", "% _", "title : y", "{y}", '"a" + "b"']:
        assert world.found(words) == [], words


@pytest.mark.long
def test_every_word_of_a_long_query_counts(world: World) -> None:
    words = [f"word{n}" for n in range(49)]
    put(world, "all.md", " ".join(words))
    put(world, "some.md", " ".join(words[:30]))
    assert sorted(world.found(" ".join(words[:30]))) == ["all.md", "some.md"]
    assert world.found(" ".join(words)) == ["all.md"]
    assert world.found(" ".join([*words, "another"])) == []
    absent = [f"-absent{n}" for n in range(48)]
    assert sorted(world.found(" ".join(["word1", *absent]))) == ["all.md", "some.md"]
    assert world.found(" ".join(["word1", *absent, "-word40"])) == ["some.md"]
    assert world.found(" ".join([*words, "-word40"])) == []
    assert "[word1] [word2]" in find_hits(world.ledger, " ".join(words))[0].snippet


def test_copy_with_the_matching_name_is_shown(world: World) -> None:
    for name in ("Invoice.md", "Café March.md", "other.md"):
        put(world, name, "the same words")
    queries = ("cafe", "words cafe", "other", "words")
    shown = [(hit.item, len(hit.places)) for words in queries for hit in find_hits(world.ledger, words)]
    assert shown == [("Café March.md", 3), ("Café March.md", 3), ("other.md", 3), ("Invoice.md", 3)]


def test_very_long_phrase_matches_by_its_leading_whole_words(world: World) -> None:
    phrase = " ".join(f"{n}th" for n in range(400))
    put(world, "a.md", f"Before {phrase} after")
    put(world, "b.md", "x" * 1_500)
    starts = [phrase.split(" ", skipped)[-1] for skipped in range(6)]
    assert any(start[999:1001].isalnum() for start in starts), "the limit is within a word"
    for start in starts:
        assert world.found(f'"{start}"') == ["a.md"]
    assert world.found(f'"5th 7th {phrase}"') == []
    assert world.found("x" * 1_500) == ["b.md"]
    assert world.found("y" * 1_500) == []


def test_query_words_can_span_title_alias_and_two_chunks(world: World) -> None:
    text = "About bees.\n\nAbout honey."
    world.see(note("Garden/Hives.md"))
    batch = world.claim()
    done = delivered(batch.jobs[0].id, text, title="Hives", entities=[Entity(EntityKind.ALIAS, "Apiary")])
    both = Extraction((Chunk(0, 11), Chunk(13, 25)), (), (Entity(EntityKind.ALIAS, "Apiary"),))
    world.ledger.queue.deliver(batch.token, [replace(done, extraction=both)])
    for words in ("hives", "apiary", "bees honey", "hives honey", "apiary bees hives honey", "garden"):
        assert world.found(words) == ["Garden/Hives.md"], words
    assert world.found("hives wasps") == []
    assert find_hits(world.ledger, "honey hives")[0].snippet == "About [honey]."


def test_property_values_are_found_at_any_depth(world: World) -> None:
    properties = {"aliases": ["Apiary"], "author": {"name": "Maja\x00"}, "kinds": ["wax", ["mead", 7]], "topic": "蜂蜜"}
    world.see(note("a.md"), note("b.md"))
    batch = world.claim()
    whole = delivered(batch.jobs[0].id, "words", entities=[Entity(EntityKind.ALIAS, "Apiary")])
    whole = replace(whole, document=Document("words", "text/markdown", properties=properties))
    known = replace(whole, job_id=batch.jobs[1].id, document=None, extraction=None)
    world.ledger.queue.deliver(batch.token, [whole, known])
    for words in ("maja", "wax mead", "words maja", "apiary wax", "蜂"):
        assert [hit.places for hit in find_hits(world.ledger, words)] == [(("notes", "a.md"), ("notes", "b.md"))]
    assert world.found("author") == world.found("wax wasps") == world.found("words -mead") == []
    put(world, "a.md", "other")
    put(world, "b.md", "another")
    assert world.found("wax") == []
    assert world.ledger.check(deep=True) == []


def test_content_keeps_its_names_when_another_item_shares_it(world: World) -> None:
    put(world, "a.md", "words", entities=[Entity(EntityKind.ALIAS, "Apiary")])
    world.see(note("b.md"), note("c.md"))
    batch = world.claim()
    for job in batch.jobs:
        known = replace(delivered(job.id, "words"), document=None, extraction=None)
        world.ledger.queue.deliver(batch.token, [known])
    assert [named.aliases for named in world.ledger.library.names(world.source.id)] == [("Apiary",)] * 3


def test_very_large_properties_are_indexed_up_to_the_database_limit(world: World) -> None:
    world.see(note("a.md"))
    batch = world.claim()
    words = " ".join(f"word{n}" for n in range(200_000))
    whole = replace(delivered(batch.jobs[0].id, "x"), document=Document("x", "text/plain", properties={"all": words}))
    world.ledger.queue.deliver(batch.token, [whole])
    assert world.found("word7") == ["a.md"]


def test_a_title_weighs_more_than_a_mention(world: World) -> None:
    for number in range(8):
        put(world, f"filler{number}.md", f"nothing of interest, part {number}")
    put(world, "mention.md", "a drought is mentioned here, and the drought again: drought")
    put(world, "Drought.md", "what happened in summer")
    assert world.found("drought") == ["Drought.md", "mention.md"]


def test_a_title_weighs_more_than_a_property(world: World) -> None:
    for number in range(8):
        put(world, f"filler{number}.md", f"nothing of interest, part {number}")
    world.see(note("tagged.md"))
    batch = world.claim()
    tagged = replace(delivered(batch.jobs[0].id, "x"), document=Document("x", "", properties={"tags": ["drought"]}))
    world.ledger.queue.deliver(batch.token, [tagged])
    put(world, "Drought.md", "what happened in summer")
    assert world.found("drought") == ["Drought.md", "tagged.md"]


@pytest.mark.parametrize("words", ["水文学", "文学", "の川", "แม่น้ำ", "서울"])
def test_text_in_scripts_without_spaces_is_found_by_any_substring(world: World, words: str) -> None:
    put(world, "a.md", "これは水文学の川です。 แม่น้ำใหญ่ 서울에서")
    assert world.found(words) == ["a.md"]
    assert f"[{words}]" in find_hits(world.ledger, words)[0].snippet


@pytest.mark.parametrize(
    ("words", "is_there"),
    [
        ("川", True),
        ("学 川", True),
        ("水学", False),
        ("学の水", False),
        ("gpt模型", True),
        ("型。新", True),
        ("型.新", False),
        ("新%", False),
        ("น้ำ", True),
        ("人々", True),
        ("水文学" + "の川" * 20, False),
        ("-水文学 川", False),
        ("-火星 川", True),
    ],
)
def test_bigrams_match_in_order(world: World, words: str, is_there: bool) -> None:
    put(world, "a.md", "水文学。の川 GPT模型。新 แม่น้ำ 人々")
    put(world, "b.md", "western words, “quoted” – and a wave 🌊")
    assert world.found(words) == ["a.md"] * is_there


def test_bigrams_are_removed_with_their_text(world: World) -> None:
    put(world, "水.md", "水文学", entities=[Entity(EntityKind.ALIAS, "河川")])
    put(world, "水.md", "words")
    assert world.found("文学") == world.found("河川") == []
    assert world.found("水") == ["水.md"]
    world.lose("水.md")
    world.settle()
    assert world.found("水") == []
    assert world.ledger.check(deep=True) == []


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text("水文学의がabé 。", max_size=12), words=st.text("水文学의がabé。", min_size=1, max_size=4))
def test_bigrams_match_only_texts_that_contain_them(sqlite_world: World, text: str, words: str) -> None:
    assume(any(letter in "水文学의が" for letter in words))
    name = f"{content(words + text)}.md"
    sqlite_world.see(Item(name, "", content(text)))
    batch = sqlite_world.claim()
    sqlite_world.ledger.queue.deliver(batch.token, [delivered(job.id, text) for job in batch.jobs])
    found = {place[1] for hit in find_hits(sqlite_world.ledger, words, limit=1_000) for place in hit.places}
    assert (name in found) is (words in text)


def test_bigram_search_reads_only_matching_texts(sqlite_world: World) -> None:
    engine, said = sqlite_world.ledger._store.engine, []
    put(sqlite_world, "a.md", "水文学")

    @event.listens_for(engine, "before_cursor_execute")
    def _keep(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_others: Any) -> None:
        said.append((statement, parameters))

    assert sqlite_world.found("文学 -火星") == ["a.md"]
    event.remove(engine, "before_cursor_execute", _keep)
    with engine.connect() as connection:
        for statement, parameters in said:
            plan = {row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)}
            assert not plan & {"SCAN chunks", "SCAN contents", "SCAN documents"}, statement


def test_title_in_a_script_without_spaces_is_found(world: World) -> None:
    put(world, "水文学.md", "words")
    assert world.found("水文") == ["水文学.md"]


def test_snippet_of_a_long_text_surrounds_the_match(world: World) -> None:
    put(world, "a.md", "word " * 400 + "needle" + " word" * 400)
    snippet = find_hits(world.ledger, "needle")[0].snippet
    assert "word [needle] word" in snippet
    assert snippet.startswith("… ") and snippet.endswith(" …") and len(snippet) < 260


def test_links_are_found_by_source_document_and_by_target(world: World) -> None:
    there = Link(LinkKind.WIKILINK, "Projects/Plan", "Costs", "the plan", 3, 9)
    other = Link(LinkKind.MARKDOWN, "pics/Map.PNG")
    put(world, "a.md", "one", links=[there, other])
    put(world, "Projects/Plan.md", "two", links=[Link(LinkKind.EMBED, "plan.md")])
    library = world.ledger.library
    assert [(locator, link.target) for _, locator, link in library.links(world.source.id)] == [
        ("Projects/Plan.md", "plan.md"),
        ("a.md", "Projects/Plan"),
        ("a.md", "pics/Map.PNG"),
    ]
    assert {locator for locator, _ in document_named(world.ledger, "Projects/Plan.md").mentions} == {
        "a.md",
        "Projects/Plan.md",
    }
    assert ("a.md", there) in document_named(world.ledger, "Projects/Plan.md").mentions


def test_documents_list_their_names(world: World) -> None:
    put(world, "b.md", "two", entities=[Entity(EntityKind.ALIAS, "Bee"), Entity(EntityKind.ALIAS, "Bea")])
    put(world, "a.md", "one")
    assert world.ledger.library.names(world.source.id) == [
        Named(2, "a.md", "a", 2, ()),
        Named(1, "b.md", "b", 1, ("Bee", "Bea")),
    ]


def test_unstorable_characters_are_replaced_individually(world: World) -> None:
    odd = "before\x00\ud800after"
    entity = Entity(EntityKind.ALIAS, "nu\x00l", "\ud800")
    put(
        world,
        "a.md",
        odd,
        title="t\udfff",
        links=[Link(LinkKind.URL, "http://x/\x00", "\x00", "\udfffé")],
        entities=[entity],
        metadata={"k": "\x00"},
    )
    shown = document_named(world.ledger, "a.md")
    assert shown.content.text == "before\ufffd\ufffdafter"
    assert shown.title == "t\ufffd"
    assert shown.links == (Link(LinkKind.URL, "http://x/\ufffd", "\ufffd", "\ufffdé"),)
    assert (shown.entities, shown.aliases) == ((Entity(EntityKind.ALIAS, "nu\ufffdl", "\ufffd"),), ("nu\ufffdl",))
    assert world.found("after") == ["a.md"]
    put(world, "a.md", "clean")
    assert world.ledger.check(deep=True) == []


def test_a_link_of_any_length_is_kept(world: World) -> None:
    """An image embedded in a note makes a link as long as the image. PostgreSQL indexes at most 2704 bytes."""
    picture = Link(LinkKind.EMBED, "data:image/png;base64," + "".join(content(str(n)) for n in range(200)))
    put(world, "a.md", "a map", links=[picture])
    assert document_named(world.ledger, "a.md").links == (picture,)
    assert world.found("map") == ["a.md"]


def test_a_title_of_any_length_is_kept_and_found_by_its_beginning(world: World) -> None:
    """PostgreSQL indexes at most one megabyte of words."""
    title = " ".join(f"word{number}" for number in range(150_000))
    put(world, "a.md", "a map", title=title)
    assert world.found("word7") == ["a.md"]
    assert world.found("map") == ["a.md"]
    put(world, "a.md", "another map", title="short")
    assert world.found("word7") == []
    assert world.ledger.check(deep=True) == []


def test_an_empty_document_is_a_document(world: World) -> None:
    put(world, "Empty.md", "")
    assert world.found("empty") == ["Empty.md"]
    assert find_hits(world.ledger, "empty")[0].snippet == ""


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.text(max_size=40), text=st.text(max_size=60))
def test_no_query_and_no_text_breaks_the_search(sqlite_world: World, words: str, text: str) -> None:
    sqlite_world.see(Item(f"{content(words + text)}.md", "", content(text)))
    batch = sqlite_world.claim()
    sqlite_world.ledger.queue.deliver(batch.token, [delivered(job.id, text) for job in batch.jobs])
    for hit in find_hits(sqlite_world.ledger, words):
        assert hit.places and len(hit.snippet) < 300


def test_item_that_returns_under_another_name_keeps_its_document(world: World) -> None:
    world.ingest(note("old.md"), text="the same words")
    (before,) = find_hits(world.ledger, "words")
    world.sync = world.begin()
    world.lose("old.md")
    world.see(note("new.md"))
    world.settle()
    batch = world.claim()
    world.deliver(batch, "the same words")
    (after,) = find_hits(world.ledger, "words")
    assert (after.document, after.item) == (before.document, "new.md")
    assert world.ledger.check(deep=True) == []
    assert "moved" in world.item_events("new.md")


def test_empty_content_does_not_identify_a_move(world: World) -> None:
    world.ingest(note("old.md"), text="")
    world.sync = world.begin()
    world.lose("old.md")
    world.see(note("new.md"))
    world.settle()
    world.deliver(world.claim(), "")
    assert "moved" not in world.item_events("new.md")
    assert world.ledger.check(deep=True) == []


@pytest.mark.timeout(30)
def test_very_long_text_is_deleted_without_a_read_per_chunk(sqlite_world: World) -> None:
    size, passage = 16_000_000, 2_000
    text = "words of a log\n" * (size // 15)
    chunks = tuple(Chunk(start, start + passage, "") for start in range(0, len(text) - passage, passage))
    sqlite_world.see(note("server.log"))
    batch = sqlite_world.claim()
    long = replace(delivered(batch.jobs[0].id, text), extraction=Extraction(chunks))
    sqlite_world.ledger.queue.deliver(batch.token, [long])
    sqlite_world.ledger.sources.remove("notes", "anna", "no more logs")
    assert sqlite_world.found("log") == []


def test_skipped_item_names_what_was_not_allowed(world: World) -> None:
    world.see(note("page"))
    batch = world.claim()
    message = "elsewhere.example: not an allowed host; allow it with --allow-host elsewhere.example"
    world.ledger.queue.deliver(batch.token, [SkippedOutcome(batch.jobs[0].id, SkipReason.EXCLUDED, message=message)])
    (row,) = world.ledger.intake.find("page")
    assert because(world.ledger, row, (), str) == f"skipped: {message}"
