"""Folding: the spellings that count as the same word, in every part of a search."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.ledger import Folded, Ledger, plain_words
from catchment.ledger.db.folding import fold
from catchment.ledger.library import word_parts
from catchment.ledger.library.word_index import INDEXES
from catchment.model import Entity, EntityKind
from tests.ledger.older import BEFORE_0014
from tests.ledger.test_search import ask, found, put
from tests.ledger.world import World

_LETTERS = st.sampled_from([*map(chr, (*range(0x20, 0x180), *range(0x300, 0x310), *range(0x370, 0x460)))])
_OTHERS = st.sampled_from([*map(chr, (*range(0x5D0, 0x650), *range(0x905, 0x950), *range(0x1100, 0x1200)))])
_KANA = st.sampled_from([*map(chr, (*range(0x3040, 0x3100), *range(0xAC00, 0xAC40), *range(0xFF61, 0xFFA0)))])
_SYMBOLS = st.sampled_from("€§™№½ﬁ…🌱👩‍👧️\u00ad\n\u200b+#.123中ไ")
_TEXTS = st.text(_LETTERS | _OTHERS | _KANA | _SYMBOLS | st.characters(exclude_categories=["Cs"]), max_size=12)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Sœur Lætitia", "soeur laetitia"),
        ("Maßstäbe GRÖẞE", "massstabe grosse"),
        ("Søndag Gdańsk Łódź Đà", "sondag gdansk lodz da"),
        ("Ísland Þorri Eiður", "island thorri eidur"),
        ("Iğdır IĞDIR İzmit", "igdir igdir izmit"),
        ("Ġgantija Ħal ŧest", "ggantija hal test"),
        ("Όμηρος ᾠδή", "ομηροσ ωδη"),
        ("Ёжик Юный", "ежик юный"),
        ("مُحَمَّد ســـلام آب", "محمد سلام اب"),
        ("שָׁלוֹם", "שלום"),
        ("किताब ज़रा", unicodedata.normalize("NFC", "किताब ज़रा")),
        ("ﾊﾟﾝ ＸＹ９", "パン xy9"),
        ("ﬂüssig ﬁx", "flussig fix"),
        ("Donau\u00addampf auf\u00ad\nstieg zero\u200bwidth", "donaudampf aufstieg zerowidth"),
        ("«Où» „Wo“ ¿Dónde? non\u2011stop", "ou wo donde non stop"),
        ("C++ C# F# g++ .NET asp.net i++", "c ＋ c ＃ f ＃ g ＋ ． net asp net i ＋"),
        ("1 + 1 #tag issue#7 a.b", "1 1 tag issue 7 a b"),
        ("🌱oak hi💡gh §12 9€", "🌱 oak hi 💡 gh § 12 9 €"),
        ("👍🏽 👍", "👍 👍"),
        ("№7 ™x 3㎏ ½ m²", "no 7 tm x 3 kg 1 2 m2"),
        ("│ a ─ b ▓", "a b"),
        ("我喜欢ChatGPT和GPT-4模型", "我喜欢 chatgpt 和 gpt 4 模型"),
        ("2024年度のMcDonald's売上", "2024 年度の mcdonald s 売上"),
        ("한국어GPT는 ใช้GPTครับ", "한국어 gpt 는 ใช้ gpt ครับ"),
        ("佐々木さんПривет世界ＡＢ円", "佐々木さん привет 世界 ab 円"),
        ("日本語C++入門と.NET版、语C#", "日本語 c ＋ 入門と ． net 版 语 c ＃"),
        ("v3.11.2rc1 node18.1 в3.11", "v 3 11 2 rc1 node 18 1 в 3 11"),
        ("Python3.11入門 10.5km 1.2", "python 3 11 入門 10 5 km 1 2"),
        ("py311 mp3 a.1 x1.y", "py311 mp3 a 1 x1 y"),
        ("?!… – ***", ""),
    ],
)
def test_words_as_they_are_compared(text: str, words: str) -> None:
    assert plain_words(text) == words
    assert plain_words(unicodedata.normalize("NFD", text)) == words


@pytest.mark.parametrize(
    ("one", "other"), [("バラ", "ハラ"), ("か", "が"), ("मिला", "मेला"), ("кой", "кои"), ("ไม่", "ไม้"), ("C", "C++")]
)
def test_marks_that_carry_a_word_are_kept(one: str, other: str) -> None:
    assert plain_words(one) != plain_words(other)


@given(_TEXTS)
def test_folding_is_stable_and_keeps_places(text: str) -> None:
    words = plain_words(text)
    assert plain_words(unicodedata.normalize("NFD", text)) == plain_words(unicodedata.normalize("NFC", text)) == words
    assert all(ord(letter) > 127 or (letter.isalnum() and not letter.isupper()) for letter in words.replace(" ", ""))
    folded = Folded(text)
    assert folded.text == fold(text)
    spans = [folded.span(at, at + 1) for at in range(len(folded.text))]
    assert spans == sorted(spans)
    assert all(text[start:stop] for start, stop in spans)


_WRITTEN: Mapping[str, str] = {
    "Bœufs": "boeufs",
    "Preßlufthammer": "presslufthammer",
    "Ærøskøbing": "aeroskobing",
    "Śląsk": "slask",
    "Çınar": "cinar",
    "Ἀθῆναι": "Αθηναι",
    "Самолёт": "самолет",
    "كِتَابٌ": "كتاب",
    "Rück\u00adgabe": "Rückgabe",
    "ｻｸﾗ": "サクラ",
}


@pytest.mark.databases
def test_words_are_found_in_any_spelling(world: World) -> None:
    for n, written in enumerate(_WRITTEN):
        put(world, f"{n}.md", f"Here is {written} once")
    for n, (written, plain) in enumerate(_WRITTEN.items()):
        for query in (written, plain.upper(), unicodedata.normalize("NFD", written)):
            assert world.found(query) == [f"{n}.md"], query


@pytest.mark.databases
def test_symbols_find_exactly_their_documents(world: World) -> None:
    put(world, "a.md", "🌻sunflowers in lu💡cky beds")
    put(world, "b.md", "§ 22 of the act")
    put(world, "c.md", "it cost 22 € then")
    put(world, "d.md", "22 sunflowers")
    for query, expected in {
        "🌻": ["a.md"],
        "§": ["b.md"],
        "€": ["c.md"],
        '"§ 22"': ["b.md"],
        "cky": ["a.md"],
        "lu💡cky": ["a.md"],
        "🦖": [],
    }.items():
        assert found(world, query) == expected, query
    assert sorted(found(world, "sunflowers")) == ["a.md", "d.md"]


@pytest.mark.databases
def test_words_beside_other_scripts_and_versions_are_found(world: World) -> None:
    put(world, "GPT模型.md", "我喜欢ChatGPT和GPT-4模型。使用HttpClientFactory类。")
    put(world, "売上.md", "2024年度のMcDonald's売上は１２３億円。Python3.11入門")
    put(world, "version.md", "since v3.11.2-rc1 and node18.1.2, py311")
    for query, expected in {
        "ChatGPT": ["GPT模型.md"],
        "gpt-4": ["GPT模型.md"],
        "GPT4": ["GPT模型.md"],
        "GPT模型": ["GPT模型.md"],
        "client": ["GPT模型.md"],
        "title:GPT模型": ["GPT模型.md"],
        "path:模型": ["GPT模型.md"],
        "McDonald": ["売上.md"],
        "mcdon*": ["売上.md"],
        "123億円": ["売上.md"],
        "3億": ["売上.md"],
        "Python": ["売上.md"],
        "python3": ["売上.md"],
        "3.11.2": ["version.md"],
        "v3.11.2": ["version.md"],
        "v3": ["version.md"],
        "18.1": ["version.md"],
        "py311": ["version.md"],
    }.items():
        assert found(world, query) == expected, query
    assert sorted(found(world, "3.11")) == ["version.md", "売上.md"]


@pytest.mark.databases
def test_library_with_joined_scripts_is_migrated_from_its_texts(world: World) -> None:
    put(world, "GPT模型.md", "我喜欢ChatGPT")
    with world.ledger._store.write() as writing:
        for index in INDEXES:
            word_parts.clear(writing, index)
        if not writing.sqlite:
            writing.connection.exec_driver_sql(
                "CREATE OR REPLACE FUNCTION fold(value TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT"
                " AS $$ SELECT lower(value) $$"
            )
        for statement in (*BEFORE_0014, "UPDATE revision SET version_num = '0011'"):
            writing.connection.exec_driver_sql(statement)
    world.ledger.close()
    with closing(Ledger.open(world.url, clock=world.clock)) as ledger:
        migrated = World(world.url, world.clock, ledger)
        assert found(migrated, "chatgpt") == found(migrated, "title:gpt模型") == ["GPT模型.md"]
        assert ledger.check(deep=True) == []


@pytest.mark.databases
def test_signs_make_another_word_of_a_letter(world: World) -> None:
    put(world, "letter.md", "C is a letter. C C C and F, a net")
    put(world, "plus.md", "Generic code in C++17")
    put(world, "sharp.md", "Events in C# are easy")
    put(world, "net.md", "The .NET platform, F# too")
    for query, expected in {"C++": ["plus.md"], "c#": ["sharp.md"], "F#": ["net.md"], ".NET": ["net.md"]}.items():
        assert found(world, query) == expected, query
    assert set(found(world, "c")) == {"letter.md", "plus.md", "sharp.md"}, "a sign does not hide the word"


@pytest.mark.databases
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_filters_compare_folded(world: World, form: str) -> None:
    def written(text: str) -> str:
        return unicodedata.normalize(form, text)

    tags = [Entity(EntityKind.TAG, written("Bücher/Größe")), Entity(EntityKind.TAG, "🌱")]
    put(world, written("Jänner/Öl/Übung_1.md"), "text", entities=tags, author=written("Özlem Ağca"))
    put(world, "other/100.md", "text")
    for query in (
        "title:übung",
        "title:UBUNG_1",
        "path:öl/",
        "in:jänner",
        "in:Janner/öl",
        "in:jänner/Öl/",
        "tag:bücher",
        "tag:#BUCHER/grosse",
        "tag:🌱",
        "from:özlem",
        'from:"ozlem agca"',
        "-in:other",
        "-title:100",
    ):
        for asked in (unicodedata.normalize("NFD", query), f"text {query}"):
            assert found(world, asked) == [written("Jänner/Öl/Übung_1.md")], asked
    for query in ("in:öl", "tag:bugle", "title:—", "in:/", "tag:?"):
        assert found(world, query) == [], query


@pytest.mark.databases
def test_tags_and_folders_follow_their_documents(world: World) -> None:
    tags = [Entity(EntityKind.TAG, "Alpha/Beta")]
    put(world, "old/a.md", "one", entities=tags)
    put(world, "old/b.md", "two", entities=tags)
    assert sorted(found(world, "tag:alpha")) == ["old/a.md", "old/b.md"]
    put(world, "old/b.md", "three")
    assert found(world, "tag:alpha/beta") == ["old/a.md"]
    world.lose("old/a.md")
    world.settle()
    assert found(world, "tag:alpha") == []
    assert found(world, "in:old") == ["old/b.md"]
    assert world.ledger.check(deep=True) == []


@pytest.mark.parametrize(
    ("text", "query", "marked"),
    [
        ("💼💼 Ünter ÉTÉ end", "ete", "ÉTÉ"),
        ("ﬁrst ẞ of İĞNE here", "igne", "İĞNE"),
        ("a 👩‍👧 cafe\u0301s now", "cafés", "cafe\u0301s"),
        ("ǆ Stra\u00adße end", "strasse", "Stra\u00adße"),
        ("ﬃ C++17 and C", "c++", "C++"),
        ("the .NET way", ".net", ".NET"),
        ("💡 हिन्दी भाषा", "हिन्दी", "हिन्दी"),
        ("ｱｲ ﾊﾟﾝ屋", "パン", "ﾊﾟﾝ"),
        (unicodedata.normalize("NFD", "İ 한국어 말"), "한국어", unicodedata.normalize("NFD", "한국어")),
        ("go🌱grow", "grow", "grow"),
        ("x🌱y", "🌱", "🌱"),
        ("Œuvres complètes", "oeuvr*", "Œuvres"),
        ("我喜欢ChatGPT和模型", "chatgpt", "ChatGPT"),
        ("2024年度のMcDonald's売上", '"年度のMcDonald"', "年度のMcDonald"),
        ("日本語C++入門", "c++", "C++"),
        ("since v3.11.2rc1 only", "3.11.2", "3.11.2"),
        ("since v3.11.2rc1 only", "v3.11", "v3.11"),
    ],
)
def test_found_words_are_marked_exactly(sqlite_world: World, text: str, query: str, marked: str) -> None:
    put(sqlite_world, "a.md", text)
    (hit,) = ask(sqlite_world, query).hits
    assert f"[{marked}]" in hit.snippet, hit.snippet


@pytest.mark.parametrize(
    ("word", "typed"),
    [
        ("rudder", "rwdder"),
        ("საქართველო", "საქრთველო"),
        ("Հայաստան", "Հայաստւն"),
        ("ирония", "ироия"),
        ("θάλασσα", "θάλεσσα"),
        ("ירושלים", "ירושלם"),
        ("مدرسة", "مدرصة"),
        ("नमस्कार", "नमस्कर"),
        ("Łękawica", "lekawitca"),
    ],
)
def test_words_of_any_script_are_corrected(sqlite_world: World, word: str, typed: str) -> None:
    put(sqlite_world, "a.md", f"1 {word} 2")
    put(sqlite_world, "b.md", f"{word[0]}лეւεצصकc other")
    assert found(sqlite_world, typed) == ["a.md"]


def test_integrity_check_compares_folded_texts(sqlite_world: World) -> None:
    put(sqlite_world, "Ä.md", "Wörter wie Œuvre und 水文学" + " ß" * 200_000)
    assert sqlite_world.ledger.check(deep=True) == []
    with sqlite_world.ledger._store.write() as writing:
        writing.connection.exec_driver_sql("UPDATE contents SET text = replace(text, 'Wörter', 'Worte')")
    assert "The word index differs from the texts" in sqlite_world.ledger.check(deep=True)


def test_missing_tags_are_reported_and_repaired(sqlite_world: World) -> None:
    put(sqlite_world, "x/a.md", "text", entities=[Entity(EntityKind.TAG, "b")])
    with sqlite_world.ledger._store.write() as writing:
        writing.connection.exec_driver_sql("DELETE FROM doc_tags")
    assert "Document 1 differs from its rows in doc_tags" in sqlite_world.ledger.check(deep=True)
    sqlite_world.ledger.proof.rebuild_index()
    assert sqlite_world.ledger.check(deep=True) == []
    assert found(sqlite_world, "tag:b in:x") == ["x/a.md"]


def test_fold_of_ascii_is_lower_case() -> None:
    text = "".join(map(chr, range(128)))
    assert fold(text) == text.lower()
