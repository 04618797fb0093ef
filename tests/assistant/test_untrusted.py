"""Texts of other people: no client fetches an address from them, no character is hidden, and ordinary notes are unchanged."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser

from assistant.untrusted import cleaned

VAULT = Path(__file__).parents[2] / "examples" / "vault"
HARMLESS = set(
    "html head body abbr b blockquote br caption cite code dd del details dfn div dl dt em figcaption figure h1 h2 h3 h4 h5 h6"  # noqa: SIM905
    " hr i ins kbd li mark ol p pre q rp rt ruby s samp section small span strong sub summary sup table tbody td tfoot th"
    " thead tr u ul var colgroup".split()
)
RENDER = MarkdownIt("commonmark", {"html": True}).enable("table")
ATTACKS = (
    "<div style='background:url(//evil.example)'>",
    "<div style=background:url(//evil.example)>x</div>",
    "<input type=image src=//evil.example>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<picture><source srcset=//evil.example><img></picture>",
    "<video poster=//evil.example>",
    "<body background=//evil.example>",
    "<table background=//evil.example><tr><td>x",
    "<b onclick=evil() style=color:red>x</b>",
    "<b/style=background:url(//evil.example)>x",
    "<b\nstyle=background:url(//evil.example)>x",
    "<https://x/style=background:url(//evil.example)>",
    "<a href='https://evil.example'>x</a>",
    "<a@b.c style=background:url(//evil.example)>",
    "<base href=//evil.example>",
    "<style>@import '//evil.example';</style>",
    "<!DOCTYPE html SYSTEM 'http://evil.example'>",
    "<?xml-stylesheet href='//evil.example'?>",
    "<!--><img src=//evil.example>-->",
    "<!-- a --!><img src=//evil.example> -->",
    "<svg><image href=//evil.example /></svg>",
    "<plaintext>",
    "<math><mtext><img src=//evil.example>",
    "[x](&#104;ttps://evil.example)",
    "[x](https&colon;//evil.example)",
    "[x](h\\ttps://evil.example)",
    "[x](/\\evil.example)",
    "[x](<//evil.example>)",
    "[x](</\t/evil.example>)",
    "[x](javascript:evil())",
    "[x](mailto:evil@evil.example)",
    "[x]((https://evil.example))",
    "[x][ref]\n\n[ref]: https://evil.example",
    "[x]\n\n[x]:\nhttps://evil.example",
    "[x]\n\n[x]: <//evil.example>",
    "[x]\n\n> [x]: //evil.example 'title'",
    "> [x]:\n> https://evil.example\n\n[x]",
    "- > [x]:\n  > //evil.example\n\n[x]",
    "[^1]\n\n[^1]: &#104;ttps://evil.example",
    "![x][ref]\n\n[ref]: evil.png",
    "![[x]](https://evil.example)",
    "![[x]][ref]\n\n[ref]: //evil.example",
    "![x](y.png)",
    "<\u115fimg src=//evil.example>",
    "!\u2800[x](//evil.example)",
    "]\ufe0f(https://evil.example)",
)
ORDINARY = (
    "a = handlers[key](value)\n\tif not done: pass",
    "call = table[0](first, other(second))",
    "- [x] done\n- [ ] open\n[^1]: See the book.",
    "See [the girder](../Bridges/Main%20girder.md#West) and ![[Plan.png|300]], or [[Girder|that]].",
    "From: Maja Lind <maja@example.org>, <https://example.org/river/ardel>",
    "H<sub>2</sub>O, <kbd>Ctrl</kbd><br/>a < b > c <= d << e, x <- y, <3",
    "<details>\n<summary>Who?</summary>\n</details>\n<!-- not now -->",
    "def f(x: list[int]) -> dict[str, int]: ...",
    "\U0001f600 caf\u00e9 \u6f22\u5b57 \u0645\u0631\u062d\u0628\u0627",
)


def problems(text: str) -> list[str]:
    """Return the active elements of a text, rendered as Markdown and as HTML."""
    found = []
    for html, is_markdown in ((RENDER.render(text), True), (text, False)):
        for node in LexborHTMLParser(html).css("*"):
            if node.tag == "a" and is_markdown:
                address = node.attributes.get("href") or ""
                # An address that is its own text may stay, and so may a place without a host.
                own = address.removeprefix("mailto:") == node.text()
                if not own and (urlsplit(address).scheme or re.match(r"[/\\]{2}", address)):
                    found.append(address)
            elif is_markdown or not re.fullmatch(r"https?:|[\w.+-]+@[\w.-]+", node.tag):
                named = set(node.attributes) - ({"class", "start"} if is_markdown else set())
                if node.tag not in HARMLESS or named:
                    found.append(f"{node.tag} {named}")
            elif any(node.attributes.values()):
                found.append(f"{node.tag} {node.attributes}")
    return found


@pytest.mark.parametrize("attack", ATTACKS)
def test_attack_is_active_before_and_not_after(attack: str) -> None:
    assert problems(cleaned(attack)) == []


_PIECES = st.sampled_from(
    [piece for attack in ATTACKS for piece in re.split(r"(\W)", attack) if piece]
    + [
        "![",
        "](",
        "]: ",
        "[x]",
        "]:\n> ",
        "\n> ",
        "\n",
        "\n\n",
        "```",
        "`",
        "    ",
        "<",
        ">",
        "</b",
        "<b ",
        "\\",
        "&lt;",
        "://",
        "-->",
    ]
)


@given(st.lists(_PIECES, max_size=25).map("".join))
@example("[x](a\n[x]: b")
def test_nothing_that_is_generated_stays_active(text: str) -> None:
    assert problems(cleaned(text)) == []


@given(st.text() | st.lists(st.sampled_from(["[", "](", "]:", "(", ")", "<", "a", ":", "!", "\n"])).map("".join))
def test_cleaning_again_changes_only_spaces(text: str) -> None:
    once = cleaned(text)
    assert re.sub(r"\s", "", cleaned(once)) == re.sub(r"\s", "", once)


IGNORABLE = """00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0
    FFF0-FFF8 1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"""
"""Default_Ignorable_Code_Point in DerivedCoreProperties.txt of Unicode 16."""


def test_no_invisible_character_stays() -> None:
    for part in (*IGNORABLE.split(), "2800", "FFFC", "16FE4", "1D159"):
        first, _, last = part.partition("-")
        for code in range(int(first, 16), int(last or first, 16) + 1):
            assert cleaned(f"a{chr(code)}b") == "ab", hex(code)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert cleaned(text) == text


def test_notes_of_the_example_are_unchanged() -> None:
    notes = list(VAULT.rglob("*.md"))
    assert len(notes) > 20
    for note in notes:
        text = note.read_bytes().decode("utf-8-sig", "ignore").replace("\r", "")
        assert re.sub("[\ufe0f\u200d]", "", text) == cleaned(text), note.name


def test_long_hostile_text_is_cleaned_quickly() -> None:
    for piece in ("](", "![[", "]:", "<!--", "](a(", "<b", "[x](", "<a@", "]: \n"):
        assert len(cleaned(piece * 10_000)) >= 10_000
