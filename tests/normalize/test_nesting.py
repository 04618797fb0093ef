"""Deeply nested pages are read in time without loss of text; other pages are unchanged."""

from __future__ import annotations

import re
import time

import pytest

from catchment.content.normalize.html import html
from catchment.content.normalize.html.nesting import flattened
from catchment.content.normalize.mail.html_body import page as mail_page

_SIZE = 800_000


@pytest.mark.full
@pytest.mark.parametrize("tags", ["<ul><li>", "<div>", "<dl><dd>", "<pre>", "<p><b><div>", "<span><div>", "<x/><div>"])
def test_deeply_nested_page_is_read_in_time_with_all_its_words(tags: str) -> None:
    number = _SIZE // (len(tags) + 9)
    page = "".join(f"{tags}word{n}\n" for n in range(number)).encode()
    began = time.process_time()
    text = html(page).text
    assert time.process_time() - began < 10, "it took 70 seconds"
    assert re.findall(r"word\d+", text) == [f"word{n}" for n in range(number)]


def test_deeply_nested_message_is_read_in_time_with_all_its_words() -> None:
    page = "".join(f"<ul><li>word{n} " for n in range(40_000)).encode()
    assert len(re.findall(r"word\d+", mail_page(page, None))) == 40_000


def test_structure_after_the_deep_part_is_kept() -> None:
    deep = "<div>" * 30_000 + "inside" + "</div>" * 30_000
    text = html(f"<h1>Before</h1><section>{deep}</section><h2>After</h2><p>one<p>two".encode()).text
    assert text.split() == ["#", "Before", "inside", "##", "After", "one", "two"]


def test_attributes_comments_and_scripts_are_not_text() -> None:
    inner = '<div title="a > b"><!-- no <p> --><script>if (a < b) { "</div>" }</script>word <img alt="pump" src="x">'
    text = html(("<div>" * 30_000 + inner * 2).encode()).text
    assert text.split() == ["word", "![pump](x)"] * 2


@pytest.mark.full
@pytest.mark.parametrize(
    "unit",
    [
        "<p><span>a<p>b",
        "<tr><td><font color=red>a<td><b>b",
        "<li><span>a<ul><li>b</ul>",
        "<div><span><i>a</div>",
        "<h2>a<h3>b</h3>",
        "<dt>a<dd><div>b</div>",
        "<svg><path d='M0'/><g><circle/></g></svg>a",
        "<a href=x>a<a href=y>b",
        "<table><tr><td>a</table>",
        "<script>'<div><div>'</script>a<br>",
        "<!-- <div> <div> -->a",
        "<select><option>a<option>b</select>c",
        "</div></p></b>a<hr>",
    ],
)
def test_invalid_page_of_normal_depth_is_unchanged(unit: str) -> None:
    start = "<table>" if unit.startswith("<tr") else "<ul>" if unit.startswith("<li") else "<body>"
    page = (start + unit * 21_000).encode()
    assert flattened(page) is page
