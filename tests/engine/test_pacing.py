"""Politeness as arithmetic: buckets, budgets, breakers, the multiplier and blackout windows against simple models."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.errors import BadInput
from catchment.pacing import HostLimits, Pace, RateProfile, RateReport, read_headers
from catchment.pacing.adaptive import EVERY, HIGHEST, LOWEST, Adaptive
from catchment.pacing.breaker import FAILURES, REST, Breaker, Position
from catchment.pacing.bucket import HOUR, TOKEN, Bucket, Budget
from catchment.pacing.rules import Rule, strictest
from catchment.pacing.windows import blocked_until, parse

RATE, BURST = 10, 50
SECOND = TOKEN
Step = tuple[int, int]
steps = st.lists(st.tuples(st.integers(0, 3 * SECOND), st.integers(1, 20)), min_size=1, max_size=60)


@given(steps)
def test_a_bucket_never_grants_more_than_its_burst_and_what_time_brought(taken: list[Step]) -> None:
    bucket, now, granted = Bucket(BURST * TOKEN, 0), 0, 0
    for pause, cost in taken:
        now += pause
        bucket, grant = bucket.settled(now, RATE, BURST).take(cost, TOKEN, RATE, BURST)
        granted += grant.number
        assert granted * TOKEN <= BURST * TOKEN + RATE * now
        assert grant.number in (0, cost)


@given(steps)
def test_what_a_bucket_refuses_it_grants_at_the_moment_it_names(taken: list[Step]) -> None:
    bucket, now = Bucket(BURST * TOKEN, 0), 0
    for pause, cost in taken:
        now += pause
        bucket, grant = bucket.settled(now, RATE, BURST).take(cost, TOKEN, RATE, BURST)
        if not grant.number:
            assert grant.of_rate and grant.until is not None and now < grant.until <= now + cost * SECOND // RATE + 1
            later = bucket.settled(grant.until, RATE, BURST)
            assert later.take(cost, TOKEN, RATE, BURST)[1].number == cost


@given(steps)
def test_what_is_put_back_was_never_taken(taken: list[Step]) -> None:
    bucket = Bucket(BURST * TOKEN, 0, budget=Budget(5_000))
    for _, cost in taken:
        before = bucket
        bucket, grant = bucket.take(cost, TOKEN, RATE, BURST)
        bucket = bucket.put_back(grant.number, TOKEN, BURST, grant.until)
        assert bucket.tokens == before.tokens
        assert bucket.budget is not None and bucket.budget.used == 0


def test_a_time_that_goes_back_brings_nothing_and_locks_nothing() -> None:
    bucket = Bucket(0, HOUR).settled(0, RATE, BURST)
    assert (bucket.tokens, bucket.at) == (0, HOUR)
    assert bucket.settled(HOUR + SECOND, RATE, BURST).tokens == RATE * TOKEN


def test_what_costs_more_than_a_bucket_holds_is_granted_when_it_is_full_and_owed() -> None:
    bucket, grant = Bucket(BURST * TOKEN, 0).take(60, TOKEN, RATE, BURST)
    assert (grant.number, bucket.tokens) == (60, -10 * TOKEN)
    assert bucket.settled(SECOND, RATE, BURST).tokens == 0


def test_nothing_is_granted_before_the_moment_that_the_host_named() -> None:
    bucket = Bucket(BURST * TOKEN, 0).reported(RateReport(retry_after=90))
    assert bucket.take(1, TOKEN, RATE, BURST)[1].until == 90 * SECOND
    assert bucket.reported(RateReport(retry_after=5)).not_before == 90 * SECOND
    assert bucket.settled(90 * SECOND, RATE, BURST).take(1, TOKEN, RATE, BURST)[1].number == 1


@given(st.lists(st.tuples(st.integers(0, 10 * 60 * SECOND), st.integers(1, 60)), max_size=80))
def test_no_hour_sees_more_than_nine_tenths_of_what_the_host_allows(asked: list[tuple[int, int]]) -> None:
    """The host's model: windows of an hour, each beginning with its first request."""
    bucket, now, ends, made = Bucket(2_500 * TOKEN, 0, budget=Budget(100)), 0, -1, 0
    for pause, cost in asked:
        now += pause
        bucket, grant = bucket.settled(now, 500, 2_500).take(cost, TOKEN, 500, 2_500)
        if grant.number:
            ends, made = (now + HOUR, 0) if now >= ends else (ends, made)
            made += grant.number
        assert made <= 90
        if not grant.number:
            assert made + cost > 90 and grant.until == ends


def test_a_budget_believes_the_host_where_it_says_less_is_left() -> None:
    budget = Budget(5_000).spend(100, 0)
    assert budget.reported(5_000, 4_950, HOUR).used == 100
    assert budget.reported(5_000, 1_000, HOUR).used == 4_000
    assert budget.reported(60, 59, HOUR).left == 0


def test_an_answer_from_the_window_before_does_not_touch_the_new_one() -> None:
    new = Budget(5_000).reported(5_000, 4_990, 2 * HOUR)
    assert new.reported(5_000, 3, HOUR) == new
    assert new.reported(5_000, 4_000, 3 * HOUR).used == 1_000
    assert new.at(2 * HOUR).left == 4_500


def test_what_is_given_back_after_its_window_is_not_counted_in_the_next() -> None:
    budget = Budget(100).spend(10, 0)
    later = budget.at(HOUR).spend(5, HOUR)
    assert later.spare(10, budget.until).used == 5


def _alive(_: str) -> bool:
    return True


class OneByOne:
    """What a breaker should do, told as plainly as can be."""

    def __init__(self) -> None:
        self.failures, self.opened, self.locked = 0, -1, False

    def position(self, now: int) -> Position:
        if self.opened < 0:
            return Position.CLOSED
        return Position.OPEN if self.locked or now - self.opened < REST else Position.HALF_OPEN

    def failed(self, now: int, login: bool) -> None:
        position = self.position(now)
        self.failures += 1
        self.locked = self.locked or login
        if login or position is Position.HALF_OPEN or (position is Position.CLOSED and self.failures >= FAILURES):
            self.opened = now

    def succeeded(self, now: int) -> None:
        if self.position(now) is not Position.OPEN:
            self.__init__()  # type: ignore[misc]


@given(st.lists(st.tuples(st.sampled_from(["fail", "fail", "fail", "login", "ok"]), st.integers(0, REST)), max_size=60))
def test_a_breaker_does_what_its_model_does(happened: list[tuple[str, int]]) -> None:
    breaker, model, now = Breaker(), OneByOne(), 0
    for what, pause in happened:
        now += pause
        passes = breaker.ask(now, "me", _alive)[1] is None
        assert passes == (model.position(now) is not Position.OPEN)
        if what == "ok":
            breaker = breaker.succeeded(now)
            model.succeeded(now)
        else:
            breaker = breaker.failed(now, login=what == "login")
            model.failed(now, what == "login")
        assert breaker.position(now) is model.position(now)


def test_one_alone_tries_a_breaker_that_is_half_open_and_its_death_lets_the_next() -> None:
    breaker = Breaker(FAILURES, 0)
    breaker, wait = breaker.ask(REST, "first", _alive)
    assert wait is None and breaker.prober == "first"
    assert breaker.ask(REST, "second", _alive) == (breaker, REST + REST)
    assert breaker.ask(REST, "first", _alive)[1] is None
    breaker, wait = breaker.ask(REST, "second", lambda who: who != "first")
    assert wait is None and breaker.prober == "second"


def test_a_refused_login_opens_a_breaker_for_good() -> None:
    breaker = Breaker().failed(0, login=True)
    assert breaker.ask(100 * HOUR, "me", _alive)[1] is not None
    assert breaker.succeeded(100 * HOUR) == breaker


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 1), st.floats(0, 1.5)), max_size=40))
def test_the_multiplier_stays_in_its_bounds_and_moves_every_five_seconds(
    windows: list[tuple[int, int, int, float]],
) -> None:
    mood, now = Adaptive(), 0
    for answers, slow, throttled, fill in windows:
        assert mood.noted(1, 1, 1).judged(now + EVERY - 1, 1.0).multiplier == mood.multiplier
        now += EVERY
        before, mood = mood.multiplier, mood.noted(answers, slow, throttled).judged(now, fill)
        assert LOWEST <= mood.multiplier <= HIGHEST
        if throttled or slow * 2 > answers or fill > 0.8:
            assert mood.multiplier == max(LOWEST, before * 0.5)
        elif answers and fill < 0.3:
            assert mood.multiplier == min(HIGHEST, before * 1.2)
        else:
            assert mood.multiplier == before


def test_trouble_makes_intake_dearer_and_draining_never() -> None:
    troubled, calm = Adaptive(multiplier=0.5), Adaptive(multiplier=2.0)
    assert (troubled.price(intake=True), troubled.price(intake=False)) == (2 * TOKEN, TOKEN)
    assert (calm.price(intake=True), calm.rate(10), troubled.rate(10)) == (TOKEN, 20, 10)


NIGHT = "22:00-06:00"


@pytest.mark.parametrize(
    ("window", "now", "until"),
    [
        ("09:00-17:30 UTC", "2026-11-20T09:00", "2026-11-20T17:30"),
        ("09:00-17:30 UTC", "2026-11-20T17:30", None),
        ("22:00-06:00 UTC", "2026-11-20T23:15:30", "2026-11-21T06:00"),
        ("22:00-06:00 UTC", "2026-11-20T03:00", "2026-11-20T06:00"),
        ("22:00-06:00 fri UTC", "2026-11-21T03:00", "2026-11-21T06:00"),
        ("22:00-06:00 fri UTC", "2026-11-20T03:00", None),
        ("08:00-24:00 sat-mon UTC", "2026-11-22T10:00", "2026-11-23T00:00"),
        # Clocks go forward at 01:00 UTC: 02:30 does not exist, and the night is an hour shorter.
        ("22:00-06:00 Europe/Berlin", "2026-03-28T21:00", "2026-03-29T04:00"),
        ("01:00-02:30 Europe/Berlin", "2026-03-29T00:30", "2026-03-29T01:00"),
        # Clocks go back at 01:00 UTC: the hour from 02:00 comes twice, and both are meant.
        ("22:00-06:00 Europe/Berlin", "2026-10-24T20:00", "2026-10-25T05:00"),
        ("02:00-02:30 Europe/Berlin", "2026-10-25T00:10", "2026-10-25T00:30"),
        ("02:00-02:30 Europe/Berlin", "2026-10-25T01:10", "2026-10-25T01:30"),
    ],
)
def test_a_blackout_window_ends_when_the_clock_on_the_wall_says(window: str, now: str, until: str | None) -> None:
    found = blocked_until([parse(window)], datetime.fromisoformat(now).replace(tzinfo=UTC))
    assert found == (until and datetime.fromisoformat(until).replace(tzinfo=UTC))


def test_windows_that_follow_one_another_are_one() -> None:
    windows = [parse("22:00-06:00 UTC"), parse("06:00-08:00 UTC")]
    assert blocked_until(windows, datetime(2026, 11, 20, 23, tzinfo=UTC)) == datetime(2026, 11, 21, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "22-06", "25:00-06:00", "22:00-06:00 someday", "22:00-06:00 Mars/Base", f"{NIGHT} mon UTC x"]
)
def test_a_window_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse(text)


def test_of_several_rules_the_strictest_counts() -> None:
    rule = strictest(
        [Rule(profile=RateProfile.AGGRESSIVE, at_once=2), Rule(profile=RateProfile.CONSERVATIVE), Rule(at_once=1)]
    )
    assert rule == Rule(profile=RateProfile.CONSERVATIVE, at_once=1)
    assert rule.on(HostLimits("h", profile=RateProfile.MAXIMUM, at_once=3)) == HostLimits("h", at_once=1)
    assert rule.on(HostLimits("h", at_once=1)).profile is RateProfile.CONSERVATIVE
    full = Rule(True, RateProfile.MODERATE, 1, 2, 3, (NIGHT,))
    assert Rule.of_json(full.as_json()) == full


def test_headers_are_counted_from_the_hosts_own_clock() -> None:
    date = "Fri, 20 Nov 2026 12:00:00 GMT"
    reset = int(datetime(2026, 11, 20, 12, 30, tzinfo=UTC).timestamp())
    headers = {
        "Date": date,
        "X-RateLimit-Limit": "5000",
        "x-ratelimit-remaining": "12",
        "X-RateLimit-Reset": str(reset),
    }
    assert read_headers(headers, now=datetime(2020, 1, 1, tzinfo=UTC)) == RateReport(None, 5_000, 12, 1_800.0)
    assert read_headers({"Retry-After": "120"}) == RateReport(retry_after=120.0)
    assert read_headers({"Date": date, "Retry-After": "Fri, 20 Nov 2026 12:01:00 GMT"}) == RateReport(retry_after=60.0)
    assert read_headers({"Retry-After": "soon", "X-RateLimit-Limit": "-1"}) == RateReport()


def test_sources_of_one_login_share_a_key_that_does_not_tell_it() -> None:
    first, second = HostLimits("imap.example.org", "ada"), HostLimits("imap.example.org", "bob")
    assert first.key == HostLimits("imap.example.org", "ada", at_once=1).key != second.key
    assert "ada" not in first.key
    assert HostLimits("example.org").key == "example.org"


def test_a_copy_of_a_pace_is_free() -> None:
    copy = pickle.loads(pickle.dumps(Pace()))
    with copy.intake(), copy.transfer(3) as transfer:
        assert transfer.cost == 3
