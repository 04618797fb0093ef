"""Lost connections, limits, refusals and malformed responses cause no loss or repetition; the token stays secret."""

from __future__ import annotations

import gzip
import json
import logging
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from catchment.errors import (
    CatchmentError,
    FailureClass,
    LoginFailed,
    RateLimited,
    Skipped,
    SkipReason,
    SourceError,
    SourceUnavailable,
)
from catchment.pacing import Pace, RateReport, Transfer
from connectors.contract.memory_ledger import MemoryLedger
from connectors.github import GitHub
from tests.connectors.github.proxy import Exchange, Proxy
from tests.connectors.github.server import TOKEN, GitHubServer, Repo

QUESTIONS = 5


def sync_until_done(github: GitHub, ledger: MemoryLedger) -> list[SourceError]:
    """Sync repeatedly, as a schedule does, until a sync has no failures; return the earlier errors."""
    failed: list[SourceError] = []
    while len(failed) < 10:
        try:
            ledger.sync(github)
        except SourceError as error:
            failed.append(error)
            continue
        if not any(row.job for row in ledger.present().values()):
            return failed
    raise AssertionError("it never ends well")


def same(ledger: MemoryLedger, other: MemoryLedger) -> None:
    assert ledger.documents() == other.documents()
    assert ledger.marks == other.marks
    assert {k: row.item for k, row in ledger.present().items()} == {k: row.item for k, row in other.present().items()}


@pytest.fixture
def whole(github: GitHub, repo: Repo, proxy: Proxy) -> MemoryLedger:
    """A ledger after a sync without faults."""
    ledger = MemoryLedger()
    ledger.sync(github)
    assert len(proxy.paths) == QUESTIONS
    assert len(ledger.documents()) == 13
    github.close()
    proxy.forget()
    return ledger


def cut(exchange: Exchange) -> None:
    exchange.cut()


def cut_in_the_middle(exchange: Exchange) -> None:
    exchange.cut(after=max(1, len(exchange.body) // 2))


def status(code: int) -> Callable[[Exchange], None]:
    return lambda exchange: exchange.respond(code, b"<html>Unicorn!</html>")


def a_login_page(exchange: Exchange) -> None:
    exchange.respond(200, b"<html>Please log in</html>")


def half_of_it(exchange: Exchange) -> None:
    exchange.body = exchange.body[: len(exchange.body) // 2]


def something_else(exchange: Exchange) -> None:
    exchange.body = b'"what"'


def too_short(exchange: Exchange) -> None:
    exchange.length = len(exchange.body) + 100


def round_and_round(exchange: Exchange) -> None:
    exchange.respond(301, Location=f"{exchange.path}&again")


def elsewhere(exchange: Exchange) -> None:
    exchange.respond(302, Location="http://127.0.0.2:9/steal")


HARMS = [
    *(cut, cut_in_the_middle, a_login_page, half_of_it, something_else, too_short, round_and_round, elsewhere),
    *map(status, (500, 502, 503, 504)),
]


@pytest.mark.full
@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: getattr(harm, "__name__", "status"))
def test_fault_at_any_request_loses_and_repeats_nothing(
    harm: Callable[[Exchange], None], reading: Callable[..., GitHub], proxy: Proxy, whole: MemoryLedger
) -> None:
    for at in range(QUESTIONS):
        proxy.forget()
        proxy.harm = lambda exchange, at=at: harm(exchange) if exchange.number == at else None  # type: ignore[misc]
        ledger = MemoryLedger()
        failed = sync_until_done(reading(), ledger)
        assert [type(error) for error in failed] in ([], [SourceUnavailable]), (
            "a cut is made good at once, all else later"
        )
        assert all("; " in str(error) for error in failed)
        same(ledger, whole)


def test_fault_at_any_request_after_changes_loses_nothing(
    reading: Callable[..., GitHub], repo: Repo, proxy: Proxy, whole: MemoryLedger
) -> None:
    before, after = pickle.dumps(whole), MemoryLedger()
    repo.comment(1, "Later")
    repo.delete_comment(min(repo.comments))
    repo.edit(2, title="Another title")
    repo.release("v3.0")
    after.sync(reading())
    for at in range(QUESTIONS):
        proxy.forget()
        proxy.harm = lambda exchange, at=at: exchange.respond(502) if exchange.number == at else None  # type: ignore[misc]
        ledger: MemoryLedger = pickle.loads(before)
        sync_until_done(reading(), ledger)
        same(ledger, after)


class Heard(Pace):
    """Records the reports to the pace."""

    def __init__(self) -> None:
        self.transfers: list[Transfer] = []

    @contextmanager
    def transfer(self, cost: int = 1) -> Iterator[Transfer]:
        with super().transfer(cost) as transfer:
            self.transfers.append(transfer)
            yield transfer


def limited(github: GitHub, proxy: Proxy, harm: Callable[[Exchange], None]) -> RateLimited:
    proxy.harm = harm
    with pytest.raises(RateLimited) as caught:
        MemoryLedger().sync(github)
    assert caught.value.failure_class is FailureClass.RATE_LIMITED
    return caught.value


@pytest.mark.parametrize("code", [403, 429])
def test_exhausted_limit_waits_until_it_resets(github: GitHub, repo: Repo, proxy: Proxy, code: int) -> None:
    resets = {
        "X_RateLimit_Limit": "5000",
        "X_RateLimit_Remaining": "0",
        "X_RateLimit_Reset": str(int(time.time()) + 900),
    }
    error = limited(
        github, proxy, lambda exchange: exchange.respond(code, {"message": "API rate limit exceeded"}, **resets)
    )
    assert error.retry_after == pytest.approx(900, abs=5)


@pytest.mark.parametrize("code", [403, 429])
def test_secondary_limit_waits_as_long_as_stated(github: GitHub, repo: Repo, proxy: Proxy, code: int) -> None:
    left = {"X_RateLimit_Limit": "5000", "X_RateLimit_Remaining": "4000", "Retry_After": "17"}
    error = limited(github, proxy, lambda exchange: exchange.respond(code, {"message": "slow down"}, **left))
    assert error.retry_after == 17


def test_secondary_limit_without_a_stated_wait_lasts_15_minutes(github: GitHub, repo: Repo, proxy: Proxy) -> None:
    said = {"message": "You have exceeded a secondary rate limit. Please wait"}
    assert limited(github, proxy, lambda exchange: exchange.respond(403, said)).retry_after == 900
    assert limited(github, proxy, lambda exchange: exchange.respond(429, {"message": "no"})).retry_after == 900


def test_exhausted_limit_stops_at_a_checkpoint_and_resumes(
    github: GitHub, repo: Repo, proxy: Proxy, whole: MemoryLedger
) -> None:
    proxy.limit = 2
    ledger, waits = MemoryLedger(), 0
    while ledger.documents() != whole.documents():
        try:
            ledger.sync(github)
        except RateLimited:
            waits += 1
            proxy.used = 0
    assert 1 <= waits <= 4
    same(ledger, whole)


def test_rate_headers_are_reported_and_a_304_is_free(
    github: GitHub, repo: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    ledger.sync(github)
    github.pace = heard = Heard()
    ledger.sync(github)
    assert [transfer.refunded for transfer in heard.transfers] == [True] * 3
    assert {(rates.limit, rates.remaining) for one in heard.transfers for rates in one.reports} == {
        (5_000, 5_000 - QUESTIONS)
    }
    assert all(isinstance(rates, RateReport) and rates.resets_in for one in heard.transfers for rates in one.reports)


def test_revoked_token_is_used_only_once_more(
    github: GitHub, hub: GitHubServer, repo: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    proxy.harm = lambda exchange: hub.tokens.clear() if exchange.number == 2 else None
    with pytest.raises(LoginFailed, match="create a new one"):
        ledger.sync(github)
    assert len(proxy.paths) == 4
    ledger.sync(github, cut=0)
    hub.tokens[TOKEN] = "ada"
    proxy.harm = None
    ledger.sync(github)
    assert len(ledger.documents()) == 13


@pytest.mark.parametrize("token", ["two words", "tök", "line\nbreak", "line\r\nX-Other: 1"])
def test_malformed_token_is_rejected_without_showing_it(
    token: str, github: GitHub, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_TOKEN", token)
    with pytest.raises(LoginFailed) as caught:
        github.probe()
    assert token not in "".join([str(caught.value), repr(caught.value), repr(caught.value.__context__)])
    assert proxy.paths == []


def test_token_stays_with_its_host_and_out_of_logs_and_errors(
    reading: Callable[..., GitHub], repo: Repo, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    other = Proxy(0)
    try:
        for location in (
            f"{other.address}/steal",
            "https://127.0.0.1:9/",
            "//127.0.0.1:9/",
            f"{proxy.address}@evil.example/",
        ):
            proxy.harm = lambda exchange, location=location: exchange.respond(301, Location=location)  # type: ignore[misc]
            github = reading()
            with pytest.raises(SourceUnavailable, match="another host") as caught:
                github.probe()
            assert TOKEN not in f"{caught.value!r}{caught.value.__context__!r}{github!r}{vars(github)!r}"
            assert TOKEN.encode() not in pickle.dumps(github)
        assert other.paths == []
    finally:
        other.close()
    assert TOKEN not in caplog.text


def test_next_page_at_another_host_is_not_requested(
    github: GitHub, repo: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    def lead_away(exchange: Exchange) -> None:
        exchange.headers["Link"] = '<http://127.0.0.2:9/more>; rel="next"'

    proxy.harm = lead_away
    with pytest.raises(SourceUnavailable, match="another host"):
        ledger.sync(github)


def test_oversized_response_is_aborted(
    github: GitHub, repo: Repo, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.github.api.api_client._MAX_RESPONSE_BYTES", 100)
    with pytest.raises(SourceUnavailable, match="response exceeds 100 bytes; "):
        github.probe()


def test_oversized_announced_length_is_not_read(github: GitHub, repo: Repo, proxy: Proxy) -> None:
    def harm(exchange: Exchange) -> None:
        exchange.length = 6_000_000_000

    proxy.harm = harm
    with pytest.raises(SourceUnavailable, match="response exceeds 64000000 bytes; "):
        github.probe()


def test_doubly_compressed_response_is_rejected(github: GitHub, repo: Repo, proxy: Proxy) -> None:
    def harm(exchange: Exchange) -> None:
        body = gzip.compress(gzip.compress(b"0" * 10_000_000))
        exchange.respond(200, body, Content_Type="application/json", Content_Encoding="gzip, gzip")

    proxy.harm = harm
    with pytest.raises(SourceUnavailable, match="not a response of the GitHub API"):
        github.probe()


def test_oversized_issue_is_skipped(github: GitHub, repo: Repo, proxy: Proxy) -> None:
    def harm(exchange: Exchange) -> None:
        if exchange.path.endswith("/issues/1"):
            exchange.length = 6_000_000_000

    ledger = MemoryLedger()
    ledger.sync(github)
    github.close()  # Discard the listing.
    proxy.harm = harm
    with pytest.raises(Skipped, match=SkipReason.TOO_LARGE):
        github.fetch(ledger.present()["ada/weir#1"].item)


def test_api_errors_do_not_quote_the_server(reading: Callable[..., GitHub], repo: Repo, proxy: Proxy) -> None:
    for code in (400, 401, 403, 404, 409, 410, 418, 422, 451, 500):
        proxy.harm = lambda exchange, code=code: exchange.respond(code, {"message": "secret plans"})  # type: ignore[misc]
        with pytest.raises(CatchmentError) as caught:
            reading().probe()
        assert "secret plans" not in f"{caught.value} {caught.value.__context__}"
        assert "; " in str(caught.value)


def test_half_an_emoji_in_an_issue_stops_no_sync(
    github: GitHub, repo: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    repo.open("Weir HALF", "Gauge WHOLE HALF")

    def spoil(exchange: Exchange) -> None:
        exchange.body = exchange.body.replace(b"HALF", rb"\ud83d").replace(b"WHOLE", rb"\ud83c\udf3e")

    proxy.harm = spoil
    ledger.sync(github)
    assert any("Gauge 🌾 \ufffd".encode() in data for data in ledger.documents().values())


@pytest.mark.parametrize(
    "entry",
    [
        {"number": "x"},
        {"number": 7, "title": None, "updated_at": "never"},
        {"number": None},
        {"id": 1, "number": 2, "user": "ada", "labels": 5, "updated_at": "2026-01-01T00:00:00Z"},
    ],
)
def test_malformed_entries_are_a_malformed_response(
    entry: dict[str, object], github: GitHub, repo: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    def spoil(exchange: Exchange) -> None:
        if "/issues?" in exchange.path:
            exchange.body = json.dumps([entry]).encode()

    proxy.harm = spoil
    with pytest.raises(SourceUnavailable, match="not a response of the GitHub API"):
        ledger.sync(github)
