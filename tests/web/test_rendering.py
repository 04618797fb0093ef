"""Documents as HTML: structure, links, and the safety of hostile texts."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from catchment.content.extract import extract
from catchment.content.normalize.formats import MAIL
from catchment.ledger import ConversationMessage, Named, Shown
from catchment.model import Document
from catchment.views import documents
from catchment.views.reading import MessageView, ReadingView, ReadMessage, TextKind
from tests.web import nasty
from tests.web.safety import faults
from web import rendering
from web.rendering.markdown_parser import Dialect, TooMuchWork, parse

KINDS = {
    "text/markdown": TextKind.NOTE,
    "text/html": TextKind.EXTRACTED,
    MAIL: TextKind.MAIL,
    "text/x-python": TextKind.SOURCE,
}
LIBRARY = {
    name: Named(number, path, title, number, ())
    for number, (name, path, title) in enumerate(
        [
            ("map.png", "Maps/map.png", "map.png"),
            ("Other", "Other.md", "Other"),
            ("docs/other.md", "docs/other.md", "Other"),
            ("report.pdf", "report.pdf", "report"),
            ("x", "x.md", "x"),
        ],
        7,
    )
}


def read(
    text: str,
    media_type: str = "text/markdown",
    *,
    title: str = "A title",
    metadata: Mapping[str, Any] | None = None,
    conversation: Sequence[ReadMessage] = (),
) -> ReadingView:
    """Return a document with this text, in a library with the files of `LIBRARY`."""
    content = Document(text, media_type)
    extraction = extract(content)
    itself = ConversationMessage(5, title, None, None, "s", "i")
    shown = Shown(
        document=5, content_id=5, title=title, source="notes", item="Note.md", item_id=5, modified=None,
        metadata=metadata or {}, content_hash="", normalizer="", content=content, aliases=(), links=extraction.links,
        entities=extraction.entities, places=(), mentions=(), attached=(), carrier=None,
        conversation=(itself,) if media_type == MAIL else (),
    )  # fmt: skip
    return ReadingView(
        shown=shown, view=documents.document(shown), kind=KINDS[media_type], file=None, has_files=True, targets=LIBRARY,
        links_to=(), linked_from=(), has_more_links=False, copies=(), conversation=tuple(conversation),
        origin=None, history=None, version=None,  # type: ignore[arg-type]
    )  # fmt: skip


def html(text: str, media_type: str = "text/markdown", **more: Any) -> str:
    return str(rendering.body(read(text, media_type, **more)))


def visible_text(output: str) -> str:
    """Return the text of HTML."""
    return " ".join(re.sub(r"<[^>]*>", " ", output).split())


@pytest.mark.parametrize("media_type", KINDS)
@pytest.mark.parametrize("place", ["{0}", "> {0}", "- {0}\n\n  {0}", "|a|\n|-|\n|{0}|", "# {0}\n\n**{0}**", "[{0}](x)"])
def test_no_nasty_text_leaves_the_list_of_what_is_allowed(place: str, media_type: str) -> None:
    for text in nasty.EVERY:
        assert faults(html(place.format(text), media_type)) == [], text


PIECES = st.sampled_from(
    [*nasty.EVERY, *"*_`~=%[]()!<>#|\\&:\"'-\n \t", "\n\n", "[[", "]]", "![[", "](", "> ", "- ", "```\n", "https://"]
)
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=12)), max_size=25).map("".join)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS, st.sampled_from(sorted(KINDS)), st.booleans())
@example("[![x](https://evil.example/a.png)](https://a.example)", "text/markdown", False)
def test_no_composed_text_leaves_the_list(text: str, media_type: str, is_vault: bool) -> None:
    assert faults(html(text, media_type, metadata={"vault": "v"} if is_vault else {})) == []


@pytest.mark.parametrize(
    "planted", ["<script>", "<img src=//e.example/x>", "<p onclick=x>", "<a href=javascript:x>", "<p id=say>"]
)
def test_judge_of_html_finds_each_planted_fault(planted: str) -> None:
    assert faults(f"<p>fine</p>{planted}") != []


@pytest.mark.parametrize("name", nasty.HEAVY)
def test_dense_text_takes_bounded_work_and_stays_safe(name: str) -> None:
    began = time.process_time()
    output = html(nasty.HEAVY[name][: rendering.MOST_CHARACTERS])
    assert time.process_time() - began < 3
    assert faults(output) == []


@pytest.mark.parametrize(
    "text", [">" * 100, "* " * 99 + "a", "\n".join("  " * n + "- a" for n in range(100)), "*a " * 9_000]
)
def test_text_beyond_the_bound_on_work_is_shown_plainly(text: str) -> None:
    with pytest.raises(TooMuchWork):
        parse(text, Dialect.NOTE)
    assert html(text).startswith('<pre class="plain"')
    assert visible_text(html(text)).startswith(text.split("\n", maxsplit=1)[0][:2].replace(">", "&gt;"))


def test_long_line_is_shown_in_parts_without_loss() -> None:
    text = "".join(chr(0x4E00 + n % 20_000) for n in range(1_000_000))
    long = read(text)
    whole = "".join(visible_text(str(rendering.body(long, part))) for part in range(1, rendering.parts(long) + 1))
    assert whole == text
    assert rendering.parts(long) == 34


def test_long_note_is_divided_at_headings_and_rendered() -> None:
    text = "".join(f"# Chapter {n}\n\n{'A **word** each. ' * 500}\n\n" for n in range(20))
    long = read(text)
    output = [str(rendering.body(long, part)) for part in range(1, rendering.parts(long) + 1)]
    assert all(part_html.startswith("<h2") for part_html in output)
    assert "".join(output).count("<h2") == 20


@pytest.mark.parametrize("part", [-1, 0, 99])
def test_part_that_is_not_there_shows_the_nearest(part: int) -> None:
    assert "Words" in html("Words") and str(rendering.body(read("Words"), part)) == html("Words")


def test_note_has_tables_tasks_code_highlights_and_breaks() -> None:
    output = html(
        "|a|b|\n|-:|-|\n|1|[[Other\\|two]]|\n\n- [x] done\n- [/] half\n\n```python\nx < 1\n```\n\n==marked== and `code`"
    )
    assert '<td class="right">1</td>' in output and '<a href="/documents/8">two</a>' in output
    assert '<li class="task done"><span class="box" role="img" aria-label="Done">☑</span> done' in output
    assert '<code class="language-python">x &lt; 1\n</code>' in output
    assert "<mark>marked</mark> and <code>code</code>" in output


def test_callout_is_a_box_and_a_folded_one_opens() -> None:
    assert html("> [!warning] Ice **here**\n> Careful.").startswith(
        '<div class="callout warning"><p class="callout-title">Ice'
    )
    folded = html("> [!tip]-\n> inside")
    assert '<details class="callout tip"><summary class="callout-title">Tip</summary>' in folded and "inside" in folded
    assert '<details class="callout note" open="">' in html("> [!odd]+ T\n> x")


def test_footnotes_refer_to_paragraphs_of_their_own() -> None:
    output = html("Text[^1] and[^b].\n\n[^1]: One.\n[^b]: Two\n  lines.")
    assert '<sup><a href="#t-note-1">1</a></sup>' in output and '<sup><a href="#t-note-b">b</a></sup>' in output
    assert '<p class="footnote" id="t-note-1"><sup>1</sup> One.</p>' in output
    assert '<p class="footnote" id="t-note-b">' in output and "lines." in output


def test_links_lead_to_documents_headings_and_blocks() -> None:
    text = (
        "[[Other#Some Heading!]] [[Other#^peak|p]] [r](docs/other.md#part) "
        "[[#Below]] [[Nowhere]]\n\n# Below\n\ntext ^peak\n\n- item ^low"
    )
    output = html(text)
    assert '<a href="/documents/8#t-some-heading">Other › Some Heading!</a>' in output
    assert '<a href="/documents/8#t-block-peak">p</a>' in output
    assert '<a href="/documents/9#t-part">r</a>' in output
    assert '<a href="#t-below">' in output and '<h2 id="t-below">' in output
    assert '<span class="missing">Nowhere</span>' in output
    assert '<p id="t-block-peak">text</p>' in output and '<li><span id="t-block-low"></span>item' in output


def test_picture_of_the_library_is_loaded_from_this_process_only() -> None:
    output = html("![[map.png|300]] ![A map|200](map.png) ![[report.pdf]]")
    assert '<img src="/documents/5/file?embed=map.png" alt="map.png" width="300" loading="lazy">' in output
    assert 'alt="A map" width="200"' in output
    assert '<a href="/documents/10" class="embed">report.pdf</a>' in output


def test_remote_picture_is_a_link_that_opens_elsewhere() -> None:
    output = html("![Chart](https://pics.example/a.png)")
    assert "<img" not in output
    assert '<a href="https://pics.example/a.png" rel="noopener noreferrer" target="_blank" class="outside">' in output
    assert visible_text(output) == "Chart (picture at pics.example)"


def test_bare_addresses_are_links_and_links_do_not_nest() -> None:
    output = html(
        "See https://a.example/x. [in https://b.example](https://c.example) [a <https://d.example> b](https://e.example)"
    )
    assert output.count("<a ") == output.count("</a>")
    assert 'href="https://a.example/x"' in output and 'href="https://b.example"' not in output


def test_html_of_a_note_is_left_out_and_its_words_stay() -> None:
    text = (
        "<div align=center>\n<b>Bold</b> words\n</div>\n\n"
        "<!-- hidden -->\n\nline<br>break <kbd>K</kbd>\n\n<script>\nalert(1)\n</script>"
    )
    output = html(text)
    assert visible_text(output) == "Bold words line break K"
    assert "line<br>break K" in output


def test_program_is_shown_as_code() -> None:
    assert "<code>def a():" in html("def a(): <b>", "text/x-python")
    assert "<code>" not in str(rendering._plain("words"))


def test_html_in_extracted_text_and_mail_is_text() -> None:
    assert visible_text(html("a <b>c</b>", "text/html")) == "a &lt;b&gt;c&lt;/b&gt;"
    assert "&lt;b&gt;" in html("a <b>c</b>", MAIL)


def test_comments_of_a_vault_are_left_out_and_lines_break() -> None:
    output = html("one\ntwo %%secret%%\n\n%%\nsecret\n\nsecret\n%%\n\nthree", metadata={"vault": "v"})
    assert visible_text(output) == "one two three"
    assert "one<br>" in output


def test_heading_that_repeats_the_title_is_left_out() -> None:
    assert html("# a  Title\n\n## Next", title="A title") == '<h2 id="t-next">Next</h2>\n'


def test_mail_folds_quotations_and_signatures() -> None:
    output = html("Dear *all*,\nyes.\n\n> Shall we?\n> Now?\n\nBye\n-- \nP. P.", MAIL)
    assert "<p>Dear *all*,<br>\nyes.</p>" in output
    assert (
        '<details class="quoted"><summary>Quoted text, 2 lines</summary><blockquote><p>Shall we?<br>\nNow?</p>'
        in output
    )
    assert output.endswith("<summary>Signature</summary><blockquote><p>P. P.</p>\n</blockquote></details>")
    both = html("Hello\n-- \nP. P.\n\n> Shall we?", MAIL)
    assert re.findall("<summary>([^<]+)", both) == ["Signature", "Quoted text, 1 line"] and "-- " not in both


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "It is $x^2$.",
            '<p>It is <math display="inline"><mrow><msup><mi>x</mi><mn>2</mn></msup></mrow></math>.</p>\n',
        ),
        ("$$\nx\n\n- y\n$$", '<math display="block"><mrow><mi>x</mi><mo>−</mo><mi>y</mi></mrow></math>'),
        ("> $$\n> x\n> $$", '<blockquote>\n<math display="block"><mrow><mi>x</mi></mrow></math></blockquote>\n'),
        ("It costs $5, then $6.", "<p>It costs $5, then $6.</p>\n"),
        ("`$x$` and \\$y", "<p><code>$x$</code> and $y</p>\n"),
        (r"$\frac{$", r"<p><code>\frac{</code></p>" + "\n"),
        (r"$\newcommand{\a}{\a\a}\a$", r"<p><code>\newcommand{\a}{\a\a}\a</code></p>" + "\n"),
        (r"$\text{<b>}$", "<mtext>&lt;b&gt;</mtext>"),
    ],
)
def test_formulas_become_mathml(text: str, expected: str) -> None:
    assert expected in html(text)


@pytest.mark.parametrize(
    "formula",
    [
        r"\href{javascript:alert(1)}{x}",
        r"\style{color:red}{x}",
        r"\class{notice}{x}",
        r"\color{red}{x}",
        r"\hspace{9999em}",
        "x" * 9_999,
    ],
)
def test_formula_has_no_links_styles_or_wide_spaces(formula: str) -> None:
    output = html(f"$${formula}$$")
    assert faults(output) == [] and "9999em" not in output
    assert not re.search("<[^>]*(?:href|style=|class|color)", output)


def test_diagram_is_a_figure_with_its_text() -> None:
    assert html("```mermaid\ngraph TD\n```") == (
        '<figure class="diagram"><figcaption>Diagram in Mermaid</figcaption><pre tabindex="0"><code class="language-mermaid">'
        "graph TD\n</code></pre></figure>\n"
    )


def test_list_of_extracted_text_has_one_mark() -> None:
    output = html("- 1\\. Publish\n- 2\\. Inspect\n\nThen\n\n- • Survey\n- a 3. time", "text/html")
    assert re.findall("<(ol|ul|li)>([^<\n]*)", output) == [
        ("ol", ""), ("li", "Publish"), ("li", "Inspect"), ("ul", ""), ("li", "Survey"), ("li", "a 3. time"),
    ]  # fmt: skip


def test_conversation_shows_each_message_and_shortens_the_others() -> None:
    far = ReadMessage(ConversationMessage(4, "T", None, None, "s", "j"), None)
    near = ReadMessage(replace(far.message, document=6), MessageView((), (), (), (("word " * 5_000, False),), ()))
    itself = ReadMessage(replace(far.message, document=5), MessageView((), (), (), (("Hello", False),), ()))
    texts = rendering.messages(read("Hello", MAIL, conversation=[far, itself, near]))
    assert list(texts) == [5, 6]
    assert str(texts[5]) == "<p>Hello</p>\n"
    assert 5_000 < len(texts[6]) < 5_200 and "left out" in texts[6]


def test_program_code_is_shown_as_it_is_without_misleading_marks() -> None:
    output = html("if x:\n\t# \u202eevil\u2066\n<b>", "text/x-python")
    assert output == '<pre class="plain" tabindex="0"><code>if x:\n\t# \ufffdevil\ufffd\n&lt;b&gt;</code></pre>'
