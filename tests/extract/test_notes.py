"""Obsidian's syntax, and text that only resembles it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.content.extract import extract
from catchment.content.extract.prose import FILLER, mask
from catchment.content.normalize import normalize
from catchment.model import EntityKind, LinkKind, RawContent
from tests.extract.reading import details, links, of, of_note, spans, values

_MARKS = "[[ ]] ![[ | # ## ^ a [ ]( ) ](b.md) ` `` ``` ~~~ $ $$ %% <!-- --> > :: [^ ]: ^[ https:// @b.co #tag"
_SYNTAX = [
    *_MARKS.split(),
    *("> [!note]", "- [x] ", "1. ", "\\", "2024-01-01", "===", "---", "é", "水", "🌱", " ^id", "    ", "\t"),
    *("\n", "\n\n", "\n- ", "\n> ", "\n    ", " "),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[Note]]", ("wikilink", "Note", "", "")),
        ("[[Note|label]]", ("wikilink", "Note", "", "label")),
        ("[[Note#H1#H2]]", ("wikilink", "Note", "H1#H2", "")),
        ("[[Note#^block-1|x]]", ("wikilink", "Note", "^block-1", "x")),
        ("[[#Heading]]", ("wikilink", "", "Heading", "")),
        ("![[embed.png|300]]", ("embed", "embed.png", "", "300")),
        ("![[Note#Part]]", ("embed", "Note", "Part", "")),
        (r"| a | [[Note\|label]] |", ("wikilink", "Note", "", "label")),
        ("[[ Note # Head | label ]]", ("wikilink", "Note", "Head", "label")),
        ("[[Sq]uare]]", ("wikilink", "Sq]uare", "", "")),
        ("[[[[Note]]]]", ("wikilink", "Note", "", "")),
        ("[text](Path%20with.md#a%20b)", ("markdown", "Path with.md", "a b", "text")),
        ("[text](<Path with.md>)", ("markdown", "Path with.md", "", "text")),
        ("[text](a_(b).md 'title')", ("markdown", "a_(b).md", "", "text")),
        ('[text](a.md "say \\" it")', None),
        ("![alt](img%20one.png)", ("embed", "img one.png", "", "alt")),
        ("[two\nlines](a.md)", ("markdown", "a.md", "", "two lines")),
        ("[in [brackets]](a.md)", ("markdown", "a.md", "", "in [brackets]")),
        ("[site](https://example.org/a?b=1)", ("url", "https://example.org/a?b=1", "", "site")),
        ("[mail](mailto:a@example.org)", ("url", "mailto:a@example.org", "", "mail")),
        ("see https://example.org/a_(b).", ("url", "https://example.org/a_(b)", "", "")),
        ("(https://example.org/x)", ("url", "https://example.org/x", "", "")),
        ("<https://example.org>", ("url", "https://example.org", "", "")),
        ("[ref]: https://example.org/ref", ("url", "https://example.org/ref", "", "")),
        ("obsidian://open?vault=x", ("url", "obsidian://open?vault=x", "", "")),
        ("[[]]", None),
        ("[[|label]]", None),
        ("[[two\nlines]]", None),
        (r"\[[Note]]", None),
        ("`[[Note]]`", None),
        ("``a ` [[Note]]``", None),
        ("```\n[[Note]]\n```", None),
        ("~~~~ md\n[[Note]]\n~~~\n~~~~", None),
        ("- item\n  ```\n  [[Note]]\n  ```", None),
        ("> [!note]\n> ```\n> [[Note]]\n> ```", None),
        ("> ```\n> [[No]]\n\n[[Yes]]", ("wikilink", "Yes", "", "")),
        ("    [[Note]]", None),
        ("text\n\n\t[[Note]]", None),
        ("- item\n\n    [[Note]]", ("wikilink", "Note", "", "")),
        ("text\n    [[Note]]", ("wikilink", "Note", "", "")),
        ("%%[[Note]]%%", None),
        ("%%\n[[Note]]\n%%", None),
        ("<!-- [[Note]] -->", None),
        ("$[[Note]]$", None),
        ("$$\n[[Note]]\n$$", None),
        ("it costs $5, [[Note]] costs $6", ("wikilink", "Note", "", "")),
        ("an open ` and [[Note]]", ("wikilink", "Note", "", "")),
        (r"\` [[Note]] `", ("wikilink", "Note", "", "")),
        ("a ` b\n\nc [[Note]] ` d", ("wikilink", "Note", "", "")),
    ],
)
def test_links_are_found_as_in_obsidian(text: str, expected: tuple[str, str, str, str] | None) -> None:
    assert links(text) == ([expected] if expected else [])


def test_linked_image_is_also_an_embed() -> None:
    text = "[![map](img/weir%20map.png)](Weir.md) and [![ci](https://example.org/ci.svg)](Build.md)"
    found = of(text).links
    assert [(link.kind, link.target) for link in found] == [
        (LinkKind.MARKDOWN, "Weir.md"),
        (LinkKind.EMBED, "img/weir map.png"),
        (LinkKind.MARKDOWN, "Build.md"),
        (LinkKind.URL, "https://example.org/ci.svg"),
    ]
    assert spans(text, found)[1] == "![map](img/weir%20map.png)"


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("#tag", ["tag"]),
        ("text #nested/tag, more", ["nested/tag"]),
        ("#Tag #TAG", ["tag", "tag"]),
        ("#1984 #y1984 #1984-05", ["y1984", "1984-05"]),
        ("> #quoted\n>#close\n> >#deep\nx>#no", ["quoted", "close", "deep"]),
        ("# heading", []),
        ("## #inside a heading", ["inside"]),
        ("word#tag ##tag", []),
        ("https://example.org/#tag", []),
        ("[[Note#tag]] [[Note #tag]] [x #tag](y.md)", []),
        (r"\#tag", []),
        ("`#tag` %%#tag%%", []),
        ("#über #水 #🌱 #👩‍🌾/bees", ["über", "水", "🌱", "👩‍🌾/bees"]),
        ("#with_under-score/", ["with_under-score"]),
        ("#tag! #other.", ["tag", "other"]),
        ("#", []),
        ("[`--import`]: #--importmodule\n> [b]: <c.md> 'see #title'\n- [c]:\n  #next\n  (a #third)", []),
        ("[a #label]: b.md\n\n#1st", ["1st"]),
        ("[see #a][b] [see #d][] [see #e]\n\n[B]: b.md\n[see #d]: d.md", ["e"]),
        ("[Ada]: wants #this\n[^1]: a #note\n[ ]: #empty", ["this", "note", "empty"]),
        ('[a]: b.md\n"no title" #tag\n\n[c]: d.md\n\n(#e) #f', ["tag", "f"]),
        ("<p style='color: #fff'>a #b</p> <i\n title=\"\n #c\">", ["b"]),
        ("    #include\n\n```c\n#endif\n```\n<pre>\n#if\n</pre>\n$a #b$\n$$\n#c\n$$\n<!-- #d -->", []),
        ("<https://example.org/#a> https://example.org/b#c #d", ["d"]),
    ],
)
def test_tags_are_found_as_in_obsidian(text: str, tags: list[str]) -> None:
    assert values(text, EntityKind.TAG) == tags


def test_plain_text_has_no_tags() -> None:
    found = of("#endif and #include", "text/plain").entities
    assert [entity for entity in found if entity.kind is EntityKind.TAG] == []


def test_nested_callouts_have_kind_and_title() -> None:
    text = "> [!NOTE]- A *title*\n> words\n>> [!tip]\n> [!warning|wide] Mind\n[!no]"
    assert details(text, EntityKind.CALLOUT) == [("note", "A *title*"), ("tip", ""), ("warning", "Mind")]


def test_tasks_have_any_status_character() -> None:
    text = "- [ ] open\n- [x] done\n  * [/] half\n1. [-] dropped\n> + [?] asked\n- [xy] none\n- [ ]\n[x] none"
    expected = [("open", " "), ("done", "x"), ("half", "/"), ("dropped", "-"), ("asked", "?")]
    assert details(text, EntityKind.TASK) == expected


def test_inline_fields_are_lines_or_in_brackets() -> None:
    text = "Key:: some value\n- **due**:: 2024-05-01\ntext [mood:: good] and (where:: [[Home]])\nstd::vector x\n:: no\nEmpty::"
    assert sorted(details(text, EntityKind.FIELD)) == [
        ("Empty", ""),
        ("Key", "some value"),
        ("due", "2024-05-01"),
        ("mood", "good"),
        ("where", "[[Home]]"),
    ]


def test_block_ids_stand_at_the_end_of_a_line() -> None:
    assert values("A thought. ^quote-1\n\n^whole-list\n2^3 is ^not here\nx^no", EntityKind.BLOCK) == [
        "quote-1",
        "whole-list",
    ]


def test_footnotes_are_definitions_and_inline_ones() -> None:
    assert values("a[^1] b^[an *inline* [one](x.md)]\n\n[^1]: The note.", EntityKind.FOOTNOTE) == [
        "an *inline* [one](x.md)",
        "1",
    ]


def test_headings_are_marked_or_underlined() -> None:
    text = (
        "# One #\n\nTwo\n===\n\n### Three ^id\n\nlong\nparagraph\n---\n\n- item\n---\n\n```\n# no\n```\n#no\n####### no"
    )
    assert details(text, EntityKind.HEADING) == [("One", "1"), ("Two", "1"), ("Three ^id", "3")]


def test_dates_and_addresses_are_found_in_any_text() -> None:
    text = "On 2024-02-29, not 2024-02-30 nor 2024-13-01 nor 12024-01-01; [[2024-03-01]] 2024-03-02T10:00. Ada <ADA@E.org>, x@y"
    assert values(text, EntityKind.DATE) == ["2024-02-29", "2024-03-01", "2024-03-02"]
    assert values(text, EntityKind.EMAIL) == ["ada@e.org"]


def test_offsets_point_to_the_matched_text() -> None:
    text = "🌱 Ä [[Note|l]] #tag ![[x.png]]\n- [x] do it\nKey:: val ^b1\n# Head #\n> [!tip] T\n[^1]: f https://e.org a@b.co"
    found = of(text)
    assert spans(text, found.links) == ["[[Note|l]]", "![[x.png]]", "https://e.org"]
    assert {entity.kind.value: text[entity.start : entity.end] for entity in found.entities} == {
        "tag": "#tag",
        "task": "[x] do it",
        "field": "Key:: val ^b1",
        "block": "^b1",
        "heading": "# Head #",
        "callout": "[!tip] T",
        "footnote": "[^1]:",
        "email": "a@b.co",
    }


def test_obsidian_syntax_is_read_only_in_notes() -> None:
    text = "# Head\n#include [[x]] [l](https://e.org)\n- [x] y"
    page = of(text, "text/html")
    assert [link.target for link in page.links] == ["https://e.org"]
    assert [entity.kind for entity in page.entities] == [EntityKind.HEADING]
    assert of(text, "text/plain").entities == ()


def test_definitions_of_source_code_are_symbols() -> None:
    python = "class A:\n    async def run(self): ...\ndef main(): ...\n"
    script = "export default function f() {}\nconst g = async (a) => a\nclass B {}\nlet n = 1\n"
    assert [entity.value for entity in of(python, "text/x-python").entities] == ["A", "run", "main"]
    assert [entity.value for entity in of(script, "text/javascript").entities] == ["f", "g", "B"]


def test_properties_have_tags_aliases_people_dates_and_links() -> None:
    note = of_note(
        "---\ntags: [Water, '#deep/er', 1984]\naliases: First, Second\nauthor: '[[People/Ada Berg|Ada]]'\n"
        "people:\n- '\"Nils O.\" <nils@example.net>'\n- x@example.org\ndue: 2024-05-01\nup: '[[Map#Top]]'\n"
        "source: https://example.org/a\n---\nbody"
    )
    found = {(entity.kind.value, entity.value) for entity in note.entities}
    assert found == {
        ("tag", "water"),
        ("tag", "deep/er"),
        ("alias", "First"),
        ("alias", "Second"),
        ("person", "Ada Berg"),
        ("person", "Nils O."),
        ("email", "nils@example.net"),
        ("email", "x@example.org"),
        ("date", "2024-05-01"),
    }
    assert {(link.kind.value, link.target, link.anchor) for link in note.links} == {
        ("frontmatter", "People/Ada Berg", ""),
        ("frontmatter", "Map", "Top"),
        ("url", "https://example.org/a", ""),
    }


@settings(max_examples=300)
@given(st.lists(st.one_of(st.sampled_from(_SYNTAX), st.text(max_size=8)), max_size=25).map("".join))
def test_offsets_of_any_note_are_within_it(text: str) -> None:
    found = of(text)
    assert len(mask(text)) == len(text)
    for each in (*found.links, *found.entities):
        assert 0 <= each.start < each.end <= len(text)
    places = [link.start for link in found.links]
    assert places == sorted(places)


def test_blanking_keeps_length_and_line_ends() -> None:
    text = "a `b` \n```\ncode\n```\n%%c\nd%%"
    blanked = mask(text)
    assert len(blanked) == len(text)
    assert [place for place, letter in enumerate(blanked) if letter == "\n"] == [
        place for place, letter in enumerate(text) if letter == "\n"
    ]
    assert blanked.replace(FILLER, "") == "a  \n\n\n\n\n"


@pytest.mark.parametrize("open_code", ["```py\\nx = 1", "~~~\\nx = 1\\n```", "````\\n```\\nx\\n```"])
def test_open_code_of_a_card_hides_no_link_of_the_next(open_code: str) -> None:
    cards = f'[{{"type": "text", "text": "{open_code}"}}, {{"type": "text", "text": "[[Weir]]"}}]'
    board = normalize(RawContent(f'{{"nodes": {cards}}}'.encode(), "a.canvas"))
    assert [link.target for link in extract(board).links] == ["Weir"]


@pytest.mark.parametrize("code", ["```\\nx\\n```", "~~~ py\\nx\\n~~~~", "``` x ``` y"])
def test_card_with_closed_code_is_unchanged(code: str) -> None:
    board = normalize(RawContent(f'{{"nodes": [{{"type": "text", "text": "{code}"}}]}}'.encode(), "a.canvas"))
    assert board.text == code.replace("\\n", "\n")
