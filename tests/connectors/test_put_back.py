"""A home of which a part is put back from an earlier time: two syncs later its library is that of a fresh home.

All state that decides about later work is in the ledger, written in the transaction of its cause. So a ledger from the middle
of any sync continues there, and all other files of a home only save work: older, newer or missing ones change no outcome.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest

from catchment.content import pushed_files
from catchment.contracts import Connected, Connector, Guarded, Known
from catchment.ledger import Ledger
from catchment.model import Change, Checkpoint, Priority, RawContent
from catchment.settings import FullPath, Home, Policy, RetryPolicy, SourceSettings
from catchment.sync.source_sync import SourceSync, open_sync
from connectors import connector_class
from connectors.github.git import code_listing
from connectors.imap import account_listing
from connectors.listing import Entry, Listing
from connectors.pushed import Pushed, PushedSettings
from connectors.web import web_listing
from tests.connectors.github.git_host import hosting
from tests.connectors.github.proxy import Proxy
from tests.connectors.github.repository import Repository
from tests.connectors.github.server import GitHubServer
from tests.connectors.imap.dovecot import USER, Dovecot, message
from tests.connectors.web.conftest import Clock, entry, page, put_list, rss
from tests.connectors.web.server import SmallWeb
from tests.engine.whole import InProcess

NAME = "source"
LEDGER = "ledger.db"
_LIBRARY = """
    SELECT items.locator, documents.title, contents.text FROM documents JOIN items ON items.id = documents.item_id
    JOIN contents ON contents.id = documents.content_id WHERE documents.removed_at IS NULL
"""
_OPEN = "SELECT locator, state FROM items WHERE state = 'missing'"


@dataclass(frozen=True)
class Source:
    """A source that changes. `later`: runs between the change and the next sync."""

    connector: Callable[[], Connector]
    change: Callable[[], object]
    later: Callable[[], object] = lambda: None


# Sources


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def _made(kind: str, **settings: Any) -> Connector:
    found = connector_class(kind)
    return found(found.settings(**settings))


def _fill(root: Path) -> None:
    for number in range(4):
        (root / f"f{number}" / "deep").mkdir(parents=True)
        for name in (f"f{number}/one.md", f"f{number}/deep/two.md"):
            (root / name).write_text(f"# {name}\n")


def _change(root: Path) -> None:
    (root / "f0" / "new.md").write_text("# new\n")
    (root / "f1" / "one.md").write_text("# edited\n")
    (root / "f2" / "one.md").unlink()
    (root / "f3").rename(root / "f4")


@pytest.fixture
def folder(root: Path) -> Source:
    _fill(root)
    return Source(partial(_made, "local_files", root=root), partial(_change, root))


@pytest.fixture
def vault(root: Path) -> Source:
    _fill(root)
    (root / ".obsidian").mkdir()
    return Source(partial(_made, "obsidian", root=root), partial(_change, root))


@pytest.fixture
def pushed(tmp_path: Path) -> Source:
    """The folder of its documents is no part of the home that is put back: it is the source."""
    root = Home(tmp_path / "pushing").pushed / "papers"

    def push(name: str, text: str) -> None:
        pushed_files.put(root, name, RawContent(text.encode(), f"{name}.md"))

    def change() -> None:
        push("new", "# new\n")
        push("n1", "# edited\n")
        pushed_files.remove(root, "n2")

    root.mkdir(parents=True)
    for number in range(8):
        push(f"n{number}", f"# n{number}\n")
    return Source(partial(_pushed_in, root), change)


def _pushed_in(root: Path) -> Connector:
    settings = PushedSettings(folder=root.name)
    return Pushed(settings.model_copy(update={"root": root}))


@pytest.fixture
def packaged(root: Path) -> Source:
    """A source of a connector as a package brings it."""
    _fill(root)
    return Source(lambda: ListedFiles(TextsSettings(root=root)), partial(_change, root))


class TextsSettings(SourceSettings):
    """Settings of a source of listed files."""

    identity: ClassVar[tuple[str, ...]] = ("root",)
    root: FullPath


class ListedFiles(Listing):
    """Lists files with an identity, so that they can move."""

    kind = "texts"
    settings = TextsSettings

    def entries(self) -> Iterator[Entry]:
        for file in sorted(self.configured.root.rglob("*.md")):
            name, content = str(file.relative_to(self.configured.root)), file.read_bytes()
            yield Entry(name, content, identity=f"{file.stat().st_ino} {content!r}")


def _repository(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Repository, Callable[[], object]]:
    monkeypatch.setattr(code_listing, "_CHANGES_PER_CHECKPOINT", 1)
    work = Repository.made(root / "work")
    _fill(work.path)
    work.commit()

    def change() -> None:
        _change(work.path)
        work.commit()

    return work, change


@pytest.fixture
def clone(root: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    work, change = _repository(root, monkeypatch)
    return Source(partial(_made, "github", clone=work.path), change)


@pytest.fixture
def remote(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Source]:
    work, change = _repository(root, monkeypatch)
    with hosting(root / "host") as host:
        host.publish("ada/project", work)
        given = {"repositories": ("ada/project",), "address": host.address, "include": ("code",)}
        yield Source(partial(_made, "github", **given), change)


@pytest.fixture
def discussions(hub: GitHubServer, hub_proxy: Proxy) -> Source:
    repo = hub.repo("ada/weir")
    for number in range(3):
        repo.comment(repo.open(f"Issue {number}", f"The gauge shows {number}"), f"Seen {number} times")
    repo.review(repo.open("A pull request", pull=True), "Why not shorter?")
    repo.release("v1.0")

    def change() -> None:
        repo.delete_comment(min(repo.comments))
        repo.edit(1, body="edited")
        repo.comment(repo.open("A new one"), "and its comment")
        repo.release("v1.1")

    given = {"include": ("issues", "pulls", "releases"), "address": hub_proxy.address, "token": "env:HUB_TOKEN"}
    return Source(partial(_made, "github", repositories=("ada/weir",), **given), change)


@pytest.fixture
def mail(server: Dovecot, monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.setattr(account_listing, "_PART", 2)
    with server.person() as person:
        person.create_folder("Lists")
        for number in range(8):
            person.append("INBOX" if number < 5 else "Lists", message(number))

    def change() -> None:
        with server.person() as person:
            person.append("INBOX", message(9))
            person.select_folder("INBOX")
            first, second, third, *_ = person.search()
            person.add_flags([first], [b"\\Flagged"])
            person.delete_messages([second])
            person.expunge([second])
            person.move([third], "Lists")

    given = {
        "host": "127.0.0.1",
        "port": server.port,
        "user": USER,
        "security": "none",
        "password": "env:MAIL_PASSWORD",
    }
    return Source(partial(_made, "imap", **given), change)


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Source]:
    """A site, a list of pages and feeds, and a feed."""
    clock = Clock()
    monkeypatch.setattr("connectors.web.connector.present", clock)
    monkeypatch.setattr(web_listing, "_CHECKPOINT_LOOKS", 1)
    with SmallWeb(3) as small_web:
        site, lists, blog = small_web.hosts
        front = site.put("/", page("front", *(f"/{number}" for number in range(4))))
        for number in range(4):
            site.put(f"/{number}", page(f"page {number}", f"/{number}/a", "/1/a", "/"))
            site.put(f"/{number}/a", page(f"below page {number}", "/3"))
        pages = [lists.put(f"/{number}", page(f"listed {number}")) for number in range(4)]
        listed_feed = blog.put("/listed", rss(entry("x", full="listed feed, entry x")))
        feed = blog.put(
            "/feed", rss(entry(1, blog.put("/1", page("blog one")), summary="one"), entry(2, full="blog two"))
        )
        urls = put_list(lists, *pages, listed_feed)

        def change() -> None:
            site.change("/2", page("page 2, edited", "/2/a", "/2/new", "/"))
            site.put("/2/new", page("new page"))
            put_list(lists, *pages[1:], lists.put("/new", page("newly listed")), listed_feed)
            lists.change("/3", page("listed 3, edited"))
            blog.change(
                "/feed", rss(entry(1, blog.address("/1"), summary="one"), entry(2, full="edited"), entry(3, full="new"))
            )

        given = {"addresses": (front, urls, feed), "depth": 2, "every_seconds": 0.01}
        hosts = tuple(host.name for host in small_web.hosts)
        yield Source(partial(_made, "web", hosts=hosts, **given), change, lambda: clock.wait(days=8))


# A home


class PutBack:
    """A home that syncs a source, and copies of it as it was after each checkpoint and batch."""

    def __init__(self, folder: Path, source: Source) -> None:
        self.home = Home(folder / "home").make()
        self.copies: list[Path] = []
        self._folder = folder
        self._source = source
        self._numbers = count()

    def sync(self, *, copying: bool = False) -> None:
        """Sync to the end, and retry the failed jobs."""
        connector = self._source.connector()
        listed = connector.changes

        def copied(known: Known, *, deep: bool = False) -> Iterator[Change]:
            for change in listed(known, deep=deep):
                yield change
                if copying and isinstance(change, Checkpoint):
                    self._copy()

        policy = Policy(retry=RetryPolicy(backoff="immediate", attempts=3), limits=connector.policy.limits)
        with closing(Ledger.open(self.home.database_url)) as ledger:
            source = ledger.sources.put(NAME, connector.kind, Priority.NORMAL)
            if isinstance(connector, Guarded) and not ledger.consents.valid(source.id) >= connector.scopes().keys():
                ledger.consents.give(source.id, set(connector.scopes()), "operator", None)
            with open_sync(
                self.home, connector, NAME, policy, Priority.NORMAL, ledger=ledger, pool=InProcess(1)
            ) as sync:
                connector.changes = copied  # type: ignore[method-assign]
                sync.discover()
                self._work(sync, copying=copying)
                sync.finish("completed")
        if isinstance(connector, Connected):
            connector.close()

    def _work(self, sync: SourceSync, *, copying: bool) -> None:
        while (token := sync.claim(3)) is not None:
            sync.process(token)
            if copying:
                self._copy()
        for job in [*sync.troubles, *sync.jobs_to_process_alone(100)]:
            while (trouble := sync.process_alone(job)) and trouble.retry_at is not None:
                pass

    def library(self) -> dict[str, tuple[str, str]]:
        """Return title and text of each document by its locator, once everything is in order."""
        with closing(Ledger.open(self.home.database_url)) as ledger:
            assert ledger.check(deep=True) == []
            assert ledger.intake.holds() == []
            with ledger._store.read() as reading:
                rows = reading.connection.exec_driver_sql(_LIBRARY).all()
                assert reading.connection.exec_driver_sql(_OPEN).all() == []
        library = {locator: (title, text) for locator, title, text in rows}
        assert len(library) == len(rows)
        return library

    def put_back(self, files: Path | None, ledger: Path) -> None:
        """Replace the home by the files of one copy, or by none, with the ledger of another one."""
        for path in self.home.path.iterdir():
            if path.name != "home-id":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        if files is not None:
            shutil.copytree(files, self.home.path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("home-id", LEDGER))
        shutil.copyfile(ledger / LEDGER, self.home.path / LEDGER)

    def copy(self) -> Path:
        """Return a copy of the present home."""
        target = self._folder / f"copy {next(self._numbers)}"
        shutil.copytree(self.home.path, target, ignore=shutil.ignore_patterns(f"{LEDGER}*", "run"))
        with (
            closing(sqlite3.connect(self.home.path / LEDGER)) as source,
            closing(sqlite3.connect(target / LEDGER)) as copy,
        ):
            source.backup(copy)
        return target

    def _copy(self) -> None:
        self.copies.append(self.copy())


def _check(source: Source, folder: Path, most: int | None) -> None:
    """Put back all copies, or up to `most` of each sync, in three ways; two syncs later compare the libraries."""
    tested = PutBack(folder, source)
    tested.sync(copying=True)
    first = len(tested.copies)
    source.change()
    source.later()
    tested.sync(copying=True)
    last = tested.copy()
    fresh = PutBack(folder / "fresh", source)
    fresh.sync()
    fresh.sync()
    expected = fresh.library()
    assert len(expected) > 4
    assert tested.library() == expected
    for copies in (tested.copies[:first], tested.copies[first:]):
        step = 1 if most is None else len(copies) // most + 1
        for copy in copies[step // 2 :: step]:
            for what, files, ledger in (("ledger", last, copy), ("files", copy, last), ("ledger alone", None, copy)):
                tested.put_back(files, ledger)
                for _ in range(2):
                    source.later()
                    tested.sync()
                assert tested.library() == expected, f"{what} of {copy.name}"


_QUICK = ("folder", "pushed", "packaged", "web")
_KINDS = (*_QUICK, "clone", "vault", "discussions", "remote", "mail")
_FULL = {"web": pytest.mark.long, "remote": pytest.mark.long}  # half a minute each
_CASES = [
    *(pytest.param(kind, 1, id=kind) for kind in _QUICK),
    *(pytest.param(kind, 3, marks=_FULL.get(kind, pytest.mark.full), id=f"{kind}-often") for kind in _KINDS),
    *(pytest.param(kind, None, marks=pytest.mark.soak, id=f"{kind}-anywhere") for kind in _KINDS),
]


@pytest.mark.parametrize(("kind", "most"), _CASES)
def test_part_of_a_home_put_back_changes_no_outcome(
    kind: str, most: int | None, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    _check(request.getfixturevalue(kind), tmp_path, most)
