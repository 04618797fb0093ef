"""Decoding of text in every supported encoding."""

from __future__ import annotations

import codecs
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from catchment.content.normalize import normalize
from catchment.content.normalize.decode import declared_encoding, decode, is_text
from catchment.model import Item, RawContent
from connectors.folders.file import FileEntry
from connectors.local_files import LocalFiles, LocalFilesSettings


@pytest.mark.parametrize(
    ("data", "text", "warned"),
    [
        (b"plain", "plain", False),
        ("Ä 水 🌱".encode(), "Ä 水 🌱", False),
        (codecs.BOM_UTF8 + b"x", "x", False),
        (codecs.BOM_UTF16_LE + "Ä\n".encode("utf-16-le"), "Ä\n", False),
        (codecs.BOM_UTF16_BE + "Ä\n".encode("utf-16-be"), "Ä\n", False),
        (codecs.BOM_UTF32_LE + "Ä".encode("utf-32-le"), "Ä", False),
        ("Müller – “ok”".encode("cp1252"), "Müller – “ok”", True),
        (b"\x81\xe4", "\x81ä", True),
        ("Überfluß größer".encode() + b"\xff", "Überfluß größer\ufffd", True),
        (b"a\r\nb\rc\n", "a\nb\nc\n", False),
        (b"a\x00b", "a\ufffdb", True),
        (b"", "", False),
    ],
)
def test_text_is_read_in_its_encoding(data: bytes, text: str, warned: bool) -> None:
    found = decode(data)
    assert found.text == text
    assert bool(found.warnings) is warned


@given(st.binary(max_size=200))
def test_any_bytes_decode_without_nul_and_carriage_return(data: bytes) -> None:
    text = decode(data).text
    assert "\x00" not in text
    assert "\r" not in text
    text.encode()


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Ä", "latin-1"),
        ("Привет", "koi8-r"),
        ("日本語", "iso-2022-jp"),
        ("日本語", "shift_jis"),
        ("Ä", "utf-16-le"),
        ("ok", "nonsense"),
    ],
)
def test_declared_encoding_is_used_if_utf_8_is_ambiguous(text: str, encoding: str) -> None:
    data = text.encode("ascii" if encoding == "nonsense" else encoding)
    assert decode(data, encoding) == (text, (), {})


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ('<?xml version="1.0" encoding="windows-1251"?>', "windows-1251"),
        ("<?xml version='1.0' encoding = 'koi8-r' standalone='yes'?>", "koi8-r"),
        ("# -*- coding: koi8-r -*-", "koi8-r"),
        ("#!/usr/bin/python\n# vim: set fileencoding=shift_jis :", "shift_jis"),
        ("\n\n# coding: koi8-r", None),
        ('\n<?xml version="1.0" encoding="utf-16"?>', "utf-16"),
        ("words", None),
    ],
)
def test_encoding_declared_in_text_is_read(head: str, name: str | None) -> None:
    assert declared_encoding(f"{head}\nwords".encode()) == name


def test_encodings_not_used_for_text_are_ignored() -> None:
    for encoding in ("unicode_escape", "utf-7", "punycode", "idna", "rot13", "zlib"):
        assert decode(b"\\ud800 +2AA- a-", encoding)[0] == "\\ud800 +2AA- a-"


def test_binary_data_is_not_text() -> None:
    assert is_text(b"words\n")
    assert is_text(codecs.BOM_UTF16_LE + "x".encode("utf-16-le"))
    assert not is_text(b"MZ\x90\x00\x03")
    assert not is_text(bytes(range(1, 32)) * 9)


_WRITTEN = {
    "ru": "Плотина у старой мельницы протекает, и мы закрыли верхний шлюз до весны. Уровень воды упал на два метра.",
    "uk": "Гребля біля старого млина протікає, і ми зачинили верхній шлюз до весни. Її стан щодня перевіряє їхній сторож.",
    "ja": "水門のそばのポンプが壊れたので、新しい部品を九個注文しました。来週の月曜日に届く予定です。",
    "zh": "水闸旁边的水泵坏了，所以我们订购了九个新的密封圈。下星期一就会送到，请通知大家。",
    "tw": "水閘旁邊的水泵壞了，所以我們訂購了九個新的密封圈。下星期一就會送到，請通知大家。",
    "ko": "수문 옆의 펌프가 고장 나서 새 부품 아홉 개를 주문했습니다. 다음 주 월요일에 도착할 예정입니다.",
    "pl": "Pompa przy śluzie się zepsuła, więc zamówiliśmy dziewięć nowych uszczelek. Źródło wyschło, a rzeka jest niska.",
    "cs": "Čerpadlo u stavidla se porouchalo, takže jsme objednali devět nových těsnění. Řeka je nízká.",
    "hu": "A zsilip melletti szivattyú elromlott, ezért kilenc új tömítést rendeltünk. A vízállás alacsony.",
    "el": "Η αντλία δίπλα στο φράγμα χάλασε, γι' αυτό παραγγείλαμε εννέα νέα εξαρτήματα. Θα έρθουν την επόμενη Δευτέρα.",
    "he": "המשאבה ליד הסכר התקלקלה ולכן הזמנו תשעה אטמים חדשים. הם יגיעו ביום שני הבא.",
    "ar": "تعطلت المضخة بجانب السد ولذلك طلبنا تسع قطع جديدة. ستصل يوم الاثنين القادم إن شاء الله.",
    "tr": "Savağın yanındaki pompa bozuldu, bu yüzden dokuz yeni conta sipariş ettik. Irmak alçaldı, kış geldi.",
    "de": "Die Pumpe am Wehr ist kaputt, deshalb haben wir neun Dichtungen bestellt. Größere kommen später.",
    "fr": "La pompe près de l'écluse est cassée, nous avons donc commandé neuf joints. Ça ira mieux après.",
}
_ENCODINGS = [
    *(("ru", name) for name in ("cp1251", "koi8_r", "cp866", "iso8859_5", "utf-16-le", "utf-16-be")),
    *(("uk", name) for name in ("cp1251", "koi8_u", "utf-16-le")),
    *(("ja", name) for name in ("shift_jis", "euc_jp", "iso2022_jp", "utf-16-le", "utf-16-be")),
    *(("zh", name) for name in ("gb18030", "gb2312", "utf-16-le")),
    *(("tw", name) for name in ("big5", "utf-16-be")),
    *(("ko", name) for name in ("euc_kr", "utf-16-le")),
    *((code, name) for code in ("pl", "cs", "hu") for name in ("iso8859_2", "cp1250")),
    *(("el", name) for name in ("iso8859_7", "cp1253")),
    *(("he", "cp1255"), ("ar", "cp1256"), ("tr", "cp1254")),
    *((code, name) for code in ("de", "fr") for name in ("cp1252", "utf-16-le", "utf-16-be")),
]


@pytest.mark.parametrize(("code", "encoding"), _ENCODINGS)
@pytest.mark.parametrize("around", ["{}\n", "for line in lines: total += len(line)\n" * 200 + "# {}\n"])
def test_text_in_a_legacy_encoding_is_read(code: str, encoding: str, around: str) -> None:
    text = around.format(_WRITTEN[code])
    data = text.encode(encoding)
    data += " ".encode(encoding) if encoding.startswith("utf-16") and len(data) % 2 else b""
    assert is_text(data)
    found = decode(data)
    assert found.text == text
    assert found.properties["encoding"]


@pytest.mark.parametrize("text", ["20 °C today", "10 – 20 €", "© 2019 Ada", "perché è così", "Müller & Söhne GmbH"])
def test_isolated_letters_beyond_ascii_are_latin(text: str) -> None:
    assert decode(text.encode("cp1252")).text == text


def test_damaged_letter_does_not_change_the_encoding() -> None:
    found = decode((_WRITTEN["ja"] * 3).encode("shift_jis") + b"\x81")
    assert found.text == _WRITTEN["ja"] * 3 + "\ufffd"
    assert "not valid" in found.warnings[0]


def test_doubtful_encoding_gives_a_warning_with_the_setting() -> None:
    clear, doubtful = decode((_WRITTEN["ru"] * 3).encode("cp1251")), decode("Gröe".encode("cp1252"))
    assert clear.properties["encoding-confidence"] > 0.5
    assert clear.warnings == ()
    assert doubtful.properties["encoding-confidence"] < 0.2
    assert "set `encoding`" in doubtful.warnings[0]


@pytest.mark.parametrize(
    ("name", "kind"), [("a.txt", "text/plain"), ("a.md", "text/markdown"), ("a.html", "text/html")]
)
def test_encoding_of_the_source_applies_to_undeclared_text(name: str, kind: str) -> None:
    data = "Ľ".encode("iso8859_2")
    document = normalize(RawContent(data, name, encoding="iso-8859-2"))
    assert (document.text, document.media_type, dict(document.properties)) == ("Ľ", kind, {})
    utf8 = normalize(RawContent("Ľ".encode(), name, encoding="iso-8859-2"))
    assert utf8.text == "Ľ"
    guessed = normalize(RawContent(data, name))
    assert guessed.properties["encoding"]


@pytest.mark.parametrize("name", ["nonsense", "rot13", "punycode", "unicode_escape", "zlib", "windows-9999"])
def test_source_rejects_encodings_not_for_text(name: str) -> None:
    with pytest.raises(ValidationError, match="not a text encoding"):
        LocalFilesSettings(root=Path("/"), encoding=name)


def test_local_files_are_read_in_the_encoding_of_their_source(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes("Ľ".encode("iso8859_2"))
    connector = LocalFiles(LocalFilesSettings(root=tmp_path, encoding="iso-8859-2"))
    raw = connector.fetch(Item("a.txt", "", FileEntry.of("a.txt", file.stat()).fingerprint))
    assert normalize(raw).text == "Ľ"


_GUESSES = """
import sys
from catchment.content.normalize.decode import decode
from tests.normalize.test_decode import guesses
decode(b"plain"), decode("Ä".encode())
assert "chardet" not in sys.modules, "text in UTF-8 must not wait for the detector"
print(guesses())
"""


def guesses() -> str:
    """Return a digest of the decoded texts."""
    read = [decode(_WRITTEN[code].encode(encoding)) for code, encoding in _ENCODINGS]
    return hashlib.sha256(repr(read).encode()).hexdigest()


def test_encoding_guess_is_deterministic_across_processes() -> None:
    root = Path(__file__).parents[2]
    environment = {"PYTHONHASHSEED": "1", "PYTHONPATH": str(root)}
    other = subprocess.run(
        [sys.executable, "-c", _GUESSES], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == guesses()
