"""Targets for responses of other machines and programs: HTTP, the GitHub API, IMAP, tokens, webhook deliveries, git."""

from __future__ import annotations

import atexit
import math
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from imapclient.response_parser import parse_fetch_response

from catchment.content.normalize import normalize
from catchment.errors import CatchmentError, ItemError, MeaningOff, ParseError, SkipReason, SourceError
from catchment.pacing import Pace, read_headers
from catchment.pacing.bucket import TOKEN
from catchment.search.meaning.choice import load
from catchment.search.meaning.models import Refusal
from connectors.github.api.api_client import ApiClient
from connectors.github.api.entries import ApiEntry, EntryKind, parse_locator
from connectors.github.api.feed import Feed, FeedMark
from connectors.github.api.host import Host
from connectors.github.git.file_selection import Attributes, FileRules
from connectors.github.git.git import ENVIRONMENT, create_empty
from connectors.github.git.objects import Damaged, Objects, TreeEntry
from connectors.github.names import REPOSITORY, is_branch
from connectors.github.settings import GitHubSettings
from connectors.imap.auth import expiry_of
from connectors.imap.bodystructure import files
from connectors.imap.errors import translate_errors
from connectors.imap.mail_folders import MailboxMark as FolderMark
from connectors.imap.responses import Message, parse_folders, parse_messages, parse_statuses, parse_vanished
from connectors.web.address import normalized
from connectors.web.feeds import read_feed
from connectors.web.robots import verdict
from connectors.web.seeds import SeedKind, addresses_in, feeds_of, kind_of_seed
from deployments.watch.webhook import Gate, repository_of
from tests.fuzz.promises import storable
from tests.fuzz.target import Target, shaped, woven

_SECONDS = 60.0
_TIME = "2026-01-31T12:00:00Z"
_USER = {"login": "ada", "id": 1}
_ISSUE = {
    "id": 1, "node_id": "I_1", "number": 12, "title": "T", "body": "b #1 `#2`\r\n```\n#3", "state": "open",
    "html_url": "https://github.com/o/r/issues/12", "url": "https://api.github.com/repos/o/r/issues/12", "user": _USER,
    "labels": [{"name": "bug"}], "milestone": {"title": "m"}, "comments": 2, "created_at": _TIME, "updated_at": _TIME,
    "pull_request": {"merged_at": None}, "draft": False,
}  # fmt: skip
_COMMENT = {
    "id": 99, "node_id": "C_1", "body": "x", "user": _USER, "created_at": _TIME, "updated_at": _TIME,
    "html_url": "https://github.com/o/r/issues/12#issuecomment-99", "issue_url": "https://api.github.com/repos/o/r/issues/12",
}  # fmt: skip
_REVIEW = {
    **_COMMENT, "path": "a.py", "diff_hunk": "@@ -1 +1 @@\n```\n-a\n+b",
    "html_url": "https://github.com/o/r/pull/12#discussion_r99", "pull_request_url": "https://api.github.com/repos/o/r/pulls/12",
}  # fmt: skip
_RELEASE = {
    "id": 5, "node_id": "R_1", "tag_name": "v1", "name": "One", "body": "b", "draft": False, "prerelease": True,
    "author": _USER, "html_url": "https://github.com/o/r/releases/tag/v1", "created_at": _TIME, "published_at": _TIME,
    "assets": [{"name": "a.zip"}],
}  # fmt: skip
_REPOSITORY = {
    "id": 7, "full_name": "o/r", "default_branch": "main", "pushed_at": _TIME, "has_wiki": True, "login": "o",
    "type": "Organization",
}  # fmt: skip
_EMBEDDED = (
    {"embeddings": [[0.5, -1.0, 2.0]], "models": [{"name": "m:latest", "digest": "x"}]},
    {"data": [{"index": 0, "embedding": [0.5, -1.0, 2.0]}]},
)
_EMBEDDINGS = """
{"embeddings": [[
{"data": [{"index": 0, "embedding": [
]]}
]}]}
,␠
1.0
-Infinity
NaN
1e999
1e-400
-0.0
true
"""
_DELIVERY = {"repository": {"full_name": "O/R"}, "action": "opened"}
_ANSWER = """
HTTP/1.1 200 OK\r␤
HTTP/1.1 404 x\r␤
HTTP/1.1 301 x\r␤
HTTP/1.1 403 x\r␤
HTTP/1.1 204 x\r␤
HTTP/1.1 304 x\r␤
Content-Type: application/json\r␤
Content-Length: 2\r␤
Content-Length: 99\r␤
Transfer-Encoding: chunked\r␤
Content-Encoding: gzip\r␤
Location: /x\r␤
Location: http://[\r␤
Location: http://other/\r␤
Link: <http://127.0.0.1/x?page=2>; rel="next", <http://[/?page=3>; rel="last"\r␤
Link: <?page=٣>; rel=last\r␤
ETag: "x"\r␤
Retry-After: 1e300\r␤
Retry-After: Sat, 31 Jan 9999 12:00:00 GMT\r␤
Date: Sat, 31 Jan 2026 12:00:00 +99999999999999999999\r␤
X-RateLimit-Remaining: 0\r␤
X-RateLimit-Reset: 9e999\r␤
X-RateLimit-Limit: -1\r␤
\r␤
{}
[]
[{"a":
5\r␤
"""
_FETCHED = """
1 (UID 1
RFC822.SIZE 10
RFC822.SIZE x
RFC822.SIZE 99999999999999999999
INTERNALDATE "31-Jan-2026 12:00:00 +0100"
INTERNALDATE "01-Jan-0001 00:00:00 +1400"
INTERNALDATE "x"
FLAGS (\\Seen \\Recent $x)
FLAGS NIL
BODY[HEADER.FIELDS (MESSAGE-ID)] "Message-ID: <a@b>"
BODYSTRUCTURE ("TEXT" "PLAIN" ("CHARSET" "utf-8") NIL NIL "7BIT" 2 1)
BODYSTRUCTURE (("TEXT" "PLAIN" NIL NIL NIL "BASE64" 2 1)("IMAGE" "PNG" ("NAME" "x") NIL NIL "BASE64" 9) "MIXED")
BODYSTRUCTURE ("MESSAGE" "RFC822" NIL NIL NIL "7BIT" 2 () ("TEXT" "PLAIN" NIL NIL NIL "7BIT" 2 1) 3)
X-GM-MSGID 1278455344230334865
X-GM-LABELS (Inbox "&AOQ-" 123)
(
)
"
{3}
NIL
␠
)
"""
_STATUS = """
"INBOX" (MESSAGES 1 UIDNEXT 2 UIDVALIDITY 3 HIGHESTMODSEQ 4 UNSEEN 0)
(
)
MESSAGES
99999999999999999999
NIL
␠
"a"
123
"""
_MARKS = """
1;2;3;4;5
;
!
-1
٣
["2026-01-31T00:00:00Z",{"o/r#1":"2026-01-31T00:00:00Z"},""]
["0001-01-01T00:00:00+14:00",
{"o/r#1":
},""]
"
[
]
null
"""
_ATTRIBUTES = """
*.py linguist-generated␤
docs/** linguist-vendored=false␤
x[z-a] linguist-generated␤
*a*a*a*a*a*a*a*a*a*b linguist-generated␤
[attr]x y␤
!a b␤
"a b" -linguist-generated␤
\\
*␠
linguist-generated
␤
=
"""


_SEEDS = """
<rss version="2.0"><channel>
<feed xmlns="http://www.w3.org/2005/Atom" xml:base="b/">
<item>
</item>
<entry>
</entry>
<title>
</title>
<link>
<link href="/a" rel="alternate"/>
<guid>
<pubDate>
<author>ada@river.example (Ada)
<content type="xhtml"><div>
<description>
<enclosure url="/a.mp3" type="audio/mpeg"/>
<urlset><url><loc>
<lastmod>2024-02-30T25:00:00Z
</loc></url></urlset>
<sitemapindex><sitemap>
<opml><body><outline text="a" xmlUrl="
<html><head><base href="http://[
<a href="
https://river.example/
javascript:
{"version":"https://jsonfeed.org/version/1","items":[
{"id":1,"url":"/a","authors":[null,{"name":7}],"date_published":"0001-01-01T00:00:00+14:00"
"attachments":{},"content_text":"a"
]}
<![CDATA[
]]>
<!--
-->
<?xml version="1.0" encoding="utf-16"?>
<!DOCTYPE a [<!ENTITY b "c">
&b;
&#0;
&lt;
\x1f\x8b
"
>
# c␤
"""
_ROBOTS = """
User-agent: *␤
User-agent: catchment␤
Disallow: /
Allow: /
Crawl-delay: 1e309
*
$
%
é
#
␤
"""


def targets() -> Iterator[Target]:
    """Return the targets for all responses of other machines and programs."""
    yield Target("http-answer", _http_answer, woven(_ANSWER, most=12))
    yield Target("http-headers", _http_headers, woven(_ANSWER, most=8))
    for kind, shape in (
        (EntryKind.CONVERSATION, _ISSUE),
        (EntryKind.COMMENT, _COMMENT),
        (EntryKind.REVIEW, _REVIEW),
        (EntryKind.RELEASE, _RELEASE),
    ):
        yield Target(f"api-{kind or 'conversation'}", _entry(kind), shaped(shape))
    yield Target("api-listing", _listing, shaped([_ISSUE], [_ISSUE, {**_ISSUE, "number": 13}], {"message": "no"}))
    yield Target("api-repository", _repository, shaped(_REPOSITORY, [_REPOSITORY]))
    yield Target("model-answer", _model_answer, shaped(*_EMBEDDED))
    yield Target("model-http", _model_http, woven(_ANSWER + _EMBEDDINGS.strip(), most=12))
    yield Target("web-seed", _web_seed, woven(_SEEDS))
    yield Target("web-robots", _web_robots, woven(_ROBOTS))
    yield Target("webhook", _webhook, shaped(_DELIVERY))
    yield Target(
        "access-token", _access_token, woven("e30\n.\neyJleHAiOjF9\neyJleHAiOjFlMzAwfQ\neyJleHAiOiJ4In0\n=\n-_")
    )
    yield Target("imap-messages", _imap_messages, woven(_FETCHED))
    yield Target("imap-statuses", _imap_statuses, woven(_STATUS))
    yield Target("imap-vanished", _imap_vanished, woven("VANISHED (EARLIER) 1:3,5\n1:\n,\n:\n٣\n9" + "\n"))
    yield Target("imap-structure", _imap_structure, shaped(_STRUCTURE))
    yield Target("marks", _marks, woven(_MARKS))
    yield Target("git-attributes", _git_attributes, woven(_ATTRIBUTES))
    yield Target(
        "git-tree", _git_tree, woven("..\n.git\n.GIT\na\n/\n\x1b\n␤100644\n␤40000\n␤160000\n␤120000\n␤7", most=5)
    )


def _web_seed(data: bytes) -> None:
    """Any seed is recognized, and read or refused; its addresses are in normal form, and its texts can be stored."""
    kind_of_seed(data, "", "")
    links = feeds_of(data, _SEED)
    for kind in set(SeedKind) - {SeedKind.FEED}:
        with suppress(ParseError):
            links += addresses_in(data, kind, _SEED).addresses
    for link in links:
        assert normalized(link.address) == link.address
    for charset in (None, "utf-16", "cp500", "nonsense"):
        with suppress(ParseError):
            for entry in read_feed(data, _SEED, charset).entries:
                assert entry.id
                assert entry.address is None or normalized(entry.address) == entry.address
                for text in (entry.id, entry.title, entry.author, entry.html):
                    storable(text)


def _web_robots(data: bytes) -> None:
    robots = verdict(data, _SEED)
    assert robots.allows in (True, False)
    assert robots.delay is None or 0 <= robots.delay <= _SECONDS


_SEED = "https://river.example/feeds/all"
_STRUCTURE = [
    ["text", "plain", ["charset", "utf-8"], None, None, "7bit", 10, 1, None, ["attachment", ["filename", "x"]]],
    ["image", "png", ["name", "x"], None, None, "base64", 10],
    [
        "message",
        "rfc822",
        None,
        None,
        None,
        "7bit",
        10,
        [],
        ["text", "html", None, None, None, "7bit", 10, 1],
        1,
        None,
        None,
    ],
    "mixed",
]


# HTTP and GitHub


def _http_answer(data: bytes) -> None:
    """Any response of a host is accepted or becomes an error that the source handles."""
    with _answering(data) as client:
        try:
            answer = client.get("/x")
            client.parse(EntryKind.CONVERSATION, "o/r", client.entries(answer))
        except (SourceError, ItemError) as error:
            assert isinstance(error, CatchmentError)


def _http_headers(data: bytes) -> None:
    """Reported limits are usable: a time within the clock's range, a number that fits the database."""
    lines = (line.partition(b":") for line in data.split(b"\n"))
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, _, value in lines}
    found = read_headers(headers)
    for number in (found.retry_after, found.resets_in, found.limit, found.remaining):
        assert number is None or 0 <= number * TOKEN < 2**62


def _entry(kind: EntryKind) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        client = ApiClient(GitHubSettings(repositories=("o/r",)), Pace, _SECONDS)
        try:
            (entry,) = client.parse(kind, "o/r", [orjson.loads(data)])
        except SourceError:
            return
        _holds(entry)

    return check


def _holds(entry: ApiEntry) -> None:
    item = entry.item
    storable(
        (item.locator, item.container, item.version, item.identity, entry.title, item.modified, dict(item.attributes))
    )
    storable(dict(entry.metadata))
    assert parse_locator(item.locator).locator == item.locator
    assert item.modified is not None
    orjson.dumps([dict(item.attributes), dict(entry.metadata)])
    normalize(entry.raw(item))


def _listing(data: bytes) -> None:
    with _answering(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + data) as client:
        feed = Feed(client, "o/r", EntryKind.CONVERSATION, FeedMark())
        try:
            assert feed.check_newest()
            for page in feed.pages():
                for entry in page.entries:
                    _holds(entry)
                assert FeedMark.read(str(page.mark)) == page.mark
        except SourceError:
            return


def _repository(data: bytes) -> None:
    """A repository name from a host becomes a folder and a URL, so it must be valid."""
    with _answering(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + data) as client:
        for name in ("o/r", "o/*"):
            try:
                found = Host(client, {}).repositories((name,))
            except SourceError:
                continue
            for repository in found:
                assert REPOSITORY.fullmatch(repository.name)
                assert repository.default_branch is None or is_branch(repository.default_branch)
                storable(repository)


def _webhook(data: bytes) -> None:
    for event in ("push", "ping"):
        try:
            name = repository_of(event, data)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue  # the receiver responds with 400
        assert name is None or isinstance(name, str)
    gate = Gate("secret")
    headers = {"x-hub-signature-256": data.decode("utf-8", "surrogateescape"), "x-github-delivery": "1"}
    assert gate.status(headers, data) == 401


def _access_token(data: bytes) -> None:
    expiry_of(data.decode("utf-8", "replace"))


# Models


def _model_answer(data: bytes) -> None:
    _model_http(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + data)


def _model_http(data: bytes) -> None:
    """For any response of a model's server, a text gets a usable vector, a reason or another attempt, or meaning is off."""
    _host().answer = data
    for kind in ("ollama", "openai"):
        with suppress(MeaningOff):
            model = load(f"{kind}:m@{_host().address}")
            [vector] = model.passages(["weir"])
            assert vector is None or isinstance(vector, Refusal) or len(vector) == model.dimensions
            assert math.isclose(math.hypot(*model.query("weir")), 1)


# IMAP


def _imap_messages(data: bytes) -> None:
    """Messages parsed from an IMAP response can be stored, or the response is refused."""
    found: list[Message] = []
    with suppress(ItemError), translate_errors("imap.example.org"):
        found = parse_messages(parse_fetch_response([data]), [1])
    for message in found:
        storable(tuple(message[:5]))
        storable([tuple(file) for file in files(message.structure)])


def _imap_statuses(data: bytes) -> None:
    with suppress(ItemError), translate_errors("imap.example.org"):
        storable({name: tuple(status) for name, status in parse_statuses([data]).items()})
        storable([tuple(folder) for folder in parse_folders([((b"\\All",), b"/", data)])])


def _marks(data: bytes) -> None:
    """A cursor written by another program is read, or the source is listed from scratch."""
    text = data.decode("utf-8", "replace")
    FolderMark.read(text)
    mark = FeedMark.read(text)
    assert FeedMark.read(str(mark)) == mark
    assert FeedMark.read(str(mark.after([]))) == mark.after([])


def _imap_vanished(data: bytes) -> None:
    with suppress(ItemError), translate_errors("imap.example.org"):
        parse_vanished([data])


def _imap_structure(data: bytes) -> None:
    found = list(files(_as_imap(orjson.loads(data))))
    assert len(found) <= 1_000
    storable([tuple(file) for file in found])


def _as_imap(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_as_imap, value))
    return value.encode() if isinstance(value, str) else value


# Git


class _Held:
    """An object store that returns the same content for every request."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, name: str, most: int) -> bytes | None:
        return self._data if name.endswith(":.gitattributes") and len(self._data) <= most else None


def _git_attributes(data: bytes) -> None:
    """Attributes of a repository select the files to read and never abort the listing."""
    attributes, rules = Attributes(_Held(data), "HEAD"), FileRules((), (), generated=False, max_bytes=1_000)
    for path in ("a.py", "docs/b.md", "x", "a" * 200, "ä b"):
        unwanted = rules.unwanted(TreeEntry(path, "100644", "0" * 40, 1), attributes)
        assert unwanted is None or unwanted.reason is SkipReason.EXCLUDED


def _git_tree(data: bytes) -> None:
    """An arbitrary git tree is listed or reported as damaged; listed files are within the repository."""
    home = _folder()
    name, _, mode = data.partition(b"\n")
    entry = (mode.strip() or b"100644") + b" " + name.replace(b"\x00", b"") + b"\x00" + bytes.fromhex(_blob(home))
    try:
        tree = _git(home, "hash-object", "-t", "tree", "--literally", "-w", "--stdin", given=entry)
        commit = _git(home, "-c", "user.name=x", "-c", "user.email=x@y", "commit-tree", tree, "-m", "x")
    except subprocess.CalledProcessError:
        return
    objects, rules = Objects(home / "objects", home / "reader.git"), FileRules((), (), generated=True, max_bytes=1_000)
    try:
        found = list(objects.files(commit))
    except (Damaged, SourceError):
        return
    finally:
        objects.close()
    for one in found:
        storable(one.path)
        if rules.unwanted(one, Attributes(objects, commit)) is None:
            assert not {"", ".", "..", ".git"} & set(one.path.split("/"))


@cache
def _folder() -> Path:
    """A repository that lasts for the whole test run."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    create_empty(folder)
    return folder


@cache
def _blob(home: Path) -> str:
    return _git(home, "hash-object", "-w", "--stdin", given=b"words")


def _git(home: Path, *arguments: str, given: bytes = b"") -> str:
    command = ["git", "--git-dir", str(home), *arguments]
    environment = {**os.environ, **ENVIRONMENT}
    return (
        subprocess.run(command, input=given, capture_output=True, check=True, env=environment).stdout.strip().decode()
    )


# The host


class _Host:
    """A local host that sends the same bytes in response to every request."""

    def __init__(self) -> None:
        self.answer = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection, suppress(OSError):
                connection.settimeout(_SECONDS)
                asked = b""
                while b"\r\n\r\n" not in asked and (part := connection.recv(65_536)):
                    asked += part
                connection.sendall(self.answer)
                connection.shutdown(socket.SHUT_WR)


@cache
def _host() -> _Host:
    return _Host()


@contextmanager
def _answering(data: bytes) -> Iterator[ApiClient]:
    _host().answer = data
    client = ApiClient(GitHubSettings(repositories=("o/r",), address=_host().address), Pace, _SECONDS)
    try:
        yield client
    finally:
        client.close()
