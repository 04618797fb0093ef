"""Convert an issue, comment or release from the API into an item and the Markdown text of its document.

The document contains only text by people, and its hash is the version: new comments, labels or a closed state do not
change it. State, labels and milestone are attributes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from catchment.model import Item, RawContent, time_of

_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # a complete control sequence
    r"|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)"  # a complete operating system command
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_DIRECTION = re.compile(r"[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Writing direction marks, which can make a title display as another one."""
_TITLE_LENGTH = 1_000
_EARLIEST = 1970
_TOO_MANY = 2**63
_HUNK_LINES, _HUNK_WIDTH = 8, 500
_REFERENCE = re.compile(r"(?<![\w/&#.-])(?:([A-Za-z0-9-]{1,39}/[\w.-]{1,100})#|GH-|#)(\d{1,9})\b(?!\]\()")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_NUMBER = re.compile(r"/(?:issues|pulls?)/(\d+)(?:[#/?]|\Z)")
_ISSUES, _PULLS = "issues", "pulls"


class EntryKind(StrEnum):
    """The type of an entry; the value is its part in the locator."""

    CONVERSATION = ""
    COMMENT = "comment"
    REVIEW = "review"
    RELEASE = "release"

    @property
    def mark(self) -> str:
        """The name in the keys of marks; it is in the cursors of existing sources."""
        return self.value or "thread"


class ApiEntry(NamedTuple):
    """An entry of the API: its item and text. `updated` is the time as written by the API."""

    item: Item
    text: bytes
    title: str
    updated: str
    metadata: Mapping[str, Any]
    comments: int = 0

    def is_between(self, since: datetime, until: datetime) -> bool:
        """Return whether its last change is in this period."""
        return self.item.modified is not None and since <= self.item.modified < until

    def raw(self, item: Item) -> RawContent:
        """Return the content for an item of this entry."""
        name = f"{item.locator.rpartition('/')[2]}.md"
        return RawContent(self.text, name, title=self.title, modified=item.modified, metadata=self.metadata)


class EntryRef(NamedTuple):
    """A parsed locator: an issue by number, a comment by number and id, or a release by tag."""

    repository: str
    kind: EntryKind
    number: int = 0
    name: str = ""

    @property
    def locator(self) -> str:
        """`owner/repo#12`, `owner/repo#12/comment/99`, `owner/repo#release/v1.0`."""
        match self.kind:
            case EntryKind.CONVERSATION:
                return f"{self.repository}#{self.number}"
            case EntryKind.RELEASE:
                return f"{self.repository}#release/{self.name}"
        return f"{self.repository}#{self.number}/{self.kind}/{self.name}"


def parse_locator(locator: str) -> EntryRef:
    """Parse a locator."""
    repository, _, rest = locator.partition("#")
    number, _, more = rest.partition("/")
    if not number.isdecimal():
        return EntryRef(repository, EntryKind.RELEASE, name=more)
    kind, _, name = more.partition("/")
    return EntryRef(repository, EntryKind(kind), int(number), name)


def conversation(repository: str, fields: Mapping[str, Any]) -> ApiEntry:
    """Convert an issue or pull request."""
    is_pull = "pull_request" in fields
    title = _line(fields.get("title"))
    state = "merged" if is_pull and (fields["pull_request"] or {}).get("merged_at") else _line(fields.get("state"))
    attributes = {
        "state": state,
        "labels": sorted(_name(label) for label in fields.get("labels") or ()),
        **({"milestone": _line(fields["milestone"].get("title"))} if fields.get("milestone") else {}),
        **({"draft": True} if fields.get("draft") else {}),
    }
    ref = EntryRef(repository, EntryKind.CONVERSATION, _checked_number(fields["number"]))
    container = f"{repository}/{_PULLS if is_pull else _ISSUES}"
    metadata = {"kind": "pull" if is_pull else "issue", "number": ref.number}
    text = _text({}, fields, title, repository)
    entry = _entry(ref, container, fields, text, f"{title} #{ref.number}", attributes, metadata)
    return entry._replace(comments=int(fields.get("comments") or 0))


def comment(repository: str, fields: Mapping[str, Any]) -> ApiEntry:
    """Convert a comment on an issue or pull request."""
    url = str(fields.get("html_url"))
    number = _number(url, str(fields.get("issue_url")))
    ref = EntryRef(repository, EntryKind.COMMENT, number, str(_checked_number(fields["id"])))
    container = f"{repository}/{_PULLS if '/pull/' in url else _ISSUES}"
    text = _text({}, fields, "", repository)
    title = f"Comment by {_author(fields)} on {repository}#{number}"
    return _entry(ref, container, fields, text, title, {}, {"kind": "comment", "number": number})


def review(repository: str, fields: Mapping[str, Any]) -> ApiEntry:
    """Convert a comment on a line of a pull request."""
    number = _number(str(fields.get("pull_request_url")), str(fields.get("html_url")))
    ref = EntryRef(repository, EntryKind.REVIEW, number, str(_checked_number(fields["id"])))
    path = _line(fields.get("path"))
    text = _text({"path": path}, fields, "", repository, hunk=str(fields.get("diff_hunk") or ""))
    title = f"Review by {_author(fields)} of {path} in {repository}#{number}"
    return _entry(ref, f"{repository}/{_PULLS}", fields, text, title, {}, {"kind": "review", "number": number})


def release(repository: str, fields: Mapping[str, Any]) -> ApiEntry:
    """Convert a release; its files are listed by name."""
    tag = _line(fields.get("tag_name"))
    ref = EntryRef(
        repository, EntryKind.RELEASE, name=f"draft-{_checked_number(fields['id'])}" if fields.get("draft") else tag
    )
    title = _line(fields.get("name") or tag)
    files = "".join(f"- {_line(asset.get('name'))}\n" for asset in fields.get("assets") or ())
    text = _text({"version": _line(tag)}, fields, title, repository, files=files)
    attributes = {"prerelease": True} if fields.get("prerelease") else {}
    if fields.get("draft"):
        fields = {**fields, "node_id": None}  # A published release is a new item, not a moved draft.
    return _entry(
        ref,
        f"{repository}/releases",
        fields,
        text,
        title,
        attributes,
        {"kind": "release", "draft": bool(fields.get("draft"))},
    )


def parse_time(text: str) -> datetime:
    """Parse a time of the API. Raises ValueError if it has no time zone or is implausibly early."""
    time = time_of(text, _zoned)
    if time is None or time.year < _EARLIEST:
        raise ValueError("not a time")
    return time


def _zoned(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError
    return moment


PARSERS: Mapping[EntryKind, Callable[[str, Mapping[str, Any]], ApiEntry]] = {
    EntryKind.CONVERSATION: conversation,
    EntryKind.COMMENT: comment,
    EntryKind.REVIEW: review,
    EntryKind.RELEASE: release,
}


def _entry(
    ref: EntryRef,
    container: str,
    fields: Mapping[str, Any],
    text: str,
    title: str,
    attributes: Mapping[str, Any],
    metadata: Mapping[str, Any],
) -> ApiEntry:
    data = text.encode("utf-8", "replace")
    version = hashlib.sha256(data).hexdigest()[:16]
    updated = str(fields.get("updated_at") or fields.get("published_at") or fields.get("created_at"))
    node = _line(fields.get("node_id"))
    item = Item(
        ref.locator,
        container,
        version,
        f"{node}.{version}" if node else None,
        len(data),
        parse_time(updated),
        attributes,
    )
    return ApiEntry(
        item, data, title, updated, {**metadata, "repository": ref.repository, "url": _line(fields.get("html_url"))}
    )


def _text(
    properties: Mapping[str, str],
    fields: Mapping[str, Any],
    title: str,
    repository: str,
    *,
    hunk: str = "",
    files: str = "",
) -> str:
    """Return front matter, a heading, and the body with references to issues as links."""
    head = {
        "author": _author(fields),
        "created": str(fields.get("published_at") or fields.get("created_at")),
        **properties,
    }
    lines = ["---", *(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()), "---"]
    if title:
        lines += [f"# {title}", ""]
    if hunk:
        shown = [line[:_HUNK_WIDTH] for line in _clean(hunk).split("\n")[-_HUNK_LINES:]]
        fence = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`{3,}", hunk))])
        lines += [f"{fence}diff", *shown, fence, ""]
    web = _web(_line(fields.get("html_url")), repository)
    lines.append(_linked(_clean(str(fields.get("body") or "")), repository, web).strip("\n"))
    if files:
        lines += ["", files.rstrip("\n")]
    return "\n".join(lines).rstrip("\n") + "\n"


def _linked(text: str, repository: str, web: str) -> str:
    """Turn references to issues (`#12`, `GH-12`, `owner/repo#12`) into links, except in code."""

    def link(match: re.Match[str]) -> str:
        return f"[{match[0]}]({web}/{match[1] or repository}/issues/{match[2]})"

    lines, fence = [], ""
    for line in text.split("\n"):
        opened = _FENCE.match(line)
        if fence:
            closes = opened is not None and opened[1].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if closes else fence
        elif opened is not None:
            fence = opened[1]
        else:
            # Every second piece is inside backticks.
            pieces = line.split("`")
            line = "`".join(p if n % 2 else _REFERENCE.sub(link, p) for n, p in enumerate(pieces))  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines)


def _web(url: str, repository: str) -> str:
    """Return the base URL of the host's web pages."""
    return url.partition(f"/{repository}/")[0] if f"/{repository}/" in url else url.split("/", 3)[0]


def _checked_number(value: Any) -> int:
    """Return a number assigned by the host. Raises ValueError if it is out of range."""
    number = int(value)
    if not 0 < number < _TOO_MANY:
        raise ValueError("not a number")
    return number


def _number(*addresses: str) -> int:
    match = next((match for address in addresses if (match := _NUMBER.search(address))), None)
    return int(match[1]) if match else 0


def _author(fields: Mapping[str, Any]) -> str:
    """Return the author's login; `ghost` for deleted users, as on GitHub."""
    return _line((fields.get("user") or fields.get("author") or {}).get("login")) or "ghost"


def _name(label: Any) -> str:
    return _line(label.get("name") if isinstance(label, Mapping) else label)


def _clean(text: str) -> str:
    """Remove control sequences of terminals."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def _line(text: Any) -> str:
    """Return the text on one line, without control sequences and writing direction marks."""
    return _DIRECTION.sub("", " ".join(_CONTROL.sub("", str(text or "")).split()))[:_TITLE_LENGTH]
