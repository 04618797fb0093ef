"""Small formats and parts of formats: drawings, pages, calendars, contacts, outlines, and declarations in a text."""

from __future__ import annotations

import plistlib
import time

import pytest

from catchment.content.normalize import normalize
from catchment.content.normalize.decode import declared_encoding
from catchment.content.normalize.tex import with_letters
from catchment.errors import ParseError
from catchment.model import Document, RawContent

_DIAGRAM = (
    "&lt;mxfile&gt;&lt;diagram name=&quot;One&quot;&gt;&lt;mxGraphModel&gt;&lt;mxCell value=&quot;Weir&quot;/&gt;"
    "&lt;mxCell tooltip=&quot;too low&quot;/&gt;&lt;/mxGraphModel&gt;&lt;/diagram&gt;&lt;/mxfile&gt;"
)


def _read(content: str | bytes, name: str, encoding: str = "utf-8") -> Document:
    return normalize(RawContent(content if isinstance(content, bytes) else content.encode(encoding), name))


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<text>Pum<tspan font-weight='bold'>pe</tspan></text>", "Pumpe"),
        ("<text>See <a href='x'>we</a>ir</text>", "See weir"),
        ("<text><tspan x='1' y='2'>one</tspan><tspan x='1' dy='1em'>two</tspan></text>", "one two"),
        ("<text><title>tip</title>Weir</text>", "tip Weir"),
        ("<text><![CDATA[a < b & c]]><!-- no --></text>", "a < b & c"),
        ("<flowRoot><flowPara>one</flowPara><flowPara>t<flowSpan>wo</flowSpan></flowPara></flowRoot>", "one two"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "svg:"])
def test_words_of_a_drawing_are_whole(markup: str, text: str, prefix: str) -> None:
    drawing = f"<svg xmlns='http://www.w3.org/2000/svg'>{markup}</svg>"
    assert (
        _read(
            drawing.replace("</", f"</{prefix}").replace("<", f"<{prefix}").replace(f"<{prefix}/", "</"), "a.svg"
        ).text
        == text
    )


def test_diagram_in_a_drawing_is_its_text() -> None:
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg" width="1" content="{_DIAGRAM}"><text>Weir</text></svg>'
    assert _read(drawing, "a.drawio.svg").text == "## One\n\nWeir\n\ntoo low"
    damaged = _read(drawing.replace("/diagram", "/diagra"), "a.drawio.svg")
    assert (damaged.text, damaged.warnings) == ("Weir", ("the diagram in the picture cannot be read",))
    assert _read(drawing.replace(_DIAGRAM, "x"), "a.svg").text == "Weir"


_BOOK = '<FictionBook xmlns="http://www.gribuser.ru/xml/fictionbook/2.0" xmlns:l="http://www.w3.org/1999/xlink">{}</FictionBook>'


@pytest.mark.parametrize(
    ("inside", "text"),
    [
        (
            "<p>Wasser<emphasis>werk</emphasis>, <strong>F</strong>luss, <style name='x'>a</style>b</p>",
            "Wasserwerk, Fluss, ab",
        ),
        (
            "<p>10<sup>6</sup> m<sup><strong>2</strong></sup>, H<sub>2</sub>O, 7<sub>8</sub></p>",
            "10^6^ m^2^, H2O, 7~8~",
        ),
        (
            "<p>a<image l:href='#p' alt='A weir' title='A weir'/>b</p><image l:href='#p' title='in spring'/>",
            "a A weir b\n\nin spring",
        ),
        (
            "<p><a l:href='https://weir.example/'>one</a> <a l:href='#top'>two</a></p>",
            "[one](https://weir.example/) two",
        ),
        ("<poem><title><p>Song</p></title><stanza><v>one</v><v>two</v></stanza></poem>", "### Song\n\none\ntwo"),
        ("<cite><p>x</p><p>y</p></cite><subtitle>z</subtitle>", "> x\n\n> y\n\n### z"),
        ("<table><tr><th>A</th><th>B</th></tr><tr><td>1</td></tr></table>", "| A | B |\n| --- | --- |\n| 1 |  |"),
        ("<list>one <item>two</item></list>", "one two"),
    ],
)
def test_parts_of_a_fiction_book_are_read(inside: str, text: str) -> None:
    document = _read(_BOOK.format(f"<body><section>{inside}</section></body>"), "a.fb2")
    assert (document.text, document.warnings) == (text, ())


@pytest.mark.parametrize(
    ("notes", "text"),
    [
        ("<section id='a'><title><p>1</p></title><p>one</p></section>", "x[^1]\n\n[^1]: one"),
        ("<section id='a'><title><p>Weir</p></title><p>a dam</p></section>", "x[^1]\n\n[^1]: Weir\n\na dam"),
        (
            "<title><p>Notes</p></title><section id='b'><p>no mark</p></section><section id='a'><p>one</p></section>",
            "x[^1]\n\n# Notes\n\nno mark\n\n[^1]: one",
        ),
        (
            "<section id='b'><p>two <a l:href='#a'>1</a></p></section>"
            "<section id='a'><p>one <a l:href='#b'>2</a></p></section>",
            "x[^1]\n\n[^1]: one [^2]\n\n[^2]: two [^1]",
        ),
        ("<p>loose</p>", "x1\n\nloose"),
    ],
)
def test_notes_of_a_fiction_book_lead_to_their_marks(notes: str, text: str) -> None:
    book = f"<body name='notes'>{notes}</body><body><p>x<a l:href='#a' type='note'>1</a></p></body>"
    assert _read(_BOOK.format(book), "a.fb2").text == text


@pytest.mark.parametrize(
    ("content", "text", "is_damaged"),
    [
        (_BOOK.format("<body><p>one&nbsp;two & three</p></body>"), "one two three", True),
        (_BOOK.format("<body><p>one</p><p>two</p></body>")[:-25], "one\n\ntwo", True),
        ("<FictionBook><body><p><a l:href='x:y'>one</a></p></body></FictionBook>", "[one](x:y)", False),
        ("<!DOCTYPE b [<!ENTITY a 'laugh'>]>" + _BOOK.format("<body><p>x&a;</p></body>"), "x&a;", False),
        (_BOOK.format(f"<body><p>{'<style>' * 200}x{'</style>' * 200}</p></body>"), "x", False),
    ],
)  # fmt: skip
def test_damaged_fiction_book_is_read_with_a_warning(content: str, text: str, is_damaged: bool) -> None:
    document = _read(content, "a.fb2")
    assert document.text == text
    assert document.warnings == (("the book is damaged; text may be missing",) if is_damaged else ())


def test_encoding_that_a_fiction_book_declares_counts() -> None:
    book = '<?xml version="1.0" encoding="windows-1251"?>' + _BOOK.format("<body><p>Вода</p></body>")
    assert _read(book, "a.fb2", "cp1251").text == "Вода"


def test_fiction_book_without_elements_is_an_error() -> None:
    with pytest.raises(ParseError, match="fictionbook"):
        _read("words", "a.fb2")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tex", "\\documentclass{article}\n\\usepackage[latin2]{inputenc}\n{}"),
        ("a.sty", "\\RequirePackage[latin2]{inputenc} % {}"),
        ("a.tex", "\\inputencoding{latin2}\n{}"),
        ("a.tex", "%!TEX encoding = ISO-8859-2\n{}"),
        ("a.bib", "% Encoding: ISO8859_2\n{}"),
        (
            "a.po",
            'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=iso-8859-2\\n"\n"Content-Transfer-Encoding: 8bit\\n"\n{}',
        ),
        ("a.po", '"Content-Transfer-Encoding: 8bit\\n"\n"Content-Type: text/plain; charset=iso-8859-2\\n"\n{}'),
        ("a.css", '@charset "iso-8859-2";\n/* {} */'),
        ("a.py", "#!/usr/bin/python\n# -*- coding: iso-8859-2 -*-\n# {}"),
        ("a.txt", "{}\nvim: set ts=4 fileencoding=latin2 :\n"),
        ("a.c", "// {}\n/* vim: fenc=iso-8859-2\n*/\n"),
        ("a.el", ";; {}\n;; Local Variables:\n;; mode: lisp\n;; coding: iso-latin-2-unix\n;; End:\n"),
    ],
)
def test_encoding_that_a_text_declares_counts(name: str, text: str) -> None:
    document = _read(text.replace("{}", "Příliš žluťoučký kůň"), name, "iso8859-2")
    assert "Příliš žluťoučký kůň" in document.text
    assert (document.warnings, dict(document.properties)) == ((), {})


def test_unknown_encoding_is_a_warning() -> None:
    warning = "the declared encoding is unknown; the encoding was guessed"
    words = "Schöne Grüße, die Mühle läuft für die Gäste"
    head = (
        "From: a@b.example\nDate: Tue, 4 Jun 2019 10:11:12 +0200\n"
        "MIME-Version: 1.0\nContent-Type: text/{}; charset=x-unknown\n\n"
    )
    for kind in ("plain", "html"):
        assert _read(head.format(kind) + words, "a.eml", "cp1252").warnings == (warning,)
        assert _read(head.format(kind) + words, "a.eml").warnings == ()
    assert warning in _read(f"# coding: x-unknown\n# {words}", "a.py", "cp1252").warnings


def test_declared_encoding_is_found_in_linear_time() -> None:
    started = time.process_time()
    for part in (b"coding", b"\\usepackage[", b"content-type:", b"vim:", b"Local Variables:", b"@charset ", b"%\t"):
        declared_encoding(part * 100_000)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"Stra\ss e, Ma\ss{} und {\ss}", "Straße, Maß und ß"),
        (r"\"Uber {\"U}ber \"{u} M{\"u}ller \textbf{\"A}hre", r"Über Über ü Müller \textbf{Ä}hre"),
        (
            r"\'etud\'e \`a \^{\i}le na\"\i ve \~n \v{s} \v s \c{c}a \.z \=o \H{o} \r{a} \u{g} \k a \d{s}",
            "étudé à île naïve ñ š š ça ż ō ő å ğ ą ṣ",
        ),
        (r"\o re \O{} \L{}\'od\'z \AE gir \aa \i", "øre Ø Łódź Ægir åı"),
        (
            r"\item \'x \\a \\\"u \label{u} \usepackage{c} \"{} \oint",
            r"\item \'x \\a \\\"u \label{u} \usepackage{c} \"{} \oint",
        ),
    ],
)
def test_letters_of_tex_are_letters(written: str, text: str) -> None:
    assert with_letters(written) == text


def test_title_of_tex_has_letters_and_code_has_none() -> None:
    source = '\\title{{\\"U}berlauf}\n\\section{F\\"ur}\nStr\\"ome\n\\begin{verbatim}\nx = "\\"Uh"\n\\end{verbatim}\n'
    document = _read(source, "a.tex")
    assert document.title == "Überlauf"
    assert "# Für" in document.text
    assert "Ströme" in document.text
    assert 'x = "\\"Uh"' in document.text
    assert "Müller" in _read('@book{a, author = {M{\\"u}ller}}', "a.bib").text


_XHTML = '<html xmlns="http://www.w3.org/1999/xhtml"><head>{}</head><body><h1>Weir</h1><p>words</p></body></html>'


@pytest.mark.parametrize(
    "head",
    [
        "<title/>",
        "<title />",
        '<title>T</title><script src="a.js"/>',
        "<style type='a/b'/>",
        '<script src="a.js"/><script>var a = "<title/>";</script>',
    ],
)
def test_element_closed_by_a_slash_hides_no_text_of_a_page(head: str) -> None:
    page = _XHTML.format(head)
    for name in ("a.html", "a.xhtml"):
        assert _read(page, name).text == "# Weir\n\nwords"
    assert normalize(RawContent(page.encode(), "a.html", address="https://a.example/")).text.endswith("words")
    mail = "From: a@b.example\nDate: Tue, 4 Jun 2019 10:11:12 +0200\nMIME-Version: 1.0\nContent-Type: text/html\n\n"
    assert _read(mail + page, "a.eml").text == "# Weir\n\nwords"


def test_text_beside_frames_is_read() -> None:
    frames = (
        "<frameset cols='1,2'><frame src='a.htm'><NOFRAMES><body><p>No <b>frames</b></p></body></NOFRAMES></frameset>"
    )
    for name in ("a.html", "a.xhtml"):
        document = _read(f"<html><head><title>T</title></head>{frames}</html>", name)
        assert (document.title, document.text) == ("T", "No frames")


@pytest.mark.parametrize(
    ("html", "body", "language"),
    [("lang=de-CH", "", "de"), ("", "lang=DE", "de"), ('xml:lang="it"', "", "it"), ('lang=""', 'xml:lang="fr"', "fr")],
)
def test_language_of_a_page_is_that_of_its_root_or_body(html: str, body: str, language: str) -> None:
    assert (
        _read(f"<html {html}><head><title>T</title></head><body {body}><p>ok</p></body></html>", "a.html").language
        == language
    )


def test_outline_has_titles_and_no_markup() -> None:
    lines = (
        '<outline title="only title"/><outline text="a" title="a"/><outline text="bold &lt;b&gt;x&lt;/b&gt;"/>'
        '<outline text="feed" xmlUrl="https://a.example/?a=1&amp;copy=2"/>'
    )
    text = _read(f'<opml version="2.0"><head><title>L</title></head><body>{lines}</body></opml>', "a.opml").text
    assert text == "- only title\n- a\n- bold x\n- feed https://a.example/?a=1&copy=2"


def test_labels_of_a_contact_are_read() -> None:
    card = (
        "BEGIN:VCARD\nVERSION:3.0\nFN:Ada Larch\nitem1.TEL;TYPE=CELL:1\nitem1.X-ABLabel:Weir\nitem2.X-ABRELATEDNAMES:Bo Weide\n"
        "item2.X-ABLabel:_$!<Spouse>!$_\nitem3.X-ABDATE:20010203\nX-ABLabel:alone\nX-PHONETIC-FIRST-NAME:Ah-da\n"
        "X-SPOUSE:Bo\nX-SKYPE:ada.larch\nEND:VCARD\n"
    )
    assert _read(card, "a.vcf").text.split("\n")[2:] == [
        "- Phone: 1 (cell) (Weir)",
        "- Date: 2001-02-03",
        "- Related: Bo Weide (Spouse)",
        "- Spouse: Bo",
        "- Chat: ada.larch",
        "- Spoken: Ah-da",
    ]


@pytest.mark.parametrize(
    ("start", "hour"),
    [
        ("DTSTART;TZID=Europe/Berlin:20190708T140000", 12),
        ("DTSTART;TZID=/Europe/Berlin:20190108T140000", 13),
        ("DTSTART:20190708T140000Z", 14),
        ("DTSTART:20190708T140000", 14),
        ("DTSTART;TZID=../../etc/passwd:20190708T140000", 14),
        ("DTSTART;TZID=W. Europe Standard Time:20190708T140000", 14),
        ("DUE;TZID=Asia/Tokyo:20190708T140000", 5),
        ("DTSTART;VALUE=DATE:20190708", 0),
    ],
)
def test_start_of_an_event_is_in_its_zone(start: str, hour: int) -> None:
    calendar = f"BEGIN:VCALENDAR\nVERSION:2.0\nBEGIN:VEVENT\nSUMMARY:T\n{start}\nEND:VEVENT\nEND:VCALENDAR\n"
    created = _read(calendar, "a.ics").created
    assert created is not None
    assert created.hour == hour


@pytest.mark.parametrize(
    ("note", "properties", "text"),
    [
        ("---\ntitle: P\n...\nx", {"title": "P"}, "x"),
        ("---\ncode: 0123\nlist: [007, 7, 0, 0.5]\n---\nx", {"code": "0123", "list": ["007", 7, 0, 0.5]}, "x"),
        ('+++\ntitle = "T"\n+++\nx', {"title": "T"}, "x"),
        (
            '+++\ndate = 2024-05-01T10:00:00Z\ntags=["a"]\nn=inf\nbig=9999999999999999999\n[extra]\nday = 2024-05-01\n+++\n',
            {
                "big": "9999999999999999999",
                "date": "2024-05-01 10:00:00+00:00",
                "extra": {"day": "2024-05-01"},
                "n": "inf",
                "tags": ["a"],
            },
            "",
        ),
        ("+++\n+++\nx", {}, "x"),
        ("+++ not", {}, "+++ not"),
        ("---\nwords\n", {}, "---\nwords\n"),
    ],
)
def test_properties_of_a_note_are_read_from_yaml_and_toml(note: str, properties: dict[str, object], text: str) -> None:
    document = _read(note, "a.md")
    assert (dict(document.properties), document.text, document.warnings) == (properties, text, ())


@pytest.mark.parametrize("block", ["a = ", "a = " + "[" * 50_000, "a = 1\na = 2", "a" * 70_000])
def test_invalid_toml_stays_text(block: str) -> None:
    document = _read(f"+++\n{block}\n+++\nx", "a.md")
    assert document.text.endswith("+++\nx")
    assert len(document.warnings) == 1


def test_file_in_the_text_of_a_message_is_named() -> None:
    head = "From: a@b.example\nDate: Tue, 4 Jun 2019 10:11:12 +0200\nSubject: x\nMIME-Version: 1.0\n\n"
    lines = "M1TE&.#EA`0`!`(```````///___R'Y!`$`````+``````!\n`\n"
    document = _read(
        f"{head}See:\n\nbegin 644 my weir.gif\n{lines}end\n\nThe picture shows the weir in the flood of last week.\n",
        "a.eml",
    )
    assert document.text == "See:\n\nmy weir.gif\n\nThe picture shows the weir in the flood of last week."
    assert document.warnings == ("files in the text (uuencode) were not read; only their names are in the text",)
    words = "begin 644 days ago\nand\nend"
    assert (_read(head + words, "a.eml").text, _read(head + words, "a.eml").warnings) == (words, ())
    started = time.process_time()
    _read(head + "begin 644 a\n" * 100_000 + lines * 10_000, "a.eml")
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "From: Ada <ada@example.org>\nTo: Bo\nSubject: Apples\nDate: Tue, 4 Jun 2019 10:11:12 +0200\n\nü",
            "message/rfc822",
        ),
        ("From: Ada\nSubject: Apples\n\nwords", "text/plain"),
        ("Date: today\nSubject: Apples\n\nFrom: x", "text/plain"),
    ],
)
def test_message_saved_as_text_is_a_message(text: str, kind: str) -> None:
    assert _read(text, "a.txt").media_type == kind


@pytest.mark.parametrize("form", [plistlib.FMT_XML, plistlib.FMT_BINARY])
def test_address_of_a_bookmark_is_read(form: plistlib.PlistFormat) -> None:
    assert (
        _read(plistlib.dumps({"URL": "https://weir.example/?a=1&b=2"}, fmt=form), "a.webloc").text
        == "https://weir.example/?a=1&b=2"
    )
    for values in ({}, [], {"URL": 1}):
        with pytest.raises(ParseError, match="bookmark"):
            _read(plistlib.dumps(values, fmt=form), "a.webloc")


@pytest.mark.parametrize(
    "data", [b"bplist00", b"bplist00" + b"\xd1" * 60, b"<plist><dict><string>x</string></dict></plist>", b"words"]
)
def test_damaged_bookmark_is_an_error(data: bytes) -> None:
    with pytest.raises(ParseError, match="bookmark"):
        _read(data, "a.webloc")


def test_paragraphs_of_word_in_one_xml_file_have_breaks_and_notes_apart() -> None:
    word = 'xmlns:w="http://schemas.microsoft.com/office/word/2003/wordml"'
    body = (
        "<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:t>left</w:t></w:r><w:r><w:tab/></w:r><w:r><w:t>right</w:t>"
        "<w:br/><w:t>below</w:t></w:r><w:r><w:footnote><w:p><w:r><w:t>a note</w:t></w:r></w:p></w:footnote></w:r></w:p>"
    )
    page = f'<?xml version="1.0"?><w:wordDocument {word}><w:body>{body}</w:body></w:wordDocument>'
    assert _read(page, "a.xml").text.split() == ["left", "right", "below", "a", "note"]


def test_export_of_a_wiki_is_the_page_inside() -> None:
    export = (
        "Date: Thu, 4 Apr 2019 10:00:00 +0000\nMessage-ID: <1.2.3@host>\nSubject: Exported From Confluence\nMIME-Version: 1.0\n"
        'Content-Type: multipart/related; \n\tboundary="x"\n\n--x\nContent-Type: text/html; charset=UTF-8\n'
        "Content-Transfer-Encoding: quoted-printable\nContent-Location: file:///C:/e.html\n\n"
        "<html><head><title>Pr=C3=BCfplan</title></head><body><p>Schieber =C3=B6ffnen</p></body></html>\n--x--\n"
    )
    document = _read(export, "a.doc")
    assert (document.title, document.text) == ("Prüfplan", "Schieber öffnen")
    draft = export.replace("Subject:", "From: Ada <ada@weir.example>\nSubject:")
    assert _read(draft, "a.eml").media_type == "message/rfc822"
