"""Backfills of old discussions beside kills, lost connections, limits and denied parts: each is read once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from catchment.errors import RateLimited, SourceUnavailable
from catchment.ledger import BackfillState
from catchment.model import JobState
from catchment.settings import Home
from connectors.github import GitHub
from tests.connectors.backfilling import Backfilling
from tests.connectors.github.proxy import Exchange, Proxy
from tests.connectors.github.server import GitHubServer, Repo

pytestmark = pytest.mark.full

MARCH = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)


@pytest.fixture
def repo(hub: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A repository with an entry on every fourth day from January to July, in pages of five."""
    for module in ("api_client", "feed", "conversations", "releases"):
        monkeypatch.setattr(f"connectors.github.api.{module}.PAGE", 5)
    hub.step = timedelta(days=4)
    repo = hub.repo("ada/weir")
    for number in range(10):
        issue = repo.open(f"Issue {number}", pull=number % 2 == 1)
        repo.comment(issue)
        repo.review(issue) if number % 2 else repo.release(f"v{number}")
        repo.open("Another")
    return repo


@pytest.fixture
def weir(reading: Callable[..., GitHub], repo: Repo, home: Home, tmp_path: Path) -> Backfilling:
    """The repository with its discussions since June."""
    weir = Backfilling(home, lambda: reading(since="2026-06-01"), tmp_path)
    weir.agree()
    assert weir.sync() is None
    return weir


def of_march(repo: Repo) -> int:
    dates = [each["updated_at"] for each in (*repo.issues.values(), *repo.comments.values(), *repo.reviews.values())]
    dates += [each["published_at"] or each["created_at"] for each in repo.releases.values()]
    return sum(f"{MARCH[0]:%F}" <= date < f"{MARCH[1]:%F}" for date in dates)


def check_read(weir: Backfilling, repo: Repo, number: int, before: dict[str, int], about: object = "") -> None:
    """Check that the library has the items of March once each, and no others."""
    after = weir.documents()
    assert (len(after), before.items() <= after.items()) == (len(before) + of_march(repo), True), about
    found = weir.get(number)
    assert (found.state, found.left, found.done) == (BackfillState.DONE, 0, found.total), (about, found)
    assert found.jobs[JobState.SUCCEEDED] == of_march(repo) > 5, (about, found)


def check_undone(weir: Backfilling, number: int, before: dict[str, int], about: object = "") -> None:
    """Check that an undo takes out exactly March, and that no sync brings it back."""
    weir.undo(number)
    assert weir.documents() == before, about
    assert weir.sync() is None
    assert weir.documents() == before, about


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
def test_backfill_killed_at_any_moment_reads_its_period_once(weir: Backfilling, repo: Repo, every: bool) -> None:
    before, number = weir.documents(), weir.start(*MARCH)
    for point in weir.each_kill(lambda: weir.sync(number), every=every):
        weir.finish()
        check_read(weir, repo, number, before, point)
        check_undone(weir, number, before, point)


def cut(exchange: Exchange) -> None:
    exchange.cut()


def limited(exchange: Exchange) -> None:
    exchange.respond(429, {"message": "slow down"}, Retry_After="600")


def used_up(exchange: Exchange) -> None:
    exchange.respond(403, {"message": "API rate limit exceeded"}, x_ratelimit_remaining="0", x_ratelimit_reset="1")


def broken(exchange: Exchange) -> None:
    exchange.respond(502)


@pytest.mark.parametrize("harm", [cut, limited, used_up, broken])
@pytest.mark.parametrize("at", [3, *(pytest.param(n, marks=pytest.mark.long) for n in (0, 1, 2, 4, 5))])
def test_backfill_reads_its_period_after_failing_requests(
    weir: Backfilling, repo: Repo, proxy: Proxy, harm: Callable[[Exchange], None], at: int
) -> None:
    before, number = weir.documents(), weir.start(*MARCH)
    proxy.forget()
    proxy.harm = lambda exchange: harm(exchange) if at <= exchange.number < at + 3 else None
    assert isinstance(weir.sync(number), RateLimited | SourceUnavailable | None)
    proxy.harm, weir.ahead = None, timedelta(hours=2)
    weir.finish()
    check_read(weir, repo, number, before)


@pytest.mark.parametrize("part", ["/issues?", "/issues/comments?", "/pulls/comments?", "/releases?"])
@pytest.mark.parametrize("status", [403, 404])
def test_part_denied_for_a_while_is_read_by_the_same_backfill(
    weir: Backfilling, repo: Repo, proxy: Proxy, part: str, status: int
) -> None:
    before, number = weir.documents(), weir.start(*MARCH)
    proxy.harm = lambda exchange: exchange.respond(status, {"message": "no"}) if part in exchange.path else None
    assert weir.sync(number) is None
    found = weir.get(number)
    assert (found.state, found.is_listed) == (BackfillState.RUNNING, False)
    proxy.harm = None
    weir.finish()
    check_read(weir, repo, number, before)
    with weir.ledger() as ledger:
        assert ledger.quarantine.list() == []
