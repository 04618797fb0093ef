"""The contract that every connector fulfils. A new kind of source adds a subclass of `ConnectorContract`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from catchment.content import pushed_files
from catchment.contracts import Windowed
from catchment.errors import BadInput
from catchment.model import Checkpoint, RawContent, Upsert
from catchment.runtime.home import Home
from connectors import connector_class, kinds
from connectors.contract.memory_ledger import MemoryLedger
from connectors.contract.quality import LEVELS, RULES
from connectors.contract.suite import ConnectorContract
from connectors.local_files import LocalFiles, LocalFilesSettings
from tests.connectors.github.proxy import Proxy
from tests.connectors.github.repository import Repository
from tests.connectors.github.server import GitHubServer
from tests.connectors.imap.dovecot import USER, Dovecot, message
from tests.connectors.programs.scripts import write_records, write_script
from tests.connectors.remote.storages import configure
from tests.connectors.web.conftest import entry, page, rss
from tests.connectors.web.server import SmallWeb

_PAGES = ("../../docs/settings.md", "../../docs/connectors.md", "../../docs/programs.md")
_FORM = "../golden/test_flows.py::test_files_beside_the_flows_are_current"
_FOLDERS = {
    "checkpoints": "::test_large_folder_has_checkpoints",
    "history": "test_any_history.py::test_random_history_ends_with_the_files_on_disk",
    "oddities": "test_odd_files.py::test_unusual_names_are_kept",
    "golden": _FORM,
}


class _Folder(ConnectorContract):
    """A folder of Markdown files."""

    pages = _PAGES
    proofs: ClassVar[dict[str, str]] = _FOLDERS

    def fill(self, place: Path) -> None:
        (place / "a" / "deep").mkdir(parents=True)
        for name in ("one.md", "two.md", "a/three.md", "a/deep/four.md"):
            (place / name).write_text(f"# {name}\n")

    def settings(self, place: Path) -> dict[str, Any]:
        return {"root": place}

    def change(self, place: Path) -> None:
        (place / "new.md").write_text("new")
        (place / "one.md").write_text("edited")
        (place / "a" / "three.md").unlink()

    def move(self, place: Path) -> None:
        (place / "one.md").rename(place / "a" / "moved.md")

    def lose(self, place: Path) -> None:
        place.rename(place.with_name("elsewhere"))


class TestLocalFiles(_Folder):
    kind = "local_files"


class TestObsidian(_Folder):
    kind = "obsidian"

    def fill(self, place: Path) -> None:
        super().fill(place)
        (place / ".obsidian").mkdir()
        (place / ".obsidian" / "app.json").write_text("{}")


class TestPushed(_Folder):
    kind = "pushed"

    @pytest.fixture
    def place(self, home: Home) -> Path:
        return home.pushed / "clips"

    def fill(self, place: Path) -> None:
        place.mkdir(parents=True)
        for key in ("one", "two", "three", "four"):
            _push(place, key, f"# {key}\n")

    def settings(self, place: Path) -> dict[str, Any]:
        return {"folder": "clips"}

    def change(self, place: Path) -> None:
        _push(place, "new", "new")
        _push(place, "one", "edited")
        pushed_files.remove(place, "three")


class TestRemote(_Folder):
    """A folder that rclone reads."""

    kind = "remote"
    proofs: ClassVar[dict[str, str]] = {
        "login": "remote/test_faults.py::test_refused_login_is_reported_with_its_remedy",
        "rate": "remote/test_faults.py::test_rate_limit_is_reported",
        "host": "remote/test_faults.py::test_fault_at_any_request_loses_and_repeats_nothing",
        "limits": "remote/test_faults.py::test_silent_storage_is_given_up",
        "oddities": "remote/test_remote.py::test_odd_names_are_read",
        "golden": _FORM,
    }
    pages = ("../../docs/settings.md", "../../docs/programs.md")

    @pytest.fixture
    def place(self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        configure(monkeypatch, tmp_path, box={"type": "alias", "remote": str(root)})
        return root

    def settings(self, place: Path) -> dict[str, Any]:
        return {"remote": "box:"}


def _push(root: Path, key: str, text: str) -> None:
    pushed_files.put(root, key, RawContent(text.encode(), f"{key}.md", title=key.title()))


class TestProgram(ConnectorContract):
    """A script that prints Singer messages: all records of a JSON file, each time."""

    kind = "program"
    keeps_versions = True
    pages = _PAGES
    proofs: ClassVar[dict[str, str]] = {
        "checkpoints": "programs/test_program.py::test_long_listing_has_checkpoints",
        "history": "programs/test_program.py::test_random_history_ends_with_the_records_of_the_program",
        "oddities": "programs/test_program.py::test_unusual_records_are_kept",
        "golden": _FORM,
    }

    def fill(self, place: Path) -> None:
        write_script(place)
        write_records(place, {str(number): f"text {number}" for number in range(4)})

    def settings(self, place: Path) -> dict[str, Any]:
        return {"command": [str(place / "tap.py")]}

    def change(self, place: Path) -> None:
        write_records(place, {"0": "text 0", "1": "edited", "3": "text 3", "9": "new"})

    def lose(self, place: Path) -> None:
        (place / "records.json").unlink()


@pytest.mark.full
class TestImap(ConnectorContract):
    """Needs Dovecot."""

    kind = "imap"
    edits = 0
    pages = _PAGES
    proofs: ClassVar[dict[str, str]] = {
        "checkpoints": "imap/test_changes.py::test_interrupted_first_listing_resumes",
        "login": "imap/test_faults.py::test_refused_login_is_not_retried",
        "rate": "imap/test_faults.py::test_rate_limit_stops_the_sync_at_once",
        "host": "imap/test_faults.py::test_connection_lost_at_any_command_is_recovered",
        "limits": "imap/test_bounds.py::test_huge_literal_skips_its_message_and_reads_the_others",
        "history": "imap/test_any_history.py::test_random_histories_lose_and_invent_no_mail",
        "oddities": "imap/test_faults.py::test_unlistable_message_fails_alone",
        "golden": _FORM,
    }

    @pytest.fixture
    def place(self, server: Dovecot) -> Dovecot:
        return server

    def fill(self, place: Dovecot) -> None:
        with place.person() as person:
            person.create_folder("Archive/2026")
            for number, folder in enumerate(("INBOX", "INBOX", "INBOX", "Archive/2026")):
                person.append(folder, message(number))

    def settings(self, place: Dovecot) -> dict[str, Any]:
        given = {"host": "127.0.0.1", "port": place.port, "user": USER, "security": "none"}
        return {**given, "password": "env:MAIL_PASSWORD"}

    def change(self, place: Dovecot) -> None:
        with place.person() as person:
            person.append("INBOX", message(9))
            person.select_folder("INBOX")
            first, second, *_ = person.search()
            person.add_flags([first], [b"\\Seen"])
            person.delete_messages([second])
            person.expunge([second])

    def move(self, place: Dovecot) -> None:
        with place.person() as person:
            person.select_folder("INBOX")
            person.move(person.search()[:1], "Archive/2026")

    def lose(self, place: Dovecot) -> None:
        place.stop()


class _Hub(ConnectorContract):
    kind = "github"
    keeps_versions = True
    pages = _PAGES
    proofs: ClassVar[dict[str, str]] = {
        "moves": "github/test_listing.py::test_owners_repositories_are_read_and_renames_are_moves",
        "checkpoints": "github/test_files.py::test_interrupted_listing_of_a_large_repository_resumes",
        "login": "github/test_faults.py::test_revoked_token_is_used_only_once_more",
        "rate": "github/test_faults.py::test_exhausted_limit_waits_until_it_resets",
        "host": "github/test_faults.py::test_fault_at_any_request_loses_and_repeats_nothing",
        "limits": "github/test_faults.py::test_oversized_response_is_aborted",
        "history": "github/test_any_history.py::test_random_git_histories_sync_like_a_fresh_listing",
        "oddities": "github/test_faults.py::test_malformed_entries_are_a_malformed_response",
        "golden": _FORM,
    }


class TestGitHubApi(_Hub):
    @pytest.fixture
    def place(self, hub: GitHubServer, hub_proxy: Proxy) -> tuple[GitHubServer, Proxy]:
        return hub, hub_proxy

    def fill(self, place: tuple[GitHubServer, Proxy]) -> None:
        repo = place[0].repo("ada/weir")
        repo.comment(repo.open("An issue"))
        repo.open("A pull request", pull=True)
        repo.release("v1.0")

    def settings(self, place: tuple[GitHubServer, Proxy]) -> dict[str, Any]:
        given = {"repositories": ("ada/weir",), "include": ("issues", "pulls", "releases")}
        return {**given, "address": place[1].address, "token": "env:HUB_TOKEN"}

    def change(self, place: tuple[GitHubServer, Proxy]) -> None:
        repo = place[0].repos["ada/weir"]
        repo.delete_comment(min(repo.comments))
        repo.edit(1, body="edited")
        repo.open("A new one")

    def lose(self, place: tuple[GitHubServer, Proxy]) -> None:
        place[1].close()


class TestGitHubClone(_Folder):
    kind = "github"
    keeps_versions = True
    is_dated = False  # Files of a repository have no dates.
    proofs: ClassVar[dict[str, str]] = _Hub.proofs

    def fill(self, place: Path) -> None:
        super().fill(place)
        Repository.made(place).commit()

    def settings(self, place: Path) -> dict[str, Any]:
        return {"clone": place}

    def change(self, place: Path) -> None:
        super().change(place)
        Repository(place).commit()

    def move(self, place: Path) -> None:
        super().move(place)
        Repository(place).commit()


class TestWeb(ConnectorContract):
    """A folder for lists and feeds, and a web of hosts that they name. The time stands still."""

    kind = "web"
    keeps_versions = True
    pages = _PAGES
    proofs: ClassVar[dict[str, str]] = {
        "moves": "web/test_web_listing.py::test_entry_whose_address_changed_is_a_move",
        "checkpoints": "web/test_web_listing.py::test_crawl_continues_from_the_ledger_of_any_checkpoint",
        "parsers": "web/test_hostile_lists.py::test_hostile_feed_harms_no_other",
        "login": "web/test_web_listing.py::test_page_that_needs_a_login_fails_and_a_read_one_is_kept",
        "rate": "web/test_web_listing.py::test_hosts_that_are_dead_refuse_or_throttle_defer_only_their_addresses",
        "host": "web/test_client.py::test_lost_connection_is_retried_once",
        "limits": "web/test_client.py::test_oversized_response_is_skipped_in_little_memory",
        "history": "web/test_shared_links.py::test_nothing_is_lost_in_any_order",
        "oddities": "web/test_feeds.py::test_hostile_feed_does_not_grow",
        "golden": _FORM,
    }

    @pytest.fixture
    def place(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, SmallWeb]]:
        monkeypatch.setattr("connectors.web.connector.present", lambda: datetime(2026, 3, 2, tzinfo=UTC))
        with SmallWeb() as web:
            yield root, web

    def fill(self, place: tuple[Path, SmallWeb]) -> None:
        folder, web = place
        (folder / "feed.xml").write_text(rss(entry(1, full="one"), entry(2, full="two")))
        pages = [web.hosts[0].put(f"/{number}", page(f"text {number}")) for number in range(2)]
        (folder / "list.txt").write_text("\n".join(pages))

    def settings(self, place: tuple[Path, SmallWeb]) -> dict[str, Any]:
        folder, web = place
        addresses = tuple(str(folder / name) for name in ("feed.xml", "list.txt"))
        return {"addresses": addresses, "hosts": (web.hosts[0].name,), "every_seconds": 0.01}

    def change(self, place: tuple[Path, SmallWeb]) -> None:
        folder, web = place
        feed = rss(entry(1, full="one, edited"), entry(2, full="two"), entry(3, full="three"))
        (folder / "feed.xml").write_text(feed)
        (folder / "list.txt").write_text(web.hosts[0].address("/0"))

    def lose(self, place: tuple[Path, SmallWeb]) -> None:
        (place[0] / "feed.xml").unlink()


_SAMPLES = (
    TestGitHubApi,
    TestGitHubClone,
    TestImap,
    TestLocalFiles,
    TestObsidian,
    TestProgram,
    TestPushed,
    TestRemote,
    TestWeb,
)


def test_every_kind_has_a_sample_source() -> None:
    assert {sample.kind for sample in _SAMPLES} == set(kinds())


def test_mail_and_github_can_list_a_period() -> None:
    assert {kind for kind in kinds() if hasattr(connector_class(kind), "changes_between")} == {"imap", "github"}
    assert all(issubclass(connector_class(kind), Windowed) for kind in ("imap", "github"))


@pytest.mark.parametrize("kind", kinds())
def test_kinds_of_ours_claim_gold(kind: str) -> None:
    assert connector_class(kind).manifest.level == "gold"


def test_rules_are_complete_and_in_the_order_of_their_levels() -> None:
    levels = [LEVELS.index(rule.level) for rule in RULES.values()]
    assert levels == sorted(levels)
    assert all(rule.rule and rule.reason and rule.example and rule.exceptions for rule in RULES.values())


def test_large_folder_has_checkpoints(root: Path, ledger: MemoryLedger) -> None:
    for number in range(5_000):
        (root / f"{number}.md").touch()
    changes = list(LocalFiles(LocalFilesSettings(root=root)).changes(ledger.known()))
    places = [number for number, change in enumerate(changes) if isinstance(change, Checkpoint)]
    assert sum(isinstance(change, Upsert) for change in changes) == 5_000
    assert max(end - start for start, end in zip([0, *places], places, strict=False)) < 3_000


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
