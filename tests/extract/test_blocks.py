"""Block structure: links in code, comments and formulas are not links."""

from __future__ import annotations

import pytest

from catchment.content.extract.blocks import leaves
from catchment.model import EntityKind
from tests.extract.reading import of, values


def _targets(text: str) -> list[str]:
    return [link.target for link in of(text).links]


@pytest.mark.parametrize(
    "item",
    ["- run (`make`), then:", "- run `make`.", "1. cost $x$, then:", "* `a` and `b`:", "- **see**:", "[^1]: a `note`:"],
)
def test_paragraph_of_a_list_item_is_not_code(item: str) -> None:
    text = f"{item}\n\n    see [[Weir]] and #larch ^b1\n"
    assert _targets(text) == ["Weir"]
    assert values(text, EntityKind.TAG) == ["larch"]
    assert values(text, EntityKind.BLOCK) == ["b1"]


@pytest.mark.parametrize(
    "text",
    [
        "# Head\n    [[n]]",
        "- item\n\n      [[n]]",
        "-     [[n]]",
        ">     [[n]]",
        "> - a\n>\n>       [[n]]",
        "1. a\n\n        [[n]]",
        "- a\n\nwords\n\n    [[n]]",
        "-\n\n      [[n]]",
        "words\n---\n\t[[n]]",
        "```\nx\n```\n    [[n]]",
        "<pre>\n```\n[[n]]\n</pre>",
        "<script>let a = '[[n]]'</script>",
        "<div>\n<!-- [[n]] -->\n</div>",
        "<!--\n\n[[n]]\n\n-->",
        "- a\n  ```\n\n  [[n]]\n  ```",
        "%% a\n\n- b [[n]]\n\n%%",
        "$$\na [[n]]\n\n$$",
        "- a\n\n      $x$ [[n]]",
    ],
)
def test_text_in_code_or_comment_is_not_a_link(text: str) -> None:
    assert _targets(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "- a ` b [[n]]\n- c ` d",
        "- costs $5 [[n]]\n- and $x$",
        "it costs $5 [[n]] and $x$ more",
        "a ` b [[n]]\n# c ` d",
        "# a ` b\n[[n]] ` c",
        "a ` b\n---\n[[n]] ` c",
        "> a ` b\n\n[[n]] ` c",
        "a ` b\n> [[n]] ` c",
        "| a ` b | [[n]] |\n|---|---|\n| c ` d | e |",
        "| a | b |\n|---|---|\n| c ` d | [[n]] ` e |",
        "| a | b |\n|---|---|\n| c $5 | [[n]] |\n| d | $x$ |",
        "a %% b [[n]]\n\nc %% d",
        "- a $$ [[n]]\n- b $$",
        "a <!-- b [[n]]\n\nc --> d",
        "<pre>\n```\n</pre>\n\n[[n]]",
        "<div>\n```\n\n[[n]]",
        "- ```\n  x\n\n[[n]]",
        "> ```\n> x\n[[n]]",
        "words\n    [[n]]",
        "- a\n    - b\n        - [[n]]",
        "- a\n\n\t[[n]]",
        "> - a\n>\n>   [[n]]",
        "10. a\n\n    [[n]]",
        "<!-- never closed\n\n[[n]]",
        "<pre>never closed\n\n[[n]]",
        "<pre>\nx\n</PRE>\n[[n]]",
        "%%\nx\n%%\n[[n]]",
        "$$\nx\n$$ [[n]]",
        "<b title='`'> [[n]] `",
        "<https://example.org/`> [[n]] `",
        "<div>`[[n]]`</div>",
    ],
)
def test_link_outside_of_code_is_found(text: str) -> None:
    assert "n" in _targets(text)


@pytest.mark.parametrize("words", ["<!-- starts a comment", "<pre> starts code", "`<a href='`"])
def test_tags_in_the_text_of_a_page_are_words(words: str) -> None:
    text = f"{words}\n\n[n](https://example.org/n)\n\n--> </pre> '>"
    assert [link.target for link in of(text, "text/html").links] == ["https://example.org/n"]


def test_data_url_of_an_image_is_not_a_link() -> None:
    assert _targets("![a](<data:image/svg+xml;utf8,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22/%3E>) [[n]]") == ["n"]
    assert _targets("![a](data:image/png;base64,iVBORw0KGgo=) [[n]]") == ["n"]


def test_containers_beyond_a_hundred_are_text() -> None:
    assert _targets("> " * 99 + ">     [[n]]") == []
    assert _targets("> " * 100 + ">     [[n]]") == ["n"]


def test_paragraphs_without_a_mark_are_skipped() -> None:
    assert leaves("plain words\n\n- and a list\n\nwith `code`\n") == [(27, 39, True)]
