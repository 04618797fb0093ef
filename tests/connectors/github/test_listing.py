"""Listings of discussions with few requests: new, edited and deleted entries."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from catchment.errors import AccessDenied, SkipReason, SourceUnavailable
from connectors.contract.memory_ledger import MemoryLedger, MemoryReport
from connectors.github import GitHub
from tests.connectors.github.proxy import Exchange, Proxy
from tests.connectors.github.server import GitHubServer, Repo


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> int:
    """Use pages of ten entries, so that listings span several pages."""
    for module in ("api_client", "feed", "conversations", "releases"):
        monkeypatch.setattr(f"connectors.github.api.{module}.PAGE", 10)
    return 10


@pytest.fixture
def large(hub: GitHubServer, small_pages: int) -> Repo:
    """Forty issues; the first five and the last one have three comments each."""
    repo = hub.repo("ada/weir")
    for number in range(1, 41):
        repo.open(f"Issue {number}")
        for _ in range(3 if number <= 5 or number == 40 else 0):
            repo.comment(number)
    return repo


def locators(repo: Repo) -> set[str]:
    """Return the locators in a repository."""
    return {
        *(f"{repo.name}#{number}" for number in repo.issues),
        *(f"{repo.name}#{c['issue_url'].rpartition('/')[2]}/comment/{number}" for number, c in repo.comments.items()),
        *(f"{repo.name}#{r['pull_request_url'].rpartition('/')[2]}/review/{n}" for n, r in repo.reviews.items()),
        *(f"{repo.name}#release/{one['tag_name']}" for one in repo.releases.values()),
    }


def next_day(ledger: MemoryLedger, repository: str = "ada/weir") -> None:
    """Pretend that the last daily check was on another day."""
    assert f"{repository}/issues+pulls checked" in ledger.marks
    ledger.marks[f"{repository}/issues+pulls checked"] = "2026-01-01"


def figures(report: MemoryReport) -> tuple[int, int, int]:
    return len(report.new), len(report.changed), len(report.deleted)


def test_first_listing_makes_one_request_per_feed(
    github: GitHub, repo: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    ledger.sync(github)
    assert set(ledger.documents()) == locators(repo)
    assert len(locators(repo)) == 13
    assert len(proxy.paths) == 5, (
        "the repository, its issues, comments, reviews and releases; what is read comes with them"
    )


def test_unchanged_repository_costs_three_free_requests(
    github: GitHub, repo: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    ledger.sync(github)
    proxy.forget()
    assert ledger.sync(github).item_changes == []
    assert (len(proxy.paths), proxy.free, proxy.sent) == (3, 3, 0)


def test_new_comment_does_not_change_its_issues_document(
    github: GitHub, repo: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    ledger.sync(github)
    number = repo.comment(2, "One more")
    proxy.forget()
    report = ledger.sync(github)
    assert report.new == report.fetched == {f"ada/weir#2/comment/{number}"}
    assert (report.changed, report.deleted) == (set(), set())
    assert (len(proxy.paths), proxy.used) == (5, 2), "issues and comments; everything else is unchanged"


def test_edited_issue_is_read_again_and_a_label_only_recorded(github: GitHub, repo: Repo, ledger: MemoryLedger) -> None:
    ledger.sync(github)
    repo.edit(1, body="The gauge is broken")
    repo.edit(2, labels=[{"name": "bug"}, {"name": "a first one"}], milestone={"title": "Spring"})
    repo.edit(4, state="closed", pull_request={"merged_at": "2026-01-02T00:00:00Z"})
    report = ledger.sync(github)
    assert report.changed == report.fetched == {"ada/weir#1"}
    attributes = {number: ledger.rows[f"ada/weir#{number}"].item.attributes for number in (2, 4)}
    assert attributes[2] == {"state": "open", "labels": ["a first one", "bug"], "milestone": "Spring"}
    assert attributes[4]["state"] == "merged"


def test_deletions_in_a_small_repository_are_found_at_once(github: GitHub, repo: Repo, ledger: MemoryLedger) -> None:
    ledger.sync(github)
    comment, review = min(repo.comments), min(repo.reviews)
    repo.delete_comment(comment)
    assert ledger.sync(github).deleted == {f"ada/weir#1/comment/{comment}"}
    repo.delete(4)
    assert ledger.sync(github).deleted >= {"ada/weir#4", f"ada/weir#4/review/{review}"}
    assert set(ledger.documents()) == locators(repo)
    repo.releases.popitem()
    assert len(ledger.sync(github).deleted) == 1
    assert set(ledger.documents()) == locators(repo)


def test_interrupted_long_listing_resumes(github: GitHub, large: Repo, proxy: Proxy, ledger: MemoryLedger) -> None:
    length = len(list(github.changes(ledger.known())))
    for cut in range(0, length, 7):
        ledger.sync(github, cut=cut)
    ledger.sync(github)
    assert set(ledger.documents()) == locators(large)
    fresh = MemoryLedger()
    fresh.sync(github)
    assert ledger.marks == fresh.marks
    proxy.forget()
    assert ledger.sync(github).item_changes == []
    assert proxy.free == len(proxy.paths) == 3


def test_many_changes_in_the_same_second_are_all_reported(
    github: GitHub, hub: GitHubServer, small_pages: int, ledger: MemoryLedger
) -> None:
    repo = hub.repo("ada/weir")
    hub.step = timedelta()
    for _ in range(35):
        repo.comment(repo.open())
    ledger.sync(github)
    assert set(ledger.documents()) == locators(repo)
    assert len(locators(repo)) == 70
    repo.open("One more")
    ledger.sync(github)
    assert set(ledger.documents()) == locators(repo)


def test_changes_during_the_listing_are_not_missed(
    github: GitHub, large: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    """A changed issue moves to the end of the listing, and later issues move up one place."""

    def edit(exchange: Exchange) -> None:
        if "/issues?" in exchange.path and exchange.number < 12:
            large.edit(exchange.number + 1, title=f"Edited at {exchange.number}")

    proxy.harm = edit
    ledger.sync(github)
    proxy.harm = None
    ledger.sync(github)
    fresh = MemoryLedger()
    fresh.sync(github)
    assert ledger.documents() == fresh.documents()
    assert set(ledger.documents()) == locators(large)


def test_deleted_comment_is_found_by_the_comment_count(
    github: GitHub, large: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    ledger.sync(github)
    newest = max(large.comments)
    large.delete_comment(newest)
    proxy.forget()
    assert ledger.sync(github).deleted == {f"ada/weir#40/comment/{newest}"}
    assert len(proxy.paths) < 8


@pytest.mark.parametrize("deep", [True, False])
def test_old_deletions_are_found_daily_or_by_a_deep_listing(
    github: GitHub, large: Repo, proxy: Proxy, ledger: MemoryLedger, deep: bool
) -> None:
    ledger.sync(github)
    oldest = min(large.comments)
    large.delete_comment(oldest)
    large.delete(3)
    assert figures(ledger.sync(github)) == (0, 0, 0), "not detectable: the issue's time is unchanged"
    if not deep:
        next_day(ledger)
    ledger.sync(github, deep=deep)
    assert set(ledger.documents()) == locators(large)
    proxy.forget()
    assert ledger.sync(github).item_changes == []
    assert len(proxy.paths) == 3


def test_missed_entries_are_found_the_next_day(github: GitHub, large: Repo, ledger: MemoryLedger) -> None:
    ledger.sync(github)
    for missed in ("ada/weir#3", f"ada/weir#1/comment/{min(large.comments)}"):
        del ledger.rows[missed]
        large.open("New meanwhile")
        next_day(ledger)
        assert missed in ledger.sync(github).new
    assert set(ledger.documents()) == locators(large)


def test_daily_check_without_deletions_only_counts(
    github: GitHub, large: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    ledger.sync(github)
    next_day(ledger)
    proxy.forget()
    assert ledger.sync(github).item_changes == []
    assert (len(proxy.paths), proxy.used) == (7, 2), "issues and comments are counted; the rest is unchanged"


def test_transferred_issue_is_found_in_its_new_repository(
    reading: Callable[..., GitHub], hub: GitHubServer, large: Repo, ledger: MemoryLedger
) -> None:
    other = hub.repo("ada/dam")
    github = reading("ada/weir", "ada/dam")
    ledger.sync(github)
    large.transfer(7, other)
    ledger.sync(github, deep=True)
    assert set(ledger.documents()) == locators(large) | locators(other)
    assert "ada/dam#1" in ledger.documents()


def test_edited_comment_is_found_with_the_next_change_or_day(github: GitHub, repo: Repo, ledger: MemoryLedger) -> None:
    ledger.sync(github)
    first, second, *_ = sorted(repo.comments)
    repo.edit_comment(first, "Edited")
    assert ledger.sync(github).item_changes == []
    repo.open()
    assert ledger.sync(github).changed == {f"ada/weir#1/comment/{first}"}
    repo.edit_comment(second, "Edited too")
    next_day(ledger)
    assert ledger.sync(github).changed == {f"ada/weir#2/comment/{second}"}


def test_renamed_repository_is_followed_without_reading(
    github: GitHub, hub: GitHubServer, repo: Repo, ledger: MemoryLedger
) -> None:
    ledger.sync(github)
    hub.rename("ada/weir", "ada/lock")
    assert ledger.sync(github).fetched == set()
    repo.comment(1, "After it")
    assert len(ledger.sync(github).fetched) == 1
    assert len(ledger.documents()) == 14
    assert "ada/weir was renamed to ada/lock" in github.probe()


def test_owners_repositories_are_read_and_renames_are_moves(
    reading: Callable[..., GitHub], hub: GitHubServer, repo: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    hub.repo("ada/dam").open("Another")
    hub.repo("bob/mill").open("Not hers")
    hub.repo("ada/secret", private=True).open("Her own")
    github = reading("ada/*")
    ledger.sync(github)
    assert {locator.partition("#")[0] for locator in ledger.documents()} == {"ada/weir", "ada/dam", "ada/secret"}
    proxy.forget()
    assert ledger.sync(github).item_changes == []
    assert (len(proxy.paths), proxy.free) == (8, 8), "the owner, a page of repositories, and two for each repository"
    hub.rename("ada/dam", "ada/lock")
    report = ledger.sync(github)
    assert report.moved == {"ada/dam#1": "ada/lock#1"}
    assert (report.fetched, report.deleted) == (set(), set())


def test_repository_after_a_full_page_is_found(
    reading: Callable[..., GitHub], hub: GitHubServer, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.github.api.host.PAGE", 2)
    github = reading("ada/*")
    for names in (("a", "b"), ("c",), ("d", "e")):
        for name in names:
            hub.repo(f"ada/{name}").open("Issue")
        ledger.sync(github)
        assert {locator.partition("#")[0] for locator in ledger.documents()} == set(hub.repos)


def test_recreated_repository_is_a_different_root(
    github: GitHub, hub: GitHubServer, repo: Repo, ledger: MemoryLedger
) -> None:
    ledger.sync(github)
    before = ledger.root
    del hub.repos["ada/weir"]
    hub.repo("ada/weir").open()
    ledger.sync(github)
    assert ledger.root != before


def test_deselected_parts_are_excluded_and_can_return(
    reading: Callable[..., GitHub], repo: Repo, ledger: MemoryLedger
) -> None:
    ledger.sync(reading())
    report = ledger.sync(reading(include=("issues",)))
    assert set(report.skipped.values()) == {SkipReason.EXCLUDED}
    assert set(report.skipped) == {at for at in locators(repo) if "#4" in at or "release" in at}
    assert ledger.sync(reading(include=("issues",))).item_changes == []
    ledger.sync(reading())
    assert set(ledger.documents()) == locators(repo)


def test_repeated_probe_is_free(reading: Callable[..., GitHub], repo: Repo, proxy: Proxy) -> None:
    first = reading().probe()
    proxy.forget()
    assert reading().probe().partition(";")[0] == first.partition(";")[0]
    assert (len(proxy.paths), proxy.used) == (2, 0), "the repository, and the remaining requests"


def test_draft_releases_are_excluded_until_published(github: GitHub, repo: Repo, ledger: MemoryLedger) -> None:
    draft = repo.release("v2.0", draft=True)
    assert ledger.sync(github).skipped == {f"ada/weir#release/draft-{draft}": SkipReason.EXCLUDED}
    repo.releases[draft] |= {"draft": False}
    assert ledger.sync(github).new == {"ada/weir#release/v2.0"}


def test_release_hidden_by_a_deletion_between_pages_is_kept(
    github: GitHub, hub: GitHubServer, proxy: Proxy, small_pages: int, ledger: MemoryLedger
) -> None:
    repo = hub.repo("ada/weir")
    for number in range(3 * small_pages):
        repo.release(f"v{number}")
    ledger.sync(github)
    before = ledger.documents()
    repo.release("v100")

    def delete_the_newest(exchange: Exchange) -> None:
        if "/releases" in exchange.path and "page=2" in exchange.path:
            repo.releases.pop(max(repo.releases))
            proxy.harm = None

    proxy.harm = delete_the_newest
    ledger.sync(github)
    assert before.items() <= ledger.documents().items()
    ledger.sync(github)
    assert ledger.documents() == before


def test_release_download_is_not_a_change(github: GitHub, repo: Repo, ledger: MemoryLedger) -> None:
    ledger.sync(github)
    next(iter(repo.releases.values()))["assets"][0]["download_count"] += 1
    assert figures(ledger.sync(github)) == (0, 0, 0)


def test_private_repository_requires_a_token(
    reading: Callable[..., GitHub], hub: GitHubServer, repo: Repo, ledger: MemoryLedger
) -> None:
    ledger.sync(reading(token=None))
    assert len(ledger.documents()) == 13
    repo.private = True
    for ask in (GitHub.probe, ledger.sync):
        with pytest.raises(SourceUnavailable, match="provide a token"):
            ask(reading(token=None))
    assert len(ledger.documents()) == 13


def test_repository_with_disabled_issues_syncs(github: GitHub, repo: Repo, ledger: MemoryLedger) -> None:
    repo.has_issues = False
    assert ledger.sync(github).failed == {}
    assert len(ledger.documents()) == 2


def test_missing_permission_is_one_failing_item_until_granted(
    github: GitHub, repo: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    ledger.sync(github)
    repo.open()

    def refuse(exchange: Exchange) -> None:
        if "/issues" in exchange.path:
            exchange.respond(403, {"message": "Resource not accessible by personal access token"})

    proxy.harm = refuse
    report = ledger.sync(github)
    assert [(at, type(error)) for at, error in report.failed.items()] == [("ada/weir#closed", AccessDenied)]
    assert report.deleted == set()
    proxy.harm = None
    report = ledger.sync(github)
    assert (report.new, report.deleted) == ({"ada/weir#6"}, {"ada/weir#closed"})


@pytest.mark.parametrize(("part", "entry"), [("/issues", "ada/weir#closed"), ("/releases", "ada/weir#release/")])
def test_granted_permission_clears_the_failure_without_changes(
    part: str, entry: str, github: GitHub, repo: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    ledger.sync(github)
    count = len(ledger.documents())
    proxy.harm = lambda exchange: exchange.respond(403, {"message": "No"}) if part in exchange.path else None
    assert set(ledger.sync(github).failed) == {entry}
    proxy.harm = None
    assert ledger.sync(github).deleted == {entry}
    assert ledger.sync(github).item_changes == []
    assert len(ledger.documents()) == count


def test_uncached_entries_are_fetched_by_page(
    reading: Callable[..., GitHub], large: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    ledger.sync(reading(), fetch=False)
    proxy.forget()
    later = reading()
    rows = list(ledger.present().values())
    later.expect([row.item for row in rows])
    for row in rows:
        raw = later.fetch(row.item)
        assert len(raw.data) == row.item.size
        assert raw.modified == row.item.modified
    assert len(rows) == 58
    assert len(proxy.paths) < 12
