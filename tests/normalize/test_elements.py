"""The elements of HTML: each has one treatment, in files and in fetched pages."""

from __future__ import annotations

from time import process_time

import pytest

from catchment.content.normalize import normalize
from catchment.content.normalize.html import html
from catchment.content.normalize.html.elements import BLOCKS, DROPPED, INLINE, LISTS
from catchment.model import RawContent

_STANDARD = """
    a abbr address area article aside audio b base bdi bdo blockquote body br button canvas caption cite code col colgroup data
    datalist dd del details dfn dialog div dl dt em embed fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 head header
    hgroup hr html i iframe img input ins kbd label legend li link main map mark math menu meta meter nav noscript object ol
    optgroup option output p picture pre progress q rp rt ruby s samp script search section select selectedcontent slot small
    source span strong style sub summary sup svg table tbody td template textarea tfoot th thead time title tr track u ul var
    video wbr"""
"""The index of elements of the HTML standard (WHATWG)."""
_OBSOLETE = """
    acronym applet basefont bgsound big blink center dir font frame frameset isindex keygen listing marquee multicol nextid nobr
    noembed noframes param plaintext rb rtc spacer strike tt xmp"""
"""The elements of section 16.2 of the standard that a parser keeps."""
_OF_TABLES = "caption col colgroup table tbody td tfoot th thead tr"
_OF_PAGES = "html head body frameset frame"
_VOID = "area base br col embed hr img input link meta source track wbr basefont bgsound frame keygen param isindex"
_OWN = "button option optgroup pre listing xmp plaintext textarea sup sub rt rtc li details"
_PLAIN = {*_STANDARD.split(), *_OBSOLETE.split()} - {*f"{_OF_TABLES} {_OF_PAGES} {_VOID} {_OWN}".split()}
_LEADS = {**{f"h{level}": "#" * level + " " for level in range(1, 7)}, "blockquote": "> "}


def test_each_element_of_the_standard_has_one_treatment() -> None:
    names = [*_STANDARD.split(), *_OBSOLETE.split()]
    assert sorted([*BLOCKS, *INLINE, *(DROPPED - {"-comment"})]) == sorted(names)


@pytest.mark.parametrize("address", ["", "https://example.org/"])
@pytest.mark.parametrize("name", sorted(_PLAIN))
def test_element_is_read_as_its_treatment_says(name: str, address: str) -> None:
    page = f"<div>one<{name}>words</{name}>two</div>".encode()
    text = normalize(RawContent(page, "a.html", address=address)).text
    lines = [line for line in text.split("\n") if line]
    if name in DROPPED:
        assert lines == ["onetwo"]
    elif name in BLOCKS:
        assert lines == ["one", _LEADS.get(name, "") + "words", "two"]
    else:
        assert lines == ["onewordstwo"]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<table><caption>Levels</caption><tr><td>1<td>2</table>", "Levels\n1 | 2"),
        ("<menu><li>one<li>two</menu>", "- one\n- two"),
        ("<dir><li>one</dir>", "- one"),
        ("<pre>a\n b</pre>", "```\na\n b\n```"),
        ("<listing>a\n b</listing>", "```\na\n b\n```"),
        ("<xmp>a\n <b></xmp>", "```\na\n <b>\n```"),
        ("<plaintext>a\n <b>", "```\na\n <b>\n```"),
        ("<select><option>Wales</option></select>", ""),
        ("<details><summary>Why?</summary>Because</details>", "Why?\nBecause"),
        ("<dl><dt>weir</dt><dd>A low dam</dd></dl>", "weir\nA low dam"),
        ("<fieldset><legend>Gates</legend><label>North</label></fieldset>", "Gates\nNorth"),
        ("<dialog>The gate is open</dialog>", "The gate is open"),
        ("<p>Sum <output>12</output>, <meter>3 of 4</meter>", "Sum 12, 3 of 4"),
        ("<object data=x><p>A plan of the weir</p></object>", "A plan of the weir"),
        ("<canvas>A chart of levels</canvas>", "A chart of levels"),
        ("<video src=x><p>See <a href=t.html>the transcript</a></p></video>", "See [the transcript](t.html)"),
        ("<figure><img src=a.png alt=Weir><figcaption>In May</figcaption></figure>", "![Weir](a.png)\nIn May"),
        ("<hgroup><p>Part 1</p><h2>Weirs</h2></hgroup>", "Part 1\n\n## Weirs"),
        ("<x-card>one <slot>two</slot></x-card>", "one two"),
        ("a<template>no</template><noscript>no</noscript><iframe>no</iframe>b", "ab"),
    ],
)
def test_structure_of_elements_is_kept(page: str, text: str) -> None:
    assert html(page.encode()).text == text
    assert LISTS <= BLOCKS


@pytest.mark.parametrize(
    ("page", "is_read"),
    [
        ("<h3><button>Words</button></h3>", True),
        ("<h3><span></span> <span><button>Words</button></span></h3>", True),
        ("<dt><button>Words</button></dt><dd>x</dd>", True),
        ("<div><button aria-expanded=false>Words</button></div>", True),
        ("<div><button aria-controls=a1>Words</button><div id=a1>x</div></div>", True),
        ("<button class=accordion>Words</button><div class=panel><p>x</p></div>", True),
        ("<p>Press <button>Words</button> to store.</p>", True),
        ("<div><button>Words</button></div><p>x</p>", False),
        ("<h1>Struct <span>Iter</span><button title='Copy path'>Words</button></h1>", False),
        ("<h2>Install <button>Words</button></h2>", False),
        ("<div class=code><button>Words</button><div class=lines><pre>x</pre></div></div>", False),
        ("<button>Words</button><pre>x</pre>", False),
        ("<form><input><button>Words</button></form>", False),
        ("<button>Words</button><button>x</button><p>y</p>", False),
    ],
)
def test_button_is_read_if_its_words_are_content(page: str, is_read: bool) -> None:
    assert ("Words" in html(page.encode()).text) is is_read


_ANSWER = (
    "The keeper opens the gate at seven in the morning and closes it when the last boat has passed the lower weir. "
)


@pytest.mark.parametrize(
    "question",
    [
        "<h3><button>{}</button></h3>",
        "<h3><button aria-expanded=false><span>{}</span></button></h3>",
        "<button class=accordion>{}</button>",
        "<h3><label for=x>{}</label></h3>",
        "<details open><summary>{}</summary></details>",
        "<fieldset><legend>{}</legend></fieldset>",
    ],
)
def test_questions_of_a_fetched_page_are_read(question: str) -> None:
    questions = ("When does the gate open?", "Who keeps the keys?", "Why seven?")
    parts = (f"{question.format(each)}<div><p>{_ANSWER * 2}</p></div>" for each in questions)
    menu = "<nav><button aria-expanded=false>Menu</button></nav>"
    page = f"<html><head><title>Gate</title></head><body>{menu}<main><h1>Questions</h1>{''.join(parts)}</main></body></html>"
    text = normalize(RawContent(page.encode(), "a.html", address="https://example.org/")).text
    assert [each for each in questions if each not in text] == []
    assert "Menu" not in text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("10<sup>6</sup> joules", "10^6^ joules"),
        ("2<sup>80</sup>", "2^80^"),
        ("40 m<sup>2</sup>", "40 m^2^"),
        ("10<sup>-3</sup> and x<sup>n</sup>", "10^-3^ and x^n^"),
        ("Ca<sup>2+</sup> and H<sup>+</sup>", "Ca^2+^ and H+"),
        ("turbine<sup>1</sup> was", "turbine^1^ was"),
        ("Leeds<sup id=f2><a href=#fn2>2</a></sup>", "Leeds^2^"),
        ("runner<a href=#n3><sup>3</sup></a>", "runner^3^"),
        ("runner<a href=n.html><sup>3</sup></a>", "runner[3](n.html)"),
        ("weir<sup><a href=#c1>[1]</a></sup>", "weir[1]"),
        ("weir<sup><a href=c.html>1</a></sup>", "weir[1](c.html)"),
        ("1<sup>st</sup> of May, XIX<sup>e</sup>, M<sup>me</sup>, Catch<sup>TM</sup>", "1st of May, XIXe, Mme, CatchTM"),
        ("word<sup>*</sup> and<sup> </sup>on", "word* and on"),
        ("<b>10</b><sup><i>6</i></sup>", "10^6^"),
        ("H<sub>2</sub>O and CO<sub>2</sub>", "H2O and CO2"),
        ("1010<sub>2</sub> is 10", "1010~2~ is 10"),
        ("log<sub>2</sub>8", "log~2~8"),
        ("x<sub>i</sub><sup>2</sup>", "xi^2^"),
        ("<pre>10<sup>6</sup></pre>", "```\n10^6^\n```"),
        ("a<sup><div>b1</div></sup>c", "a\nb1\nc"),
    ],
)  # fmt: skip
def test_raised_and_lowered_text_makes_no_other_word(page: str, text: str) -> None:
    assert html(page.encode()).text == text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>村の<ruby>東<rt>とう</rt>京<rt>きょう</rt></ruby>から", "村の東京から (とうきょう)"),
        ("<p><ruby>虐待<rp>(</rp><rt>ぎゃくたい</rt><rp>)</rp></ruby>の記事", "虐待の記事 (ぎゃくたい)"),
        ("<p><ruby>製<rt>せい</rt></ruby><ruby>粉<rt>ふん</rt></ruby>所", "製粉所 (せいふん)"),
        ("<p><ruby>水<rt>みず</ruby>と<ruby>火<rt>ひ</ruby>と<ruby>水<rt>みず</ruby>", "水と火と水 (みず, ひ)"),
        ("<p><ruby><rb>水<rb>車<rt>すい<rt>しゃ</ruby>", "水車 (すいしゃ)"),
        ("<p><ruby>水車<rtc>すいしゃ</rtc></ruby>", "水車 (すいしゃ)"),
        ("<p><ruby>水車</ruby>", "水車"),
        ("<p><a href=a><ruby>水車<rt>すいしゃ</ruby></a>は", "[水車](a)は (すいしゃ)"),
        ("<h1><ruby>水車<rt>すいしゃ</ruby></h1><p>a", "# 水車 (すいしゃ)\n\na"),
        ("<p><ruby>水<rt>みず</ruby>。</p><p><ruby>火<rt>ひ</ruby>。", "水。 (みず)\n\n火。 (ひ)"),
    ],
)
def test_readings_follow_the_line_and_split_no_word(page: str, text: str) -> None:
    assert html(page.encode()).text == text


def test_paragraph_with_readings_is_in_the_main_text() -> None:
    ruby = "村の<ruby>東<rt>とう</rt>京<rt>きょう</rt></ruby>から来た<ruby>虐待<rp>(<rt>ぎゃくたい<rp>)</ruby>の記事。"
    page = f"<html><title>x</title><body><article><h1>水車</h1><p>{ruby}毎朝七時に水位を読む。古い水門は二度修理された。</p>"
    page += (
        "<p>洪水のあと、村の人たちは新しい堤防を作った。その工事は三年かかった。今は観光客が多い。</p></article></html>"
    )
    text = normalize(RawContent(page.encode(), "a.html", address="https://example.org/")).text
    assert "村の東京から来た虐待の記事。毎朝七時に" in text
    assert "(とうきょう, ぎゃくたい)" in text


def test_title_from_a_heading_has_no_readings_and_whole_words() -> None:
    heading = "<h1>The <ruby>水車<rt>すいしゃ</rt></ruby><br>and H<sub>2</sub>O <script>no</script></h1>"
    for address in ("", "https://example.org/"):
        assert normalize(RawContent(heading.encode(), "a.html", address=address)).title == "The 水車 and H2O"


@pytest.mark.parametrize(
    "page",
    [
        "<h1>" + "<button>a</button>" * 20_000,
        "<button>a</button><div>" * 5_000,
        "<h1>" + "<sup>1</sup>" * 30_000,
        "<ruby>a<rt>b" * 30_000,
        "<title>a" + " | a" * 30_000 + "</title>" + "<h1>a</h1>" * 1_000,
    ],
)
@pytest.mark.parametrize("address", ["", "https://example.org/"])
def test_pages_of_many_elements_take_linear_time(page: str, address: str) -> None:
    start = process_time()
    normalize(RawContent(f"<html>{page}".encode(), "a.html", address=address))
    assert process_time() - start < 6


def test_code_in_a_toolbar_is_in_the_main_text() -> None:
    prose = "".join(f"<p>The keeper of sluice {n} writes down the level of the water at noon.</p>" for n in range(20))
    code = '<div class="code-toolbar"><pre><code>gauge --read weir</code></pre></div>'
    page = f"<html><body><article><h1>Weir</h1>{prose}{code}{prose}</article></body></html>"
    assert "gauge --read weir" in normalize(RawContent(page.encode(), "p.html", address="https://example.org/")).text
