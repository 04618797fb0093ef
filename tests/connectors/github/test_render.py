"""Documents made from issues, comments and releases: text, title and attributes."""

from __future__ import annotations

from typing import Any

import pytest

from catchment.content.extract import extract
from catchment.content.normalize import normalize
from connectors.github.api.entries import EntryKind, EntryRef, comment, conversation, parse_locator, release, review

WEB = "https://github.com"


def issue(**more: Any) -> dict[str, Any]:
    return {
        "id": 1, "node_id": "I_1", "number": 12, "title": "The gauge", "body": "It sticks", "user": {"login": "ada"},
        "state": "open", "labels": [], "html_url": f"{WEB}/ada/weir/issues/12",
        "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-02T00:00:00Z", **more,
    }  # fmt: skip


def body(text: str) -> str:
    """Return the text for a body."""
    return conversation("ada/weir", issue(body=text)).text.decode().partition("# The gauge\n\n")[2].rstrip("\n")


def test_issue_has_title_body_author_and_time() -> None:
    entry = conversation("ada/weir", issue())
    assert entry.text.decode() == (
        '---\nauthor: "ada"\ncreated: "2026-01-01T00:00:00Z"\n---\n# The gauge\n\nIt sticks\n'
    )
    raw = entry.raw(entry.item)
    assert (raw.title, raw.name) == ("The gauge #12", "weir#12.md")
    assert raw.metadata == {
        "kind": "issue", "number": 12, "repository": "ada/weir", "url": f"{WEB}/ada/weir/issues/12",
    }  # fmt: skip
    document = normalize(raw)
    assert (document.author, document.text) == ("ada", "# The gauge\n\nIt sticks\n")
    assert document.created is not None


def test_deleted_user_is_a_ghost_and_empty_body_is_valid() -> None:
    entry = conversation("ada/weir", issue(user=None, body=None, title=None, labels=None))
    assert 'author: "ghost"' in entry.text.decode()
    assert normalize(entry.raw(entry.item)).author == "ghost"


def test_state_labels_and_comments_do_not_change_the_version() -> None:
    before = conversation("ada/weir", issue())
    after = conversation(
        "ada/weir", issue(state="closed", labels=[{"name": "bug"}], comments=3, updated_at="2026-02-02T00:00:00Z")
    )
    assert before.item.version == after.item.version
    assert before.item.identity == after.item.identity
    assert before.item.attributes != after.item.attributes
    assert conversation("ada/weir", issue(body="It sticks!")).item.version != before.item.version
    assert conversation("ada/weir", issue(title="The gate")).item.version != before.item.version


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        ("see #7.", "see [#7](https://github.com/ada/weir/issues/7)."),
        ("bob/mill#3 and GH-9", "[bob/mill#3](https://github.com/bob/mill/issues/3) and [GH-9](https://github.com/ada/weir/issues/9)"),
        ("(#1, #2)", "([#1](https://github.com/ada/weir/issues/1), [#2](https://github.com/ada/weir/issues/2))"),
        ("- a\n    - see #7", "- a\n    - see [#7](https://github.com/ada/weir/issues/7)"),
        ("`#7` and ``a ` #7``", "`#7` and ``a ` #7``"),
        ("```\n#7\n```\nafter", "```\n#7\n```\nafter"),
        ("~~~~ py\n#7\n~~~\n#8\n~~~~", "~~~~ py\n#7\n~~~\n#8\n~~~~"),
        ("[#7](https://example.org)", "[#7](https://example.org)"),
        ("https://example.org/a#7 page.html#7 a#7 #7a &#35;7 #tag", "https://example.org/a#7 page.html#7 a#7 #7a &#35;7 #tag"),
        ("https://github.com/ada/weir/issues/7#issuecomment-9", "https://github.com/ada/weir/issues/7#issuecomment-9"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("red \x1b[31malert\x07\x9b2J\x00", "red alert2J"),
    ],
)  # fmt: skip
def test_references_become_links_except_in_code(written: str, becomes: str) -> None:
    assert body(written) == becomes


def test_references_are_links_of_the_document() -> None:
    entry = conversation("ada/weir", issue(body="as in bob/mill#3"))
    links = extract(normalize(entry.raw(entry.item))).links
    assert [link.target for link in links] == ["https://github.com/bob/mill/issues/3"]


def test_titles_cannot_inject_control_codes_or_properties() -> None:
    hostile = "\x1b]0;owned\x07 a\u202etxt.exe\n---\nauthor: mallory\n---\n# b \x9b31m"
    entry = conversation("ada/weir", issue(title=hostile, user={"login": 'x"\nauthor: y'}, labels=[{"name": hostile}]))
    texts = [entry.title, str(entry.metadata), *entry.item.attributes["labels"]]
    assert not any(c in text for text in texts for c in "\x1b\x07\x9b\n\u202e")
    document = normalize(entry.raw(entry.item))
    assert document.properties.keys() == {"author", "created"}
    assert "mallory" not in str(document.properties)


@pytest.mark.parametrize(
    "hostile", ["#1" * 30_000, "`" * 60_000, "a/" * 30_000, "a-" * 30_000 + "#1", "~~~\n" * 15_000, "[" * 60_000]
)
def test_hostile_body_is_rendered_quickly(hostile: str) -> None:
    assert body(hostile)


def test_comment_names_its_issue() -> None:
    fields = issue(
        id=99, html_url=f"{WEB}/ada/weir/pull/12#issuecomment-99", issue_url="https://api/x/issues/12", body="Yes, #3"
    )
    entry = comment("ada/weir", fields)
    assert (entry.item.locator, entry.item.container) == ("ada/weir#12/comment/99", "ada/weir/pulls")
    assert entry.title == "Comment by ada on ada/weir#12"
    assert entry.text.decode().endswith("---\nYes, [#3](https://github.com/ada/weir/issues/3)\n")


def test_review_quotes_its_lines_in_a_safe_fence() -> None:
    hunk = "\n".join(["@@ -1,20 +1,20 @@", *(f" line {n}" for n in range(20)), "+```", "+x = 1"])
    fields = issue(id=5, path="docs/a.md", diff_hunk=hunk, pull_request_url="https://api/repos/ada/weir/pulls/12")
    entry = review("ada/weir", fields | {"html_url": f"{WEB}/ada/weir/pull/12#discussion_r5"})
    assert entry.item.locator == "ada/weir#12/review/5"
    text = entry.text.decode()
    assert 'path: "docs/a.md"' in text
    assert "````diff\n line 14\n" in text
    assert "+x = 1\n````\n\nIt sticks\n" in text


def test_release_contains_its_tag_and_files() -> None:
    fields = issue(tag_name="v1.0/β", name=None, assets=[{"name": "weir.tar.gz"}], published_at="2026-03-01T00:00:00Z")
    entry = release("ada/weir", fields)
    assert entry.item.locator == "ada/weir#release/v1.0/β"
    assert entry.title == "v1.0/β"
    assert entry.text.decode().endswith("# v1.0/β\n\nIt sticks\n\n- weir.tar.gz\n")
    assert 'created: "2026-03-01T00:00:00Z"' in entry.text.decode()


@pytest.mark.parametrize(
    "at",
    [
        EntryRef("a/b", EntryKind.CONVERSATION, 12),
        EntryRef("a/b", EntryKind.COMMENT, 12, "99"),
        EntryRef("a/b", EntryKind.REVIEW, 12, "99"),
        EntryRef("a/b", EntryKind.RELEASE, name="v1#2/3"),
    ],
)
def test_api_locators_are_reversible(at: EntryRef) -> None:
    assert parse_locator(at.locator) == at


def test_names_in_the_marks_of_existing_cursors_stay() -> None:
    assert [kind.mark for kind in EntryKind] == ["thread", "comment", "review", "release"]
