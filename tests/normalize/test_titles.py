"""Titles and languages: a declaration in the text has priority; otherwise one rule applies to all formats."""

from __future__ import annotations

import time

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.content.extract import extract
from catchment.content.normalize import normalize
from catchment.content.normalize.language_detection import declared_language, language
from catchment.content.normalize.markup import KINDS, as_markdown, headings
from catchment.model import Document, RawContent

_GERMAN = (
    "Die Wärterin sagt, dass der Fluss nach dem Regen nicht über die Brücke steigt und die Boote in der Nähe bleiben."
)
_ENDINGS = ("rst", "org", "adoc", "tex")


def _read(text: str, name: str = "Callouts.md") -> Document:
    return normalize(RawContent(text.encode(), name))


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# The weir\n\n## Gates\n\n## Locks\n", "The weir"),
        ("Some words, then\n\n# The weir\n", "The weir"),
        ("## Change the title\n\n### Gates\n", None),
        ("## Change the title\n\n# The weir\n", None),
        ("# Gates\n\n# Locks\n", None),
        ("# Gates\n\nLocks\n=====\n", None),
        ("The weir\n========\n\nGates\n-----\n", "The weir"),
        ("# The weir\n\n```\n# no\n```\n\n<!--\n# no\n-->\n", "The weir"),
        ("# \n\n# The weir\n\n# [](a.md)\n", "The weir"),
        ("no heading\n", None),
        ("---\ntitle: The weir\n---\n# Gates\n\n# Locks\n", "The weir"),
        ("---\ntitle: ''\n---\n# Gates\n", "Gates"),
    ],
)
def test_title_is_declared_or_the_only_heading_of_the_first_level(text: str, title: str | None) -> None:
    assert _read(text).title == title


@pytest.mark.parametrize(
    ("text", "name", "title"),
    [
        ("The weir\n========\n\nGates\n-----\n\nLocks\n-----\n", "a.rst", "The weir"),
        ("Gates\n=====\n\nLocks\n=====\n", "a.rst", None),
        (".. title:: The weir\n\nGates\n=====\n\nLocks\n=====\n", "a.rst", "The weir"),
        ("* The weir\n** Gates\n** Locks\n", "a.org", "The weir"),
        ("* Gates\n* Locks\n", "a.org", None),
        ("#+title: The weir\n* Gates\n", "a.org", "The weir"),
        ("= The weir\n\n= Part one\n\n== Gates\n", "a.adoc", "The weir"),
        ("The weir\n========\n:doctype: book\n\nGates\n-----\n", "a.adoc", "The weir"),
        ("// (c) Ada\n:toc:\n\n= The weir\n", "a.asciidoc", "The weir"),
        ("== Gates\n\n== Locks\n", "a.adoc", None),
        (r"\title{The \textbf{weir} \& its~gates\label{a}}", "a.tex", "The weir & its gates"),
        ("\\chapter{The weir}\n\\section{Gates}", "a.tex", "The weir"),
        ("%\\title{No}\n\\titleformat{\\section}{}\n\\begin{verbatim}\n\\title{No}\n\\end{verbatim}\n", "a.tex", None),
    ],
)
def test_other_markups_follow_the_same_rule(text: str, name: str, title: str | None) -> None:
    assert _read(text, name).title == title


def test_notebook_declares_its_title_or_has_one_heading() -> None:
    def notebook(*sources: str, **metadata: object) -> Document:
        cells = [{"cell_type": "markdown", "source": [source]} for source in sources]
        return normalize(RawContent(orjson.dumps({"cells": cells, "metadata": metadata, "nbformat": 4}), "a.ipynb"))

    assert notebook("intro", "# The weir\nwords", "## Gates").title == "The weir"
    assert notebook("# Gates", "# Locks").title is None
    assert notebook("# Gates", "# Locks", title="The weir").title == "The weir"
    assert notebook(_GERMAN).language == "de"


@pytest.mark.parametrize(
    ("name", "declared"),
    [
        ("de", "de"),
        ("de-CH", "de"),
        ("DE_at", "de"),
        ("German", "de"),
        ("ngerman", "de"),
        ("fr, en", "fr"),
        ("zh-Hans", "zh"),
        ("python", None),
        ("C", None),
        ("posix", None),
        ("", None),
        (None, None),
    ],
)
def test_declared_language_is_a_tag_or_a_name(name: str | None, declared: str | None) -> None:
    assert declared_language(name) == declared


@pytest.mark.parametrize(
    ("text", "name", "code"),
    [
        ("---\nlang: fr\n---\n" + _GERMAN, "a.md", "fr"),
        ("---\nlanguage: Python\n---\n" + _GERMAN, "a.md", "de"),
        (":lang: fr\n\n" + _GERMAN, "a.adoc", "fr"),
        (":language: fr\n\n" + _GERMAN, "a.rst", "fr"),
        (".. highlight:: sh\n   :language: sh\n\n" + _GERMAN, "a.rst", "de"),
        ("#+LANGUAGE: fr\n" + _GERMAN, "a.org", "fr"),
        ("\\usepackage[german,french]{babel}\n" + _GERMAN, "a.tex", "fr"),
        ("\\usepackage[main=french,german]{babel}\n" + _GERMAN, "a.tex", "fr"),
        ("\\documentclass[12pt,french]{book}\n\\usepackage{babel}\n" + _GERMAN, "a.tex", "fr"),
        ("\\documentclass[french]{book}\n\\usepackage[ngerman]{babel}\nwords", "a.tex", "de"),
        ("\\setmainlanguage[variant=british]{english}\n" + _GERMAN, "a.tex", "en"),
        ("%\\setmainlanguage{french}\n" + _GERMAN, "a.tex", "de"),
        (_GERMAN, "a.txt", "de"),
    ],
)
def test_language_is_declared_or_detected(text: str, name: str, code: str) -> None:
    assert _read(text, name).language == code


_CODE = (
    "for it in the list: if this is not that and you have it, then be on with it or as they are by the end of it\n" * 30
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"```python\n{_CODE}```\n", "a.md"),
        (f"~~~\n{_CODE}~~~\n", "a.md"),
        ("".join(f"- [{n}](https://example.org/{n}/of-the-{n})\n" for n in range(25)), "a.md"),
        (f"![](data:image/png;base64,{'A' * 5_000})\n", "a.md"),
        (f'<a href="the of and to in is">{"<br class=the>" * 60}</a>\n', "a.md"),
        (f"----\n{_CODE}----\n\n", "a.adoc"),
        (f"// {_CODE}\n\n".replace("\n", "\n// ") + "\n\n", "a.adoc"),
        (f"#+begin_src\n{_CODE}#+end_src\n", "a.org"),
        ("# the of and to in is that\n" * 30, "a.org"),
        ("% the of and to in is that\n" * 30 + "\\begin{document}\n", "a.tex"),
        ("\\newcommand{\\the}{of and to in is that}\n" * 30, "a.tex"),
        (".. the of and to in is that\n\n" * 30, "a.rst"),
    ],
)
def test_language_is_that_of_the_prose(text: str, name: str) -> None:
    assert _read(text + _GERMAN, name).language == "de"


def test_heading_of_a_markup_is_found_with_its_place() -> None:
    for name, text in {"a.rst": "Gates\n=====\n", "a.org": "* Gates\n", "a.adoc": "Gates\n-----\n"}.items():
        document = _read(f"words\n\n{text}\nmore", name)
        (heading,) = (entity for entity in extract(document).entities if entity.kind == "heading")
        assert document.text[heading.start : heading.end].strip("# ") == heading.value == "Gates"


@given(st.sampled_from(sorted(KINDS)), st.text("ab =-*#`~\\{}[]\n.:+_|%", max_size=200))
def test_any_text_in_a_markup_keeps_its_words(kind: str, text: str) -> None:
    written = as_markdown(text, kind)
    assert [letter for letter in written if letter in "ab"] == [letter for letter in text if letter in "ab"]
    for heading in headings(written):
        assert heading.value in written[heading.start : heading.end]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("ending", [*_ENDINGS, "md"])
@pytest.mark.parametrize(
    "line",
    [
        *(
            "```\n",
            "````\n~~~\n",
            "<!--\n",
            "# <!--\n",
            "#+begin_src\n",
            "----\n....\n",
            "a\n----\n",
            "= a" + " " * 200 + "\n",
        ),
        *(
            "\\section{",
            "\\section{{{",
            "\\section[",
            "\\title{\n",
            "\\usepackage[",
            "\\begin{verbatim}\n",
            "\\a[",
            "\\a{",
        ),
        *("* ", "*", "=", "\n", " ", "a\n=\n", "](", "://", "<a", "%", ":a:\n", "//\n", "// a\n\n"),
    ],
)
def test_titles_and_languages_take_linear_time(ending: str, line: str) -> None:
    text = line * (200_000 // len(line))
    begin = time.process_time()
    _read(text, f"a.{ending}")
    assert time.process_time() - begin < 2


def test_language_needs_prose() -> None:
    assert language("```\n" + _GERMAN) is None
    assert language("\\section{der und die}" * 40) is None
