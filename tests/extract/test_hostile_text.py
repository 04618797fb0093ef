"""Crafted text: every scan is linear in its length. A quadratic scan exceeds the time limit of these tests."""

from __future__ import annotations

import pytest

from catchment.content.extract import extract
from catchment.content.normalize import normalize
from catchment.model import Document, RawContent

_SIZE = 400_000
_PIECES = """
[ ] ( # `#_` `` ` ``_`_ ```| >_```| ~~~| ![[ [[a|b [[a ]] [a]( [a](b_" [x](a( ![ $a_ $$ %%_% <!-- \\ -_ -_[ -_[_]_ >_ >_[!
1._ a:: [a::_ (a::_( ^[ [^ ^a_ @ a@a. a@ :// a:// 2024- -01-01 a|=== ---| *** ____a|| ||| | _ a &amp; <a_ </p> <b>
<!--| >_<!--|| <a_b=' <b_c="d"_ <pre>| -| >| -_|| -_a||____ %%| $$|| 1.|___ ~~~|>_ [^1]:_
"""


def _spelled(piece: str) -> str:
    """Decode an entry of the table above: `_` is a space and `|` a line end."""
    return piece.replace("_", " ").replace("|", "\n")


@pytest.mark.full
@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", [_spelled(piece) for piece in _PIECES.split()])
def test_note_of_one_repeated_piece_takes_linear_time(piece: str) -> None:
    text = piece * (_SIZE // len(piece))
    document = normalize(RawContent(text.encode(), "note.md"))
    extraction = extract(document)
    assert len(extraction.chunks) >= (1 if document.text.strip() else 0)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("start", "piece", "end"),
    [
        ("# x", " ", "y"),
        ("# x\n", "`", "y"),
        ("[a](", " ", "x"),
        ("http://x", ")", "\n"),
        ("http://x", ").", "\n"),
        ("# ", "#", "x"),
        ("- [ ]", " ", "::"),
        ("a::", " ", "::"),
        ("> ", " ", "[!"),
        ("x\n", "=", "x"),
        ("|a|\n|-|\n", "|`", "\n"),
        ("|a|\n", "|-", "x"),
        ("<b ", "c ", "\n"),
        ("- " * 300, "\n", "\n`x`"),
        ("<!-- ", "<!-- ", "\n\n-->"),
        ("---\na: ", " ", "x\n---\nwords"),
        ("---\n", "--- x\n", ""),
        ("---\na: x", " :", "\n---\nwords"),
    ],
)
def test_a_long_line_is_read_in_linear_time(start: str, piece: str, end: str) -> None:
    text = start + piece * (_SIZE // len(piece)) + end
    assert extract(normalize(RawContent(text.encode(), "note.md"))).chunks


@pytest.mark.timeout(20)
def test_many_headings_below_one_without_end_are_read_in_linear_time() -> None:
    text = "# " + "x" * 4_000_000 + "\n" + "## y\n" * 100_000
    assert extract(Document(text, "text/markdown")).chunks


@pytest.mark.timeout(20)
def test_a_drawing_of_one_repeated_piece_is_read_in_linear_time() -> None:
    drawing = b"<svg>" + b"<title" * (_SIZE // 6)
    assert normalize(RawContent(drawing, "drawing.svg")).title is None


@pytest.mark.full
@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["def a", "class A", "const a = (", "\n   a", "function "])
@pytest.mark.parametrize("media_type", ["text/x-python", "text/javascript"])
def test_source_code_of_one_repeated_piece_is_read_in_linear_time(piece: str, media_type: str) -> None:
    extraction = extract(Document(text=piece * (_SIZE // len(piece)), media_type=media_type))
    assert extraction.chunks


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece", ["<div>", "<p>a", "<table><tr><td>", "<a href=x>", "<ul><li>", "<!--", "<", "<pre>", "<blockquote>"]
)
def test_endlessly_nested_page_is_read(piece: str) -> None:
    page = "<html>" + piece * 5_000 + "words"
    assert normalize(RawContent(page.encode(), "page.html")).media_type == "text/html"
