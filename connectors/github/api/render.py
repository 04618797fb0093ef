"""What the API tells of an issue, a comment or a release, as an item and as the text that becomes its document.

The text is a function of what a person wrote, and the version its hash: that somebody commented, closed or labelled an issue
changes no document. State, labels and milestone are attributes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from catchment.model import Item, RawContent

_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # a terminal's control sequence, whole
    r"|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)"  # a command to the terminal, whole
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_DIRECTION = re.compile(r"[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Marks of writing direction, which make a title read as another one."""
_TITLE_LENGTH = 1_000
_EARLIEST = 1970
_TOO_MANY = 2**63
_HUNK_LINES, _HUNK_WIDTH = 8, 500
_REFERENCE = re.compile(r"(?<![\w/&#.-])(?:([A-Za-z0-9-]{1,39}/[\w.-]{1,100})#|GH-|#)(\d{1,9})\b(?!\]\()")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_NUMBER = re.compile(r"/(?:issues|pulls?)/(\d+)(?:[#/?]|\Z)")
_ISSUES, _PULLS = "issues", "pulls"


class Kind(StrEnum):
    """What it is that was said; the value is the part of the locator that says so."""

    THREAD = ""
    COMMENT = "comment"
    REVIEW = "review"
    RELEASE = "release"


class Said(NamedTuple):
    """One thing that was said: where it lies and what it is, and its text. `updated` is as the API writes it."""

    item: Item
    text: bytes
    title: str
    updated: str
    metadata: Mapping[str, Any]
    comments: int = 0

    def raw(self, item: Item) -> RawContent:
        """As the content of this item, which is at least as old."""
        name = f"{item.locator.rpartition('/')[2]}.md"
        return RawContent(self.text, name, title=self.title, modified=item.modified, metadata=self.metadata)


class CommentPlace(NamedTuple):
    """What a locator leads to: an issue by its number, one of its comments by its id besides, or a release by its tag."""

    repository: str
    kind: Kind
    number: int = 0
    name: str = ""

    @property
    def locator(self) -> str:
        """`owner/repo#12`, `owner/repo#12/comment/99`, `owner/repo#release/v1.0`."""
        match self.kind:
            case Kind.THREAD:
                return f"{self.repository}#{self.number}"
            case Kind.RELEASE:
                return f"{self.repository}#release/{self.name}"
        return f"{self.repository}#{self.number}/{self.kind}/{self.name}"


def place(locator: str) -> CommentPlace:
    """What was made a locator."""
    repository, _, rest = locator.partition("#")
    number, _, more = rest.partition("/")
    if not number.isdecimal():
        return CommentPlace(repository, Kind.RELEASE, name=more)
    kind, _, name = more.partition("/")
    return CommentPlace(repository, Kind(kind), int(number), name)


def thread(repository: str, told: Mapping[str, Any]) -> Said:
    """An issue or a pull request."""
    is_pull = "pull_request" in told
    title = _line(told.get("title"))
    state = "merged" if is_pull and (told["pull_request"] or {}).get("merged_at") else _line(told.get("state"))
    attributes = {
        "state": state,
        "labels": sorted(_name(label) for label in told.get("labels") or ()),
        **({"milestone": _line(told["milestone"].get("title"))} if told.get("milestone") else {}),
        **({"draft": True} if told.get("draft") else {}),
    }
    at = CommentPlace(repository, Kind.THREAD, _counted(told["number"]))
    container = f"{repository}/{_PULLS if is_pull else _ISSUES}"
    metadata = {"kind": "pull" if is_pull else "issue", "number": at.number}
    text = _text({}, told, title, repository)
    found = _said(at, container, told, text, f"{title} #{at.number}", attributes, metadata)
    return found._replace(comments=int(told.get("comments") or 0))


def comment(repository: str, told: Mapping[str, Any]) -> Said:
    """A comment on an issue or a pull request."""
    url = str(told.get("html_url"))
    number = _number(url, str(told.get("issue_url")))
    at = CommentPlace(repository, Kind.COMMENT, number, str(_counted(told["id"])))
    container = f"{repository}/{_PULLS if '/pull/' in url else _ISSUES}"
    text = _text({}, told, "", repository)
    title = f"Comment by {_author(told)} on {repository}#{number}"
    return _said(at, container, told, text, title, {}, {"kind": "comment", "number": number})


def review(repository: str, told: Mapping[str, Any]) -> Said:
    """A comment on a line of a pull request."""
    number = _number(str(told.get("pull_request_url")), str(told.get("html_url")))
    at = CommentPlace(repository, Kind.REVIEW, number, str(_counted(told["id"])))
    path = _line(told.get("path"))
    text = _text({"path": path}, told, "", repository, hunk=str(told.get("diff_hunk") or ""))
    title = f"Review by {_author(told)} of {path} in {repository}#{number}"
    return _said(at, f"{repository}/{_PULLS}", told, text, title, {}, {"kind": "review", "number": number})


def release(repository: str, told: Mapping[str, Any]) -> Said:
    """A release; its files by name."""
    tag = _line(told.get("tag_name"))
    at = CommentPlace(repository, Kind.RELEASE, name=f"draft-{_counted(told['id'])}" if told.get("draft") else tag)
    title = _line(told.get("name") or tag)
    files = "".join(f"- {_line(asset.get('name'))}\n" for asset in told.get("assets") or ())
    text = _text({"version": _line(tag)}, told, title, repository, files=files)
    attributes = {"prerelease": True} if told.get("prerelease") else {}
    if told.get("draft"):
        told = {**told, "node_id": None}  # What is published is new, and no draft that moved.
    return _said(
        at,
        f"{repository}/releases",
        told,
        text,
        title,
        attributes,
        {"kind": "release", "draft": bool(told.get("draft"))},
    )


def moment(text: str) -> datetime:
    """A moment as the API writes it. Raises ValueError for one that has no zone, or that the host cannot have seen."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None or found.year < _EARLIEST:
        raise ValueError("no moment")
    return found.astimezone(UTC)


READ: Mapping[Kind, Callable[[str, Mapping[str, Any]], Said]] = {
    Kind.THREAD: thread,
    Kind.COMMENT: comment,
    Kind.REVIEW: review,
    Kind.RELEASE: release,
}


def _said(
    at: CommentPlace,
    container: str,
    told: Mapping[str, Any],
    text: str,
    title: str,
    attributes: Mapping[str, Any],
    metadata: Mapping[str, Any],
) -> Said:
    data = text.encode("utf-8", "replace")
    version = hashlib.sha256(data).hexdigest()[:16]
    updated = str(told.get("updated_at") or told.get("published_at") or told.get("created_at"))
    node = _line(told.get("node_id"))
    item = Item(
        at.locator,
        container,
        version,
        f"{node}.{version}" if node else None,
        len(data),
        moment(updated),
        attributes,
    )
    return Said(
        item, data, title, updated, {**metadata, "repository": at.repository, "url": _line(told.get("html_url"))}
    )


def _text(
    properties: Mapping[str, str],
    told: Mapping[str, Any],
    title: str,
    repository: str,
    *,
    hunk: str = "",
    files: str = "",
) -> str:
    """Properties, a heading, and what was written, with references to issues as links."""
    head = {"author": _author(told), "created": str(told.get("published_at") or told.get("created_at")), **properties}
    lines = ["---", *(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()), "---"]
    if title:
        lines += [f"# {title}", ""]
    if hunk:
        shown = [line[:_HUNK_WIDTH] for line in _clean(hunk).split("\n")[-_HUNK_LINES:]]
        fence = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`{3,}", hunk))])
        lines += [f"{fence}diff", *shown, fence, ""]
    web = _web(_line(told.get("html_url")), repository)
    lines.append(_linked(_clean(str(told.get("body") or "")), repository, web).strip("\n"))
    if files:
        lines += ["", files.rstrip("\n")]
    return "\n".join(lines).rstrip("\n") + "\n"


def _linked(text: str, repository: str, web: str) -> str:
    """References to issues (`#12`, `GH-12`, `owner/repo#12`) as links, outside of code."""

    def link(found: re.Match[str]) -> str:
        return f"[{found[0]}]({web}/{found[1] or repository}/issues/{found[2]})"

    lines, fence = [], ""
    for line in text.split("\n"):
        opened = _FENCE.match(line)
        if fence:
            closes = opened is not None and opened[1].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if closes else fence
        elif opened is not None:
            fence = opened[1]
        else:
            # Every second piece is between backticks.
            pieces = line.split("`")
            line = "`".join(p if n % 2 else _REFERENCE.sub(link, p) for n, p in enumerate(pieces))  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines)


def _web(url: str, repository: str) -> str:
    """The address under which a browser finds the host's repositories."""
    return url.partition(f"/{repository}/")[0] if f"/{repository}/" in url else url.split("/", 3)[0]


def _counted(value: Any) -> int:
    """A number that the host gave to something. Raises ValueError for one that no host gives."""
    number = int(value)
    if not 0 < number < _TOO_MANY:
        raise ValueError("no number")
    return number


def _number(*addresses: str) -> int:
    found = next((found for address in addresses if (found := _NUMBER.search(address))), None)
    return int(found[1]) if found else 0


def _author(told: Mapping[str, Any]) -> str:
    """Whoever said it; GitHub calls those who left `ghost`."""
    return _line((told.get("user") or told.get("author") or {}).get("login")) or "ghost"


def _name(label: Any) -> str:
    return _line(label.get("name") if isinstance(label, Mapping) else label)


def _clean(text: str) -> str:
    """Without what a terminal would obey."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def _line(text: Any) -> str:
    """One line, without what a terminal would obey or what turns its letters round."""
    return _DIRECTION.sub("", " ".join(_CONTROL.sub("", str(text or "")).split()))[:_TITLE_LENGTH]
