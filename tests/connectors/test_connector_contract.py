"""The contract that every connector fulfils. A new kind of source adds one entry to `SOURCES`."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from catchment.content import pushed_files
from catchment.contracts import Connected, Connector, Keeping, Windowed
from catchment.errors import BadInput, ItemError, SourceError
from catchment.model import Checkpoint, RawContent, Root, Upsert
from catchment.runtime.home import Home
from connectors import connector_class, kinds
from tests.connectors.github.proxy import Proxy
from tests.connectors.github.repository import Repository
from tests.connectors.github.server import GitHubServer
from tests.connectors.imap.dovecot import USER, Dovecot, message
from tests.connectors.memory_ledger import MemoryLedger
from tests.connectors.web.conftest import entry, page, rss
from tests.connectors.web.server import SmallWeb


@dataclass(frozen=True)
class SampleSource:
    """A small source of one kind: its settings, and functions that create, change and remove it.

    `place` is the fixture passed to these functions: a folder or a server.
    """

    kind: str
    fill: Callable[[Any], None]
    settings: Callable[[Any], dict[str, Any]]
    change: Callable[[Any], None]
    """Adds one item, edits one if items can be edited, and deletes one."""
    lose: Callable[[Any], None]
    place: str = "root"
    edits: int = 1
    keeps_versions: bool = False
    """Whether a listed version can still be fetched after later changes."""


def _fill_folder(path: Path) -> None:
    (path / "a" / "deep").mkdir(parents=True)
    for name in ("one.md", "two.md", "a/three.md", "a/deep/four.md"):
        (path / name).write_text(f"# {name}\n")


def _fill_vault(path: Path) -> None:
    _fill_folder(path)
    (path / ".obsidian").mkdir()
    (path / ".obsidian" / "app.json").write_text("{}")


def _change_folder(path: Path) -> None:
    (path / "new.md").write_text("new")
    (path / "one.md").write_text("edited")
    (path / "a" / "three.md").unlink()


def _lose_folder(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def _push(root: Path, key: str, text: str) -> None:
    pushed_files.put(root, key, RawContent(text.encode(), f"{key}.md", title=key.title()))


@pytest.fixture
def pushed(home: Home) -> Path:
    """The folder of the pushed source `clips`."""
    return home.pushed / "clips"


def _fill_pushed(path: Path) -> None:
    for key in ("one", "two", "three", "four"):
        _push(path, key, f"# {key}\n")


def _change_pushed(path: Path) -> None:
    _push(path, "new", "new")
    _push(path, "one", "edited")
    pushed_files.remove(path, "three")


def _fill_mail(server: Dovecot) -> None:
    with server.person() as person:
        person.create_folder("Archive/2026")
        for number, folder in enumerate(("INBOX", "INBOX", "INBOX", "Archive/2026")):
            person.append(folder, message(number))


def _mail_settings(server: Dovecot) -> dict[str, Any]:
    given = {"host": "127.0.0.1", "port": server.port, "user": USER, "security": "none"}
    return {**given, "password": "env:MAIL_PASSWORD"}


def _change_mail(server: Dovecot) -> None:
    with server.person() as person:
        person.append("INBOX", message(9))
        person.select_folder("INBOX")
        first, second, *_ = person.search()
        person.add_flags([first], [b"\\Seen"])
        person.delete_messages([second])
        person.expunge([second])


def _fill_clone(path: Path) -> None:
    _fill_folder(path)
    Repository.made(path).commit()


def _change_clone(path: Path) -> None:
    _change_folder(path)
    Repository(path).commit()


@pytest.fixture
def api(hub: GitHubServer, hub_proxy: Proxy) -> tuple[GitHubServer, Proxy]:
    """A GitHub API server, and the proxy in front of it."""
    return hub, hub_proxy


def _fill_api(place: tuple[GitHubServer, Proxy]) -> None:
    repo = place[0].repo("ada/weir")
    repo.comment(repo.open("An issue"))
    repo.open("A pull request", pull=True)
    repo.release("v1.0")


def _api_settings(place: tuple[GitHubServer, Proxy]) -> dict[str, Any]:
    given = {"repositories": ("ada/weir",), "include": ("issues", "pulls", "releases")}
    return {**given, "address": place[1].address, "token": "env:HUB_TOKEN"}


def _change_api(place: tuple[GitHubServer, Proxy]) -> None:
    repo = place[0].repos["ada/weir"]
    repo.delete_comment(min(repo.comments))
    repo.edit(1, body="edited")
    repo.open("A new one")


def _lose_api(place: tuple[GitHubServer, Proxy]) -> None:
    place[1].close()


@pytest.fixture
def web_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, SmallWeb]]:
    """A folder for lists and feeds, and a web of hosts that they name. The time stands still."""
    monkeypatch.setattr("connectors.web.connector.present", lambda: datetime(2026, 3, 2, tzinfo=UTC))
    with SmallWeb() as web:
        yield root, web


def _fill_web(place: tuple[Path, SmallWeb]) -> None:
    folder, web = place
    (folder / "feed.xml").write_text(rss(entry(1, full="one"), entry(2, full="two")))
    pages = [web.hosts[0].put(f"/{number}", page(f"text {number}")) for number in range(2)]
    (folder / "list.txt").write_text("\n".join(pages))


def _web_settings(place: tuple[Path, SmallWeb]) -> dict[str, Any]:
    folder, web = place
    addresses = tuple(str(folder / name) for name in ("feed.xml", "list.txt"))
    return {"addresses": addresses, "hosts": (web.hosts[0].name,), "every_seconds": 0.01}


def _change_web(place: tuple[Path, SmallWeb]) -> None:
    folder, web = place
    (folder / "feed.xml").write_text(rss(entry(1, full="one, edited"), entry(2, full="two"), entry(3, full="three")))
    (folder / "list.txt").write_text(web.hosts[0].address("/0"))


def _lose_web(place: tuple[Path, SmallWeb]) -> None:
    (place[0] / "feed.xml").unlink()


SOURCES = [
    SampleSource("github", _fill_api, _api_settings, _change_api, _lose_api, place="api", keeps_versions=True),
    SampleSource("github", _fill_clone, lambda path: {"clone": path}, _change_clone, _lose_folder, keeps_versions=True),
    SampleSource("imap", _fill_mail, _mail_settings, _change_mail, Dovecot.stop, place="server", edits=0),
    SampleSource("local_files", _fill_folder, lambda path: {"root": path}, _change_folder, _lose_folder),
    SampleSource("obsidian", _fill_vault, lambda path: {"root": path}, _change_folder, _lose_folder),
    SampleSource("pushed", _fill_pushed, lambda _: {"folder": "clips"}, _change_pushed, _lose_folder, place="pushed"),
    SampleSource("web", _fill_web, _web_settings, _change_web, _lose_web, place="web_files", keeps_versions=True),
]

WINDOWED = {"imap", "github"}


@dataclass
class Sample:
    source: SampleSource
    place: Any
    connector: Connector


_PARAMETERS = [pytest.param(source, marks=pytest.mark.full if source.place == "server" else ()) for source in SOURCES]
"""The sample that needs Dovecot runs in the full suite only."""


@pytest.fixture(params=_PARAMETERS, ids=lambda source: source.kind)
def sample(request: pytest.FixtureRequest) -> Iterator[Sample]:
    source: SampleSource = request.param
    place = request.getfixturevalue(source.place)
    source.fill(place)
    kind = connector_class(source.kind)
    connector = kind(kind.settings(**source.settings(place)))
    yield Sample(source, place, connector)
    if isinstance(connector, Connected):
        connector.close()


def test_every_kind_has_a_sample_source() -> None:
    assert {source.kind for source in SOURCES} == set(kinds())


def test_root_comes_first_and_checkpoint_last(sample: Sample, ledger: MemoryLedger) -> None:
    changes = list(sample.connector.changes(ledger.known()))
    assert isinstance(changes[0], Root)
    assert isinstance(changes[-1], Checkpoint)
    assert sum(isinstance(change, Root) for change in changes) == 1


def test_second_listing_reports_no_changes(sample: Sample, ledger: MemoryLedger) -> None:
    assert len(ledger.sync(sample.connector).item_changes) == 4
    assert ledger.sync(sample.connector).item_changes == []


def test_listing_after_changes_is_followed_by_an_empty_one(sample: Sample, ledger: MemoryLedger) -> None:
    ledger.sync(sample.connector)
    sample.source.change(sample.place)
    report = ledger.sync(sample.connector)
    assert (len(report.new), len(report.changed), len(report.deleted)) == (1, sample.source.edits, 1)
    assert ledger.sync(sample.connector).item_changes == []


def test_listing_without_marks_changes_no_items(sample: Sample, ledger: MemoryLedger) -> None:
    ledger.sync(sample.connector)
    ledger.marks.clear()
    report = ledger.sync(sample.connector)
    assert (report.new, report.changed, report.deleted, report.fetched) == (set(), set(), set(), set())


def test_deep_listing_of_unchanged_content_changes_no_items(sample: Sample, ledger: MemoryLedger) -> None:
    ledger.sync(sample.connector)
    report = ledger.sync(sample.connector, deep=True)
    assert (report.new, report.changed, report.deleted, report.fetched) == (set(), set(), set(), set())


def test_next_listing_completes_an_interrupted_one(sample: Sample, ledger: MemoryLedger) -> None:
    ledger.sync(sample.connector)
    sample.source.change(sample.place)
    length = len(list(sample.connector.changes(ledger.known())))
    for cut in range(length):
        ledger.sync(sample.connector, cut=cut)
    ledger.sync(sample.connector)
    fresh = MemoryLedger()
    fresh.sync(sample.connector)
    assert ledger.documents() == fresh.documents()
    assert ledger.marks == fresh.marks


def test_windows_and_listings_report_equal_items(sample: Sample, ledger: MemoryLedger) -> None:
    assert isinstance(sample.connector, Windowed) == (sample.source.kind in WINDOWED)
    if not isinstance(sample.connector, Windowed):
        return
    window = datetime(1970, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)
    changes = list(sample.connector.changes_between(ledger.known(), *window))
    assert isinstance(changes[0], Root)
    if sample.source.place == "root":
        assert changes[1:] == [Checkpoint()]  # Files of a repository have no dates.
        return
    listed = sample.connector.changes(ledger.known())
    assert [c for c in changes if isinstance(c, Upsert)] == [c for c in listed if isinstance(c, Upsert)]
    assert not any(
        isinstance(c, Upsert) for c in sample.connector.changes_between(ledger.known(), window[0], window[0])
    )
    assert len(ledger.sync(sample.connector, window=window).fetched) == 4
    assert ledger.marks == {}
    assert ledger.sync(sample.connector).new == set()
    assert ledger.sync(sample.connector, window=window).fetched == set()


def test_every_listed_item_can_be_fetched(sample: Sample, ledger: MemoryLedger) -> None:
    for change in ledger.sync(sample.connector, fetch=False).item_changes:
        assert isinstance(change, Upsert)
        raw = sample.connector.fetch(change.item)
        assert len(raw.data) == change.item.size
        assert raw.name
        assert raw.modified == change.item.modified


def test_fetching_a_deleted_item_raises_an_item_error(sample: Sample, ledger: MemoryLedger) -> None:
    ledger.sync(sample.connector, fetch=False)
    before = dict(ledger.present())
    sample.source.change(sample.place)
    refused = 0
    for row in before.values():
        try:
            sample.connector.fetch(row.item)
        except ItemError:
            refused += 1
    assert refused == (0 if sample.source.keeps_versions else 1 + sample.source.edits)


def test_connector_and_changes_can_be_pickled(sample: Sample, ledger: MemoryLedger) -> None:
    copy: Connector = pickle.loads(pickle.dumps(sample.connector))
    list(sample.connector.changes(ledger.known()))  # A listing right after a change may list a folder twice.
    changes = list(copy.changes(ledger.known()))
    if isinstance(copy, Connected):
        copy.close()
    assert pickle.loads(pickle.dumps(changes)) == changes
    assert changes == list(sample.connector.changes(ledger.known()))


def test_probe_returns_one_line(sample: Sample) -> None:
    line = sample.connector.probe()
    assert line
    assert "\n" not in line


def test_missing_source_raises_an_error_and_keeps_all_items(sample: Sample, ledger: MemoryLedger) -> None:
    ledger.sync(sample.connector)
    sample.source.lose(sample.place)
    with pytest.raises(SourceError, match=r"; "):
        sample.connector.probe()
    with pytest.raises(SourceError, match=r"; "):
        ledger.sync(sample.connector)
    assert len(ledger.documents()) == 4


def test_source_lost_while_fetching_raises_a_source_error(sample: Sample, ledger: MemoryLedger) -> None:
    ledger.sync(sample.connector, fetch=False)
    if isinstance(sample.connector, Connected):
        sample.connector.close()  # Discard items read ahead.
    if isinstance(sample.connector, Keeping) and sample.connector.folder:
        shutil.rmtree(sample.connector.folder)
    sample.source.lose(sample.place)
    with pytest.raises(SourceError):
        sample.connector.fetch(next(iter(ledger.present().values())).item)


def test_constructor_does_not_read_the_source(sample: Sample) -> None:
    sample.source.lose(sample.place)
    type(sample.connector)(type(sample.connector).settings(**sample.source.settings(sample.place)))


@pytest.mark.parametrize("kind", kinds())
def test_every_setting_has_a_title_and_description(kind: str) -> None:
    schema = connector_class(kind).settings.model_json_schema()
    own = set(schema["properties"]) - {"priority", "retry", "cache", "limits", "resources", "preset"}
    assert own
    for name in own:
        assert schema["properties"][name].keys() >= {"title", "description"}


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [("obsidan", "did you mean obsidian"), ("local-file", "did you mean local_files"), ("xyz", "choose one of github")],
)
def test_unknown_kind_is_rejected_with_a_suggestion(kind: str, remedy: str) -> None:
    with pytest.raises(BadInput, match=remedy):
        connector_class(kind).settings.located("here")


def test_connectors_load_lazily_and_without_heavy_libraries() -> None:
    code = """
import sys, connectors
assert [name for name in sys.modules if name.startswith("connectors.")] == []
for kind in connectors.kinds():
    connectors.connector_class(kind)
print({name.partition(".")[0] for name in sys.modules} & {"prefect", "sqlalchemy", "watchdog", "psutil"} or "none")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "none"


@pytest.mark.parametrize("module", ["connectors.imap.connector", "connectors.web.settings"])
def test_modules_that_need_no_http_load_no_client_for_it(module: str) -> None:
    """It takes 50 ms, in each command that reads the settings of a mail source and in each parser process of a list."""
    code = f"import sys, {module}; print('httpx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
