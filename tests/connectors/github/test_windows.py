"""Discussions of one period, and discussions since a date: before, after and without the rest of the repository."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from catchment.errors import SourceUnavailable
from catchment.model import Checkpoint, Failure, Root, Tombstone, Upsert
from connectors.contract.memory_ledger import MemoryLedger
from connectors.github import GitHub
from tests.connectors.github.proxy import Exchange, Proxy
from tests.connectors.github.server import GitHubServer, Repo

MARCH = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)


@pytest.fixture
def long(hub: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A repository with 180 entries, one each day from 2026-01-02 on, in pages of ten."""
    for module in ("api_client", "feed", "conversations", "releases"):
        monkeypatch.setattr(f"connectors.github.api.{module}.PAGE", 10)
    hub.step = timedelta(days=1)
    repo = hub.repo("ada/weir")
    for number in range(30):
        issue = repo.open(f"Issue {number}", pull=number % 2 == 1)
        for _ in range(2):
            repo.comment(issue)
        if number % 2:
            repo.review(issue)
            repo.review(issue)
        else:
            repo.release(f"v{number}")
            repo.open("Another")
        repo.comment(issue)
    return repo


def dated(ledger: MemoryLedger, since: datetime, until: datetime = datetime(2027, 1, 1, tzinfo=UTC)) -> set[str]:
    """Return the locators of the items with a date in this period."""
    items = [row.item for row in ledger.present().values()]
    return {item.locator for item in items if item.modified and since <= item.modified < until}


def test_window_has_the_items_of_its_period(github: GitHub, long: Repo, proxy: Proxy, ledger: MemoryLedger) -> None:
    ledger.sync(github)
    proxy.forget()
    changes = list(github.changes_between(MemoryLedger().known(), *MARCH))
    assert isinstance(changes[0], Root)
    assert {type(change) for change in changes[1:]} == {Upsert, Checkpoint}
    assert {len(change.marks) for change in changes if isinstance(change, Checkpoint)} == {0}
    items = {change.item.locator: change.item for change in changes if isinstance(change, Upsert)}
    assert items == {locator: ledger.rows[locator].item for locator in dated(ledger, *MARCH)}
    assert {locator.partition("#")[2].strip("0123456789")[:9] for locator in items} == {
        "", "/comment/", "/review/", "release/v",
    }  # fmt: skip
    of_feeds = [path for path in proxy.paths if "releases" not in path]
    assert len(of_feeds) == 5, "the repository, and the pages of this period"


@pytest.mark.parametrize("window_first", [True, False])
def test_window_and_whole_listing_agree_in_both_orders(
    github: GitHub, long: Repo, ledger: MemoryLedger, window_first: bool
) -> None:
    first = ledger.sync(github, window=MARCH) if window_first else ledger.sync(github)
    assert (first.fetched, ledger.marks == {}) == (set(ledger.present()), window_first)
    for window in (None, MARCH):
        report = ledger.sync(github, window=window)
        assert (report.new == set(), report.changed, report.deleted) == (
            not (window_first and window is None),
            set(),
            set(),
        )
    assert ledger.sync(github).item_changes == []
    assert len(ledger.documents()) == 180


def test_since_leaves_out_older_entries_until_it_is_set_earlier(
    reading: Callable[..., GitHub], long: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    whole = MemoryLedger()
    whole.sync(reading())
    march, june = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 6, 1, tzinfo=UTC)
    proxy.forget()
    ledger.sync(reading(since="2026-06-01"))
    assert set(ledger.documents()) == dated(whole, june)
    assert len(proxy.paths) < 12, "older pages are not read"
    proxy.forget()
    for _ in range(2):
        assert ledger.sync(reading(since="2026-06-01")).item_changes == []
    assert proxy.sent == 0
    ledger.sync(reading(since="2026-03-01"))
    assert set(ledger.documents()) == dated(whole, march)
    assert ledger.sync(reading(since="2026-06-01")).new == set()
    assert set(ledger.documents()) == dated(whole, march)
    ledger.sync(reading())
    assert set(ledger.documents()) == set(whole.documents())
    assert not any("2026-0" in key for key in ledger.marks), "the marks of other settings were removed"


def test_older_entries_of_a_window_are_kept_and_their_changes_are_noticed(
    reading: Callable[..., GitHub], long: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    recent = reading(since="2026-06-01")
    ledger.sync(recent)
    ledger.sync(recent, window=MARCH)
    known = set(ledger.documents())
    assert ledger.sync(recent).item_changes == []
    older = sorted(locator for locator in dated(ledger, *MARCH) if locator.rpartition("#")[2].isdecimal())
    edited, deleted = (int(locator.rpartition("#")[2]) for locator in older[:2])
    long.edit(edited, body="edited")
    assert ledger.sync(recent).changed == {f"ada/weir#{edited}"}
    long.delete(deleted)
    assert ledger.sync(recent, deep=True).deleted >= {f"ada/weir#{deleted}"}
    assert (set(ledger.documents()) < known, len(dated(ledger, *MARCH)) > 10) == (True, True)
    key = next(key for key in ledger.marks if key.endswith(" checked"))
    ledger.marks[key] = "2026-01-01"
    proxy.forget()
    assert ledger.sync(recent).item_changes == []
    assert len(proxy.paths) < 8, "the daily check reads no older pages"


def test_small_repository_notices_deletions_of_older_entries_at_once(
    reading: Callable[..., GitHub], repo: Repo, hub: GitHubServer, ledger: MemoryLedger
) -> None:
    ledger.sync(reading())
    later = reading(since="2026-01-02")
    report = ledger.sync(later)
    assert (report.new, report.changed, report.deleted) == (set(), set(), set())
    long_ago = set(ledger.documents())
    hub.step = timedelta(days=2)
    number = repo.open("A new one")
    comment = min(repo.comments)
    repo.delete_comment(comment)
    report = ledger.sync(later)
    assert (report.new, report.deleted) == ({f"ada/weir#{number}"}, {f"ada/weir#1/comment/{comment}"})
    assert len(long_ago) == len(ledger.documents())


def test_older_entries_return_when_they_are_included_again(
    reading: Callable[..., GitHub], repo: Repo, ledger: MemoryLedger
) -> None:
    ledger.sync(reading())
    assert ledger.sync(reading(include=("issues",))).skipped
    assert len(ledger.documents()) < 13
    ledger.sync(reading(since="2026-01-02"), deep=True)
    assert len(ledger.documents()) == 13


def test_interrupted_and_failing_windows_are_completed(
    github: GitHub, long: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    def harm(exchange: Exchange) -> None:
        if exchange.number == 3:
            exchange.cut()
        if exchange.number == 6:
            exchange.respond(502)

    proxy.harm = harm
    with pytest.raises(SourceUnavailable):
        ledger.sync(github, window=MARCH)
    assert 0 < len(ledger.present()) < 31
    proxy.harm = None
    length = len(list(github.changes_between(ledger.known(), *MARCH)))
    for cut in range(0, length, 5):
        ledger.sync(github, window=MARCH, cut=cut)
    ledger.sync(github, window=MARCH)
    whole = MemoryLedger()
    whole.sync(github)
    assert set(ledger.documents()) == dated(whole, *MARCH)


def test_replaced_repository_is_left_to_the_next_listing(
    github: GitHub, repo: Repo, hub: GitHubServer, ledger: MemoryLedger
) -> None:
    ledger.sync(github)
    hub.repo("ada/weir").open("Of another repository")
    changes = list(
        github.changes_between(ledger.known(), datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    )
    assert changes == [Root(ledger.accepted), Checkpoint()]


def test_denied_listing_is_a_failing_item_of_the_window(
    github: GitHub, repo: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    def deny(exchange: Exchange) -> None:
        if "/issues?" in exchange.path:
            exchange.respond(403, {"message": "Resource not accessible"})

    proxy.harm = deny
    report = ledger.sync(github, window=(datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)))
    assert [change.item.locator for change in report.changes if isinstance(change, Failure)] == ["ada/weir#closed"]
    assert len(report.new) == 2, "the releases"
    proxy.harm = None
    assert Tombstone("ada/weir#closed") in ledger.sync(github).changes
    assert len(ledger.documents()) == 13
