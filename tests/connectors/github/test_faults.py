"""Connections that are cut, limits, refusals, answers that are none: nothing is lost, nothing twice, and no token gets out."""

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
    SourceError,
    SourceUnavailable,
)
from catchment.model import SkipReason
from catchment.pacing import Pace, RateReport, Transfer
from connectors.github import GitHub
from tests.connectors.github.proxy import Exchange, Proxy
from tests.connectors.github.server import TOKEN, GitHubServer, Repo
from tests.connectors.memory_ledger import MemoryLedger

QUESTIONS = 5


def sync_until_done(github: GitHub, ledger: MemoryLedger) -> list[SourceError]:
    """Sync again and again as a schedule does, until nothing fails; what failed before."""
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
    """What a sync without trouble has."""
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
    return lambda exchange: exchange.say(code, b"<html>Unicorn!</html>")


def a_login_page(exchange: Exchange) -> None:
    exchange.say(200, b"<html>Please log in</html>")


def half_of_it(exchange: Exchange) -> None:
    exchange.body = exchange.body[: len(exchange.body) // 2]


def something_else(exchange: Exchange) -> None:
    exchange.body = b'"what"'


def too_short(exchange: Exchange) -> None:
    exchange.length = len(exchange.body) + 100


def round_and_round(exchange: Exchange) -> None:
    exchange.say(301, Location=f"{exchange.path}&again")


def elsewhere(exchange: Exchange) -> None:
    exchange.say(302, Location="http://127.0.0.2:9/steal")


HARMS = [
    *(cut, cut_in_the_middle, a_login_page, half_of_it, something_else, too_short, round_and_round, elsewhere),
    *map(status, (500, 502, 503, 504)),
]


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: getattr(harm, "__name__", "status"))
def test_harm_at_every_question_loses_nothing_and_tells_nothing_twice(
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


def test_harm_at_every_question_after_changes_loses_nothing_either(
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
        proxy.harm = lambda exchange, at=at: exchange.say(502) if exchange.number == at else None  # type: ignore[misc]
        ledger: MemoryLedger = pickle.loads(before)
        sync_until_done(reading(), ledger)
        same(ledger, after)


class Heard(Pace):
    """What the pace hears."""

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
def test_a_used_up_hour_is_waited_out_until_it_is_over(github: GitHub, repo: Repo, proxy: Proxy, code: int) -> None:
    resets = {
        "X_RateLimit_Limit": "5000",
        "X_RateLimit_Remaining": "0",
        "X_RateLimit_Reset": str(int(time.time()) + 900),
    }
    error = limited(
        github, proxy, lambda exchange: exchange.say(code, {"message": "API rate limit exceeded"}, **resets)
    )
    assert error.retry_after == pytest.approx(900, abs=5)


@pytest.mark.parametrize("code", [403, 429])
def test_a_secondary_limit_is_waited_out_as_long_as_it_says(
    github: GitHub, repo: Repo, proxy: Proxy, code: int
) -> None:
    left = {"X_RateLimit_Limit": "5000", "X_RateLimit_Remaining": "4000", "Retry_After": "17"}
    error = limited(github, proxy, lambda exchange: exchange.say(code, {"message": "slow down"}, **left))
    assert error.retry_after == 17


def test_secondary_limit_without_a_stated_wait_lasts_15_minutes(github: GitHub, repo: Repo, proxy: Proxy) -> None:
    said = {"message": "You have exceeded a secondary rate limit. Please wait"}
    assert limited(github, proxy, lambda exchange: exchange.say(403, said)).retry_after == 900
    assert limited(github, proxy, lambda exchange: exchange.say(429, {"message": "no"})).retry_after == 900


def test_the_hour_of_the_host_ends_a_sync_at_its_checkpoint_and_a_later_one_goes_on(
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


def test_what_an_answer_says_of_the_rate_is_told_to_the_pace_and_a_304_is_free(
    github: GitHub, repo: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    ledger.sync(github)
    github.pace = heard = Heard()
    ledger.sync(github)
    assert [transfer.refunded for transfer in heard.transfers] == [True] * 3
    assert {(said.limit, said.remaining) for one in heard.transfers for said in one.said} == {
        (5_000, 5_000 - QUESTIONS)
    }
    assert all(isinstance(said, RateReport) and said.resets_in for one in heard.transfers for said in one.said)


def test_a_token_that_is_revoked_in_the_middle_is_asked_with_once(
    github: GitHub, hub: GitHubServer, repo: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    proxy.harm = lambda exchange: hub.tokens.clear() if exchange.number == 2 else None
    with pytest.raises(LoginFailed, match="make a new one"):
        ledger.sync(github)
    assert len(proxy.paths) == 4
    ledger.sync(github, cut=0)
    hub.tokens[TOKEN] = "ada"
    proxy.harm = None
    ledger.sync(github)
    assert len(ledger.documents()) == 13


@pytest.mark.parametrize("token", ["two words", "tök", "line\nbreak", "line\r\nX-Other: 1"])
def test_a_token_that_cannot_be_one_is_refused_without_being_shown(
    token: str, github: GitHub, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_TOKEN", token)
    with pytest.raises(LoginFailed) as caught:
        github.probe()
    assert token not in "".join([str(caught.value), repr(caught.value), repr(caught.value.__context__)])
    assert proxy.paths == []


def test_the_token_is_sent_to_no_other_host_and_is_in_no_log_error_or_pickle(
    reading: Callable[..., GitHub], repo: Repo, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    other = Proxy(0)
    try:
        for place in (
            f"{other.address}/steal",
            "https://127.0.0.1:9/",
            "//127.0.0.1:9/",
            f"{proxy.address}@evil.example/",
        ):
            proxy.harm = lambda exchange, place=place: exchange.say(301, Location=place)  # type: ignore[misc]
            github = reading()
            with pytest.raises(SourceUnavailable, match="another host") as caught:
                github.probe()
            assert TOKEN not in f"{caught.value!r}{caught.value.__context__!r}{github!r}{vars(github)!r}"
            assert TOKEN.encode() not in pickle.dumps(github)
        assert other.paths == []
    finally:
        other.close()
    assert TOKEN not in caplog.text


def test_a_next_page_at_another_host_is_not_asked_for(
    github: GitHub, repo: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    def lead_away(exchange: Exchange) -> None:
        exchange.headers["Link"] = '<http://127.0.0.2:9/more>; rel="next"'

    proxy.harm = lead_away
    with pytest.raises(SourceUnavailable, match="another host"):
        ledger.sync(github)


def test_answer_over_the_bound_is_given_up(
    github: GitHub, repo: Repo, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.github.api.client._LONGEST", 100)
    with pytest.raises(SourceUnavailable, match="an answer exceeds 100 bytes; "):
        github.probe()


def test_announced_length_over_the_bound_is_not_read(github: GitHub, repo: Repo, proxy: Proxy) -> None:
    def harm(exchange: Exchange) -> None:
        exchange.length = 6_000_000_000

    proxy.harm = harm
    with pytest.raises(SourceUnavailable, match="an answer exceeds 64000000 bytes; "):
        github.probe()


def test_answer_that_is_compressed_twice_is_not_read(github: GitHub, repo: Repo, proxy: Proxy) -> None:
    def harm(exchange: Exchange) -> None:
        body = gzip.compress(gzip.compress(b"0" * 10_000_000))
        exchange.say(200, body, Content_Type="application/json", Content_Encoding="gzip, gzip")

    proxy.harm = harm
    with pytest.raises(SourceUnavailable, match="no answer of its API"):
        github.probe()


def test_one_issue_over_the_bound_is_skipped(github: GitHub, repo: Repo, proxy: Proxy) -> None:
    def harm(exchange: Exchange) -> None:
        if exchange.path.endswith("/issues/1"):
            exchange.length = 6_000_000_000

    ledger = MemoryLedger()
    ledger.sync(github)
    github.close()  # It forgets what was listed.
    proxy.harm = harm
    with pytest.raises(Skipped, match=SkipReason.TOO_LARGE):
        github.fetch(ledger.present()["ada/weir#1"].item)


def test_errors_say_nothing_of_what_the_server_said(reading: Callable[..., GitHub], repo: Repo, proxy: Proxy) -> None:
    for code in (400, 401, 403, 404, 409, 410, 418, 422, 451, 500):
        proxy.harm = lambda exchange, code=code: exchange.say(code, {"message": "secret plans"})  # type: ignore[misc]
        with pytest.raises(CatchmentError) as caught:
            reading().probe()
        assert "secret plans" not in f"{caught.value} {caught.value.__context__}"
        assert "; " in str(caught.value)


@pytest.mark.parametrize(
    "told",
    [
        {"number": "x"},
        {"number": 7, "title": None, "updated_at": "never"},
        {"number": None},
        {"id": 1, "number": 2, "user": "ada", "labels": 5, "updated_at": "2026-01-01T00:00:00Z"},
    ],
)
def test_entries_that_make_no_sense_are_an_answer_that_is_none(
    told: dict[str, object], github: GitHub, repo: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    def spoil(exchange: Exchange) -> None:
        if "/issues?" in exchange.path:
            exchange.body = json.dumps([told]).encode()

    proxy.harm = spoil
    with pytest.raises(SourceUnavailable, match="no answer of its API"):
        ledger.sync(github)
