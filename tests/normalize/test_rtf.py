"""RTF as Word, WordPad, LibreOffice, TextEdit and Outlook write it, read by the rules of RTF 1.9.1."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from catchment.content.normalize import normalize
from catchment.errors import ParseError
from catchment.model import Document, RawContent

_WORD_ROW = (
    rb"\trowd\irow0\cellx100\cellx200\pard\plain\intbl{\rtlch\fcs1 \af0 \ltrch\fcs0 \insrsid1 %b\cell %b\cell}"
    rb"\pard\intbl{\rtlch\fcs1 \ltrch\trowd\irow0\cellx100\cellx200\row}"
)
_FONTS = (
    rb"{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset204 Arial CYR;}{\f2\fcharset2{\*\panose 05050102}Symbol;}"
    rb"{\f3\fcharset128{\*\falt x}Mincho;}{\f4\fcharset177 David;}}"
)


def _read(rtf: bytes, head: bytes = rb"\ansi\ansicpg1252\deff0" + _FONTS) -> Document:
    return normalize(RawContent(rb"{\rtf1" + head + b"\n" + rtf + b"}", "a.rtf"))


@pytest.mark.parametrize(
    ("rtf", "text"),
    [
        pytest.param(
            rb"{\b x}\par C\par" + _WORD_ROW % (b"1", b"2") + rb"\pard End\par",
            "x\n\nC\n\n| 1 | 2 |\n| --- | --- |\n\nEnd",
            id="table after a paragraph",
        ),
        pytest.param(
            _WORD_ROW % (b"1", b"2") + _WORD_ROW % (b"3|", rb"4\par 5") + rb"\pard\par",
            "| 1 | 2 |\n| --- | --- |\n| 3\\| | 4 5 |",
            id="rows",
        ),
        pytest.param(
            rb"\trowd\cellx1 A\cell B\cell\row\trowd\cellx1 C\cell\row",
            "| A | B |\n| --- | --- |\n| C |  |",
            id="row without intbl",
        ),
        pytest.param(
            rb"\trowd\intbl A\cell {\pard\intbl\itap2 in\nestcell ner\nestcell{\*\nesttableprops\trowd\nestrow}"
            rb"{\nonesttables\par}}\cell\row",
            "| A | in ner |\n| --- | --- |",
            id="nested table",
        ),
        pytest.param(
            rb"10{\super 2} m{\super 2\super0 .}, {\sub 2}H{\sub 2}O, log 2{\sub 8}, 1{\super st}",
            "10^2^ m^2^., 2H2O, log 2~8~, 1st",
            id="raised and lowered",
        ),
        pytest.param(
            rb"log{\sub 2}8, 10{\up6 6}{\up0 , }y{\dn6 4}2, z{\dn 4}\par 5{\sub 2}\par 8",
            "log~2~8, 10^6^, y~4~2, z4\n\n5~2~\n\n8",
            id="raised and lowered by half points, and before a number",
        ),
        pytest.param(
            rb"Water{\i mil}ls, H{\sub 2}O, {\b C}apital\b0 s\par", "Watermills, H2O, Capitals", id="emphasis in words"
        ),
        pytest.param(
            rb"one\line two\tab three\~four\_five a\-b\par six\page seven",
            "one\ntwo three four\u2011five ab\n\nsix\n\nseven",
            id="signs",
        ),
        pytest.param(
            rb"\ldblquote a\rdblquote  \lquote b\rquote  \endash  \emdash  \bullet", "“a” ‘b’ – — •", id="quotes"
        ),
        pytest.param(rb"\{a\} \\b", r"{a} \b", id="escapes"),
        pytest.param(
            rb"M\'fchle \u1042?\u1086?\u1076?\u1072? \uc0\u1042\u1086 \uc2\u252\'fc\'fcx{\uc0\u252}\u246??",
            "Mühle Вода Воüxüö",
            id="unicode",
        ),
        pytest.param(rb"\u-10180?\u-8399? \u127793?", "🌱 🌱", id="beyond the basic plane"),
        pytest.param(rb"\u9731\bin3 }}}snow", "☃snow", id="binary as replacement"),
        pytest.param(rb"{\f1\'c2\'ee\'e4\'e0} \f3\'90\'85\'88\'ca\plain\'fc", "Вода 水位ü", id="code pages of fonts"),
        pytest.param(rb"{\f3 \'83A\'83\\\'83\}}", b"\x83A\x83\\\x83}".decode("cp932"), id="second byte in ASCII"),
        pytest.param(
            rb"{\ltrch\fcs0 \f0 \rtlch\fcs1 \af4 \'f9\'ec\'e5\'ed}{\rtlch\af4\ltrch\f0 \'e9}",
            "שלוםé",
            id="right to left",
        ),
        pytest.param(rb"{\f2\'b7} {\f2\u-3913\'b7}{\f2 a}", "• •α", id="symbols"),
        pytest.param(
            rb"Text{\super\chftn{\footnote\pard\plain {\super\chftn} Note}} more{\*\atnid AB}{\*\atnauthor Ada}\chatn"
            rb"{\*\annotation{\*\atndate 1}Too low} end.\par",
            "Text[^1] more end.\n\nComment: Too low\n\n[^1]: Note",
            id="notes",
        ),
        pytest.param(
            rb"{\header\pard Head\par}{\footerf Foot {\field{\*\fldinst PAGE}{\fldrslt 1}}\par}Text\par",
            "Head\n\nFoot 1\n\nText",
            id="header and footer",
        ),
        pytest.param(
            rb'{\field{\*\fldinst{\f0 HYPERLINK "https://a.example/x"}{\*\datafield 00}}{\fldrslt{\ul Li}{\b nk}}}, '
            rb'{\field\fldedit{\*\fldinst HYPERLINK \\l "top"}{\fldrslt up}}',
            "[Link](https://a.example/x), up",
            id="links",
        ),
        pytest.param(
            rb'{\field{\*\fldinst HYPERLINK "https://a.example/x" \\l "top" \\o "tip"}{\fldrslt up}}',
            "[up](https://a.example/x#top)",
            id="link with a fragment",
        ),
        pytest.param(
            rb'{\field{\*\fldinst HYPERLINK "https://a.example/x"}{\fldrslt one\par two}} three',
            "[one](https://a.example/x)\n\n[two](https://a.example/x) three",
            id="link of two paragraphs",
        ),
        pytest.param(
            rb"{\listtext\f2\'b7\tab}One\par{\pntext\f0 2.\tab}Two\par{\*\pn\pnlvlblt{\pntxtb x}}",
            "- One\n\n2. Two",
            id="lists",
        ),
        pytest.param(
            rb"\pard\plain\s1\outlinelevel0 Head\par\pard\s3\outlinelevel2 Deep\par\pard\outlinelevel9 Text\par\pard # not\par",
            "# Head\n\n### Deep\n\nText\n\n\\# not",
            id="headings",
        ),
        pytest.param(
            rb"Text{\shp{\*\shpinst{\sp{\sn a}{\sv 202}}{\shptxt Box\par}}{\shprslt{\*\do{\dptxbxtext Box\par}}}} on\par",
            "Text on\n\nBox",
            id="text box",
        ),
        pytest.param(rb"{\*\do\dptxbx{\dptxbxtext Old\par}}Text", "Old\n\nText", id="old text box"),
        pytest.param(
            rb"a{\*\shppict{\pict\pngblip 89504e47}}{\nonshppict{\pict\wmetafile8\bin5 }{}\'}}b", "ab", id="pictures"
        ),
        pytest.param(
            rb"{\v secret}{\deleted gone}\v x\v0 seen {\revised new}{\xe index}{\*\bkmkstart b}",
            "seen new",
            id="hidden and deleted",
        ),
        pytest.param(rb"{\upr{old ?}{\*\ud{new \u1042?}}}", "new В", id="two forms"),
        pytest.param(
            rb"{\mmath{\*\moMath{\mr\mscr0 a=b}{\msSup{\msSupPr{\mctrlPr\f0 p}}{\me{\mr x}}{\msup{\mr 2}}}}}",
            "a=bx^2",
            id="formula",
        ),
        pytest.param(
            rb"{\mmath{\*\moMathPara{\*\moMathParaPr{\mjc centerGroup}}{\*\moMath{\mf{\mfPr{\mtype bar}}{\mnum{\mr -b}}"
            rb"{\mden{\mctrlPr}{\mr 2a}}}{\mr +}{\msSubSup{\me{\mr x}}{\msub{\mr i}}{\msup{\mr  }}}{\mr y}}}}",
            "-b/2a+x_i y",
            id="parts of a formula",
        ),
        pytest.param(
            rb"a{\shp{\*\shpinst{\sp{\sn shapeType}{\sv 136}}{\sp{\sn gtextUNICODE}{\sv Draft \u1042?}}{\sp{\sn gtextFont}"
            rb"{\sv Arial}}}{\shprslt x}} b{\v{\shp{\*\shpinst{\sp{\sn gtextUNICODE}{\sv hidden}}}}}",
            "a b\n\nDraft В",
            id="WordArt",
        ),
        pytest.param(
            rb"a{\*\shppict{\pict{\*\picprop{\sp{\sn wzName}{\sv x}}{\sp{\sn wzDescription}{\sv A weir}}}\pngblip 8950}} b",
            "a b\n\nA weir",
            id="description of a picture",
        ),
        pytest.param(
            rb"{\stylesheet{\s0 Normal;}{\*\cs10 Default;}}{\colortbl;\red0;}{\*\generator Msftedit;}{\*\listtable"
            rb"{\list{\listname ;}}}{\*\rsidtbl \rsid1}{\*\xmlnstbl x}Text",
            "Text",
            id="tables of the file",
        ),
        pytest.param(b"on\r\ne wo\rrd\\\r\nnext\\\nlast", "one word\n\nnext\n\nlast", id="line ends"),
        pytest.param(rb"{\lang1031\langfe1033 Sperr}\par}tail", "Sperr\n\ntail", id="too many ends"),
    ],
)
def test_text_of_rtf_is_read(rtf: bytes, text: str) -> None:
    document = _read(rtf)
    assert (document.text, document.warnings) == (text, ())


@pytest.mark.parametrize(
    ("head", "rtf", "text"),
    [
        (rb"\ansi\ansicpg1251", rb"\'c2\'ee\'e4\'e0 " + "Вода".encode("cp1251"), "Вода Вода"),
        (rb"\mac", rb"M\'9fhle", "Mühle"),
        (rb"\mac\ansicpg10000", rb"M\'9fhle", "Mühle"),
        (rb"\pc", rb"M\'81hle", "Mühle"),
        (rb"\ansi\ansicpg65001", "Mühle".encode(), "Mühle"),
        (rb"\ansi\ansicpg932{\fonttbl\f0\fnil\fcharset1 X;\f1\fcharset238 Y;}\f0", rb"\'90\'85\f1\'e8", "水č"),
        (
            rb"\ansi\ansicpg1252\cocoartf2639{\fonttbl\f0\fswiss\fcharset0 Helvetica;}",
            b"\\f0\\b0 \\cf0 {\\listtext\t\\uc0\\u8226 \t}Eins\\\n{\\listtext\t1.\t}Zwei",
            "- Eins\n\n1. Zwei",
        ),
        (rb"\ansi\fromtext", rb"Dear Ada,\line\par the weir", "Dear Ada,\n\nthe weir"),
        (
            rb"\ansi\fromhtml1\htmlrtf{\fonttbl{\f0 X;}}\htmlrtf0",
            rb"{\*\htmltag64 <p>}\htmlrtf{\f0\htmlrtf0 The {\*\htmltag84 <b>}\htmlrtf "
            rb"{\b \htmlrtf0 weir\htmlrtf }\htmlrtf0{\*\htmltag92 </b>}\par is {\*\htmltag84 &ouml;}\'f6"
            rb"{\*\mhtmltag84 x}\htmlrtf\par}\htmlrtf0{\*\htmltag72 </p>}",
            "The weir is öö",
        ),
    ],
)
def test_heads_of_programs_are_obeyed(head: bytes, rtf: bytes, text: str) -> None:
    assert _read(rtf, head).text == text


def test_facts_of_an_rtf_are_properties() -> None:
    document = _read(
        rb"{\info{\upr{\title ?}{\*\ud{\title \u1042?oda}}}{\author Ada}{\operator Bo}{\creatim\yr2019\mo5\dy4\hr10\min3}"
        rb"{\revtim\yr2020\mo12\dy24}{\keywords weir; dam}{\subject Water}{\doccomm x}{\*\company C}}Text"
    )
    assert (document.title, document.author, document.text) == ("Вoda", "Ada", "Text")
    assert (document.created, document.modified) == (
        datetime(2019, 5, 4, 10, 3, tzinfo=UTC),
        datetime(2020, 12, 24, tzinfo=UTC),
    )
    assert document.properties == {"authors": ["Ada"], "keywords": ["weir", "dam"], "subject": "Water"}


def test_title_of_an_rtf_is_in_the_code_page_of_the_file() -> None:
    head = rb"\ansi\ansicpg1251\deff0{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset204 Arial;}}{\info{\title \'c2\'ee\'e4\'e0}}"
    document = _read(rb"\'fc{\f1\'c2\'ee\'e4\'e0}", head)
    assert (document.title, document.text) == ("Вода", "üВода")


@pytest.mark.parametrize(
    ("rtf", "warning"),
    [
        (rb"{\object{\*\objclass X}{\*\objdata 0102}{\result Text}}", "embedded files not read: 1"),
        (rb"{\object{\*\objclass Equation.3}{\*\objdata 0102}{\result{\pict 01}}}Text", "embedded files not read: 1"),
        (rb"{\field{\*\fldinst EQ \\f(1,2)}{\fldrslt }}Text", "formulas not read: 1"),
        (rb"{\f3\'83\'01}", "some characters are not valid in their code page"),
        (rb"{Text", "the file is truncated; text may be missing"),
    ],
)
def test_gaps_of_an_rtf_are_warnings(rtf: bytes, warning: str) -> None:
    assert _read(rtf).warnings == (warning,)


def test_damaged_rtf_is_an_error() -> None:
    with pytest.raises(ParseError, match="application/rtf"):
        normalize(RawContent(b"\0\1\2" * 100, "a.rtf"))


@pytest.mark.parametrize(
    "part",
    [
        b"{",
        rb"{\footnote x",
        rb"{\*\annotation x",
        rb"{\field{\*\fldinst x",
        rb"\trowd x\cell",
        rb"{\upr{\*\ud ",
        rb"\u1042?",
        b"}",
    ],
)
def test_deep_and_long_rtf_takes_linear_time(part: bytes) -> None:
    started = time.process_time()
    _read(part * 50_000)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("lead", [b"\xef\xbb\xbf", b"\n", b"\xef\xbb\xbf \r\n"])
def test_mark_or_blank_lines_before_an_rtf_are_ignored(lead: bytes) -> None:
    document = normalize(RawContent(lead + rb"{\rtf1\ansi Text}", "a.rtf"))
    assert (document.text, document.warnings) == ("Text", ())
