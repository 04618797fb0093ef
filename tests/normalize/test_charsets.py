"""Declared encodings: their names, and which declaration counts. Every reader decodes by one function."""

from __future__ import annotations

import base64

import pytest

from catchment.charsets import codec_of
from catchment.content.normalize import normalize
from catchment.content.normalize.decode import decode
from catchment.model import RawContent
from connectors.web.address import normalized
from connectors.web.feeds import read_feed
from connectors.web.seeds import SeedKind, addresses_in, feeds_of

_LABELS = """
utf-8: unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8
cp866: 866 cp866 csibm866 ibm866
iso8859-2: csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2
iso8859-3: csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3
iso8859-4: csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4
iso8859-5: csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988
iso8859-6: arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e iso-8859-6-i iso-ir-127
iso8859-6: iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987
iso8859-7: csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 iso_8859-7 iso_8859-7:1987
iso8859-7: sun_eu_greek
iso8859-8: csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8
iso8859-8: iso_8859-8:1988 visual csiso88598i iso-8859-8-i logical
iso8859-10: csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6
iso8859-13: iso-8859-13 iso8859-13 iso885913
iso8859-14: iso-8859-14 iso8859-14 iso885914
iso8859-15: csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9
iso8859-16: iso-8859-16
koi8-r: cskoi8r koi koi8 koi8-r koi8_r
koi8-u: koi8-ru koi8-u
mac-roman: csmacintosh mac macintosh x-mac-roman
cp874: dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874
cp1250: cp1250 windows-1250 x-cp1250
cp1251: cp1251 windows-1251 x-cp1251
cp1252: ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1
cp1252: iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252
cp1253: cp1253 windows-1253 x-cp1253
cp1254: cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 windows-1254 x-cp1254
cp1255: cp1255 windows-1255 x-cp1255
cp1256: cp1256 windows-1256 x-cp1256
cp1257: cp1257 windows-1257 x-cp1257
cp1258: cp1258 windows-1258 x-cp1258
mac-cyrillic: x-mac-cyrillic x-mac-ukrainian
gb18030: chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk gb18030
big5hkscs: big5 big5-hkscs cn-big5 csbig5 x-x-big5
euc_jp: cseucpkdfmtjapanese euc-jp x-euc-jp
iso2022_jp_2: csiso2022jp iso-2022-jp
cp932: csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis
cp949: cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949
utf-16-be: unicodefffe utf-16be
utf-16-le: csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le
"""
"""Python's codecs and the labels of the Encoding Standard (WHATWG), section 4.2, except those that encode no text."""
_PAIRS = [
    (label, codec)
    for line in _LABELS.strip().splitlines()
    for codec, _, labels in [line.partition(": ")]
    for label in labels.split()
]


@pytest.mark.parametrize(("label", "codec"), _PAIRS)
def test_label_means_what_the_encoding_standard_says(label: str, codec: str) -> None:
    assert codec_of(label) == codec_of(label.upper()) == codec_of(f' "{label}" ') == codec


@pytest.mark.parametrize(
    ("label", "codec"),
    [
        ('"utf8"', "utf-8"), ("UTF-8;", "utf-8"), ("utf-8; format=flowed", "utf-8"), ("utf-8, iso-8859-1", "utf-8"),
        ("MS949", "cp949"), ("x-windows-949", "cp949"), ("uhc", "cp949"), ("ansi_x3.110-1983", "cp1252"), ("cp-850", "cp850"),
        ("windows 1251", "cp1251"), ("ibm-852", "cp852"), ("iso-2022-kr", "iso2022_kr"), ("hz-gb-2312", "hz"),
        ("unicode-1-1-utf-7", "utf-7"), ("cp50221", "iso2022_jp_2"),
    ],
)  # fmt: skip
def test_names_of_real_programs_are_known(label: str, codec: str) -> None:
    assert codec_of(label) == codec


@pytest.mark.parametrize(
    "label",
    ["", "x", "unknown-8bit", "x-unknown", "default", "nonsense", "hex", "rot13", "base64", "idna", "windows-9999"],
)
def test_names_of_no_text_encoding_are_unknown(label: str) -> None:
    assert codec_of(label) is None


_SUPERSETS = [
    ("iso-8859-1", "She said “stop” – the miller’s wife €5", "cp1252"),
    ("us-ascii", "He said “whoa” – the carter’s horse", "cp1252"),
    ("iso-8859-9", "Değirmen “iki” kez onarıldı", "cp1254"),
    ("tis-620", "ประตูน้ำได้รับการซ่อมแซม “แล้ว”", "cp874"),
    ("gb2312", "镕基说：磨坊的水车修好了，碁盘也在那里", "gbk"),
    ("shift_jis", "①水車は㈱製粉所の髙橋さんが直した", "cp932"),
    ("windows-31j", "②水門は㈱土木の﨑山さんが直した", "cp932"),
    ("ks_c_5601-1987", "물레방앗간의 뷁 소리와 똠방각하", "cp949"),
    ("euc-kr", "수문 옆의 펲시콜라 뷁", "cp949"),
    ("big5", "水車的嘢修好咗喺度", "big5hkscs"),
    ("iso-8859-8-i", "הטחנה תוקנה פעמיים", "iso8859-8"),
    ("cp-850", "Die Straße führt über den Größten", "cp850"),
    ("iso-2022-jp", "日本語の水車", "iso2022_jp"),
]


@pytest.mark.parametrize(("label", "text", "written"), _SUPERSETS)
def test_every_reader_takes_a_declared_subset_for_its_superset(label: str, text: str, written: str) -> None:
    page = f'<html><head><meta http-equiv=content-type content="text/html; charset={label}"></head><body><p>{text}</p>'
    assert text in normalize(RawContent(page.encode(written), "a.html")).text
    assert text in normalize(RawContent(page.encode(written), "a.html", address="https://example.org/")).text
    cookie = f"# -*- coding: {label} -*-\n# {text}\n"
    assert text in normalize(RawContent(cookie.encode(written), "a.py")).text
    xml = f'<?xml version="1.0" encoding="{label}"?>\n<notes><note>{text}</note></notes>'
    assert text in normalize(RawContent(xml.encode(written), "a.xml")).text
    assert read_feed(_feed(text, label).encode(written), "https://example.org/f").entries[0].title == text
    mail = f'Subject: x\nMIME-Version: 1.0\nContent-Type: text/plain; charset="{label}"\n\n'.encode() + text.encode(
        written
    )
    assert normalize(RawContent(mail, "a.eml")).text == text
    assert read_feed(_feed(text, None).encode(written), "https://example.org/f", label).entries[0].title == text


def _feed(title: str, declared: str | None) -> str:
    encoding = f' encoding="{declared}"' if declared else ""
    item = f"<item><title>{title}</title></item>"
    return f'<?xml version="1.0"{encoding}?><rss version="2.0"><channel><title>F</title>{item}</channel></rss>'


_RUSSIAN = "Мельница стоит у нижнего шлюза"


@pytest.mark.parametrize(
    ("header", "meta", "text", "written"),
    [
        ("windows-1251", "iso-8859-1", _RUSSIAN, "cp1251"),
        ("utf-8", "windows-1251", _RUSSIAN, "utf-8"),
        ("shift_jis", "iso-8859-1", "水車小屋は二度修理された", "cp932"),
        ("iso-8859-2", "iso-8859-1", "Młyn stoi nad śluzą", "iso8859-2"),
        ("iso-8859-1", "utf-8", "Größe der Mühle", "utf-8"),
        ("us-ascii", None, "Größe der Mühle", "utf-8"),
        ("gb2312", None, _RUSSIAN, "utf-8"),
        ("utf-8", "iso-8859-1", "Größe “der” Mühle", "cp1252"),
        ("utf-8", "iso-8859-1", "Größe der Mühle, größer als früher\udcff", "utf-8"),
        ("nonsense", "koi8-r", _RUSSIAN, "koi8-r"),
        ("utf-16", "utf-16", "Größe “der” Mühle", "cp1252"),
        (None, "utf-16", "水車小屋", "utf-8"),
        ("iso-8859-1", None, "水車小屋", "utf-16"),
        ("us-ascii", None, "水車小屋は", "iso2022_jp"),
    ],
)
def test_page_is_read_as_its_host_declares_unless_its_bytes_say_otherwise(
    header: str | None, meta: str | None, text: str, written: str
) -> None:
    head = f"<meta charset={meta}>" if meta else ""
    page = f"<html><head>{head}<title>x</title></head><body><p>{text}</p></body></html>"
    data = page.encode(written, "surrogateescape")
    found = normalize(RawContent(data, "a.html", encoding=header, address="https://example.org/"))
    assert text.replace("\udcff", "\ufffd") in found.text


def test_file_is_read_as_it_declares_before_the_setting_of_its_source() -> None:
    page = f"<html><head><meta charset=windows-1251></head><body>{_RUSSIAN}".encode("cp1251")
    assert normalize(RawContent(page, "a.html", encoding="iso-8859-2")).text == _RUSSIAN
    text = f"# coding: windows-1251\n{_RUSSIAN}".encode("cp1251")
    assert _RUSSIAN in normalize(RawContent(text, "a.txt", encoding="iso-8859-2")).text
    assert (
        _RUSSIAN not in normalize(RawContent(text, "a.txt", encoding="iso-8859-2", address="https://example.org/")).text
    )


@pytest.mark.parametrize(
    ("text", "label"), [("汉字", "gb2312"), ("한글", "euc-kr"), ("ﾃｱ", "shift_jis"), ("~{VPND~}", "utf-8")]
)
def test_short_text_of_several_bytes_a_character_is_read_as_declared(text: str, label: str) -> None:
    assert decode(text.encode(codec_of(label) or ""), label).text == text


@pytest.mark.parametrize("bytes_of_gb2312", [b"\xc4\xa3", b"\xc4\xa3\xca\xbd"])  # valid UTF-8 too
def test_few_characters_valid_in_both_are_of_the_declared_encoding(bytes_of_gb2312: bytes) -> None:
    bytes_of_gb2312.decode()
    assert decode(bytes_of_gb2312, "gb2312").text == bytes_of_gb2312.decode("gb2312")
    assert decode(bytes_of_gb2312 * 6, "gb2312").text == bytes_of_gb2312.decode() * 6


@pytest.mark.parametrize(
    ("label", "text", "damage"),
    [("shift_jis", "水車小屋は二度修理された。", b"\x81"), ("windows-1253", "Ο μύλος είναι κάτω.", b"\xff")],
)
def test_damaged_text_is_read_as_declared_with_a_warning(label: str, text: str, damage: bytes) -> None:
    data = (text * 3).encode(codec_of(label) or "") + damage
    found = decode(data, label)
    assert found.text == text * 3 + "\ufffd"
    assert found.properties == {}
    assert "not valid" in found.warnings[0]


@pytest.mark.parametrize(
    ("header", "declared", "written"),
    [
        ("iso-8859-1", "utf-8", "utf-8"), ("us-ascii", "utf-8", "utf-8"), (None, None, "utf-8"),
        ("utf-8", "iso-8859-1", "cp1252"), (None, "windows-1252", "cp1252"), ("windows-1251", "UTF-8", "utf-8"),
        ("utf-8", "utf-16", "utf-16"), ("iso-8859-1", None, "cp1252"), ("windows-1252", "iso-8859-2", "cp1252"),
    ],
)  # fmt: skip
def test_feed_and_lists_are_read_in_their_encoding(header: str | None, declared: str | None, written: str) -> None:
    words = "Größe der Mühle’s"
    feed = _feed(words, declared).encode(written)
    assert read_feed(feed, "https://example.org/f", header).entries[0].title == words
    encoding = f' encoding="{declared}"' if declared else ""
    opml = f'<?xml version="1.0"{encoding}?><opml><body><outline title="{words}" xmlUrl="https://example.org/f"/></body></opml>'
    found = addresses_in(opml.encode(written), SeedKind.OPML, "https://example.org/", header).addresses
    assert [each.title for each in found] == [words]
    sitemap = f'<?xml version="1.0"{encoding}?><urlset><url><loc>https://example.org/größe</loc></url></urlset>'
    found = addresses_in(sitemap.encode(written), SeedKind.SITEMAP, "https://example.org/", header).addresses
    assert [each.address for each in found] == ["https://example.org/gr%C3%B6%C3%9Fe"]


@pytest.mark.parametrize(
    ("header", "meta", "written"), [("utf-8", "", "utf-8"), ("", "iso-8859-1", "cp1252"), ("koi8-r", "x", "koi8-r")]
)
def test_links_of_a_page_are_read_in_its_encoding(header: str, meta: str, written: str) -> None:
    base = "https://example.org/"
    path, title = ("größe", "Mühle") if written != "koi8-r" else ("мельница", "Шлюз")
    link = f'<link rel=alternate type=application/rss+xml title="{title}" href="/f">'
    page = f"<html><head><meta charset={meta}>{link}</head><body><a href='/{path}'>x</a>".encode(written)
    found = addresses_in(page, SeedKind.PAGE, base, header or None).addresses
    assert [each.address for each in found] == [normalized(base + path)]
    assert [each.title for each in feeds_of(page, base, header or None)] == [title]


def test_list_of_addresses_is_read_in_its_encoding() -> None:
    data = "https://example.org/größe\n".encode("cp1252")
    for charset in ("iso-8859-1", None):
        found = addresses_in(data, SeedKind.ADDRESSES, "", charset).addresses
        assert [each.address for each in found] == ["https://example.org/gr%C3%B6%C3%9Fe"]


@pytest.mark.parametrize(
    ("label", "text", "written"),
    [
        ("MS949", "뷁 수문지기", "cp949"),
        ("x-windows-949", "뷁 수문지기", "cp949"),
        ("UTF-8;", "Größe ściana", "utf-8"),
        ('"utf-8"', "Größe ściana", "utf-8"),
        ("unknown-8bit", "Größe Tür", "utf-8"),
        ("iso-10646-ucs-2", "plain", "ascii"),
        ("ansi_x3.110-1983", "façade “y”", "cp1252"),
        ("us-ascii", "水車小屋は", "iso2022_jp"),
    ],
)
def test_mail_is_read_by_the_names_that_mail_programs_write(label: str, text: str, written: str) -> None:

    word = f"=?{label}?B?{base64.b64encode(text.encode(written)).decode()}?="
    head = f"Subject: {word}\nMIME-Version: 1.0\nContent-Type: text/plain; charset={label}\n\n"
    document = normalize(RawContent(head.encode() + text.encode(written), "a.eml"))
    assert (document.title, document.text) == (text, text)
