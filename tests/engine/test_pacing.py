"""Rate limiting arithmetic: buckets, budgets, breakers, the multiplier and blackout windows against simple models."""

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
from catchment.pacing.operator_rules import Rule, strictest
from catchment.pacing.windows import blocked_until, parse

RATE, BURST = 10, 50
SECOND = TOKEN
Step = tuple[int, int]
steps = st.lists(st.tuples(st.integers(0, 3 * SECOND), st.integers(1, 20)), min_size=1, max_size=60)


@given(steps)
def test_bucket_grants_at_most_its_burst_and_refill(taken: list[Step]) -> None:
    bucket, now, granted = Bucket(BURST * TOKEN, 0), 0, 0
    for pause, cost in taken:
        now += pause
        bucket, grant = bucket.settled(now, RATE, BURST).take(cost, TOKEN, RATE, BURST)
        granted += grant.number
        assert granted * TOKEN <= BURST * TOKEN + RATE * now
        assert grant.number in (0, cost)


@given(steps)
def test_bucket_grants_a_refused_request_at_the_named_time(taken: list[Step]) -> None:
    bucket, now = Bucket(BURST * TOKEN, 0), 0
    for pause, cost in taken:
        now += pause
        bucket, grant = bucket.settled(now, RATE, BURST).take(cost, TOKEN, RATE, BURST)
        if not grant.number:
            assert grant.of_rate and grant.until is not None and now < grant.until <= now + cost * SECOND // RATE + 1
            later = bucket.settled(grant.until, RATE, BURST)
            assert later.take(cost, TOKEN, RATE, BURST)[1].number == cost


@given(steps)
def test_returned_tokens_restore_the_bucket(taken: list[Step]) -> None:
    bucket = Bucket(BURST * TOKEN, 0, budget=Budget(5_000))
    for _, cost in taken:
        before = bucket
        bucket, grant = bucket.take(cost, TOKEN, RATE, BURST)
        bucket = bucket.put_back(grant.number, TOKEN, BURST, grant.until)
        assert bucket.tokens == before.tokens
        assert bucket.budget is not None and bucket.budget.used == 0


def test_clock_set_back_neither_refills_nor_blocks_a_bucket() -> None:
    bucket = Bucket(0, HOUR).settled(0, RATE, BURST)
    assert (bucket.tokens, bucket.at) == (0, HOUR)
    assert bucket.settled(HOUR + SECOND, RATE, BURST).tokens == RATE * TOKEN


def test_cost_above_the_capacity_is_granted_by_a_full_bucket_as_debt() -> None:
    bucket, grant = Bucket(BURST * TOKEN, 0).take(60, TOKEN, RATE, BURST)
    assert (grant.number, bucket.tokens) == (60, -10 * TOKEN)
    assert bucket.settled(SECOND, RATE, BURST).tokens == 0


def test_no_grant_before_the_retry_time_of_the_host() -> None:
    bucket = Bucket(BURST * TOKEN, 0).reported(RateReport(retry_after=90))
    assert bucket.take(1, TOKEN, RATE, BURST)[1].until == 90 * SECOND
    assert bucket.reported(RateReport(retry_after=5)).not_before == 90 * SECOND
    assert bucket.settled(90 * SECOND, RATE, BURST).take(1, TOKEN, RATE, BURST)[1].number == 1


@given(st.lists(st.tuples(st.integers(0, 10 * 60 * SECOND), st.integers(1, 60)), max_size=80))
def test_hourly_use_stays_below_nine_tenths_of_the_host_limit(asked: list[tuple[int, int]]) -> None:
    """The host's model: windows of one hour, each starting with its first request."""
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


def test_budget_adopts_a_lower_remainder_reported_by_the_host() -> None:
    budget = Budget(5_000).spend(100, 0)
    assert budget.reported(5_000, 4_950, HOUR).used == 100
    assert budget.reported(5_000, 1_000, HOUR).used == 4_000
    assert budget.reported(60, 59, HOUR).left == 0


def test_response_from_an_earlier_window_is_ignored() -> None:
    new = Budget(5_000).reported(5_000, 4_990, 2 * HOUR)
    assert new.reported(5_000, 3, HOUR) == new
    assert new.reported(5_000, 4_000, 3 * HOUR).used == 1_000
    assert new.at(2 * HOUR).left == 4_500


def test_refund_after_its_window_does_not_count_in_the_next() -> None:
    budget = Budget(100).spend(10, 0)
    later = budget.at(HOUR).spend(5, HOUR)
    assert later.spare(10, budget.until).used == 5


def _alive(_: str) -> bool:
    return True


class OneByOne:
    """A simple model of a breaker."""

    def __init__(self) -> None:
        self.failures, self.opened, self.locked = 0, -1, False

    def position(self, now: int) -> Position:
        if self.opened < 0:
            return Position.CLOSED
        rest = min(REST * 2 ** max(0, self.failures - FAILURES), 24 * HOUR)
        return Position.OPEN if self.locked or now - self.opened < rest else Position.HALF_OPEN

    def failed(self, now: int, login: bool) -> None:
        position = self.position(now)
        if position is Position.OPEN and not login:
            return
        self.failures += 1
        self.locked = self.locked or login
        if login or position is Position.HALF_OPEN or (position is Position.CLOSED and self.failures >= FAILURES):
            self.opened = now

    def succeeded(self, now: int) -> None:
        if self.position(now) is not Position.OPEN:
            self.__init__()  # type: ignore[misc]


@given(
    st.lists(st.tuples(st.sampled_from(["fail", "fail", "fail", "login", "ok"]), st.integers(0, 3 * REST)), max_size=60)
)
def test_breaker_matches_its_model(happened: list[tuple[str, int]]) -> None:
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


def test_half_open_breaker_admits_one_trial_and_replaces_a_dead_one() -> None:
    breaker = Breaker(FAILURES, 0)
    breaker, wait = breaker.ask(REST, "first", _alive)
    assert wait is None and breaker.prober == "first"
    assert breaker.ask(REST, "second", _alive) == (breaker, REST + REST)
    assert breaker.ask(REST, "first", _alive)[1] is None
    breaker, wait = breaker.ask(REST, "second", lambda who: who != "first")
    assert wait is None and breaker.prober == "second"


def test_rest_of_a_breaker_doubles_up_to_a_day() -> None:
    breaker, now, rests = Breaker(), 0, []
    for _ in range(FAILURES + 13):
        breaker = breaker.failed(now)
        if breaker.until is not None:
            rests.append((breaker.until - now) // REST)
            assert breaker.failed(now) == breaker
            now = breaker.until
    assert rests == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1440, 1440, 1440]
    assert breaker.succeeded(now) == Breaker()


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


def test_failures_raise_the_cost_of_intake_but_not_of_draining() -> None:
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
        ("22:00-06:00 sun UTC", "2026-11-23T03:00", "2026-11-23T06:00"),
        ("08:00-24:00 sat-mon UTC", "2026-11-22T10:00", "2026-11-23T00:00"),
        # Clocks are set forward at 01:00 UTC: 02:30 does not exist, and the night is an hour shorter.
        ("22:00-06:00 Europe/Berlin", "2026-03-28T21:00", "2026-03-29T04:00"),
        ("01:00-02:30 Europe/Berlin", "2026-03-29T00:30", "2026-03-29T01:00"),
        # Clocks are set back at 01:00 UTC: the hour from 02:00 occurs twice, and the window covers both.
        ("22:00-06:00 Europe/Berlin", "2026-10-24T20:00", "2026-10-25T05:00"),
        ("02:00-02:30 Europe/Berlin", "2026-10-25T00:10", "2026-10-25T00:30"),
        ("02:00-02:30 Europe/Berlin", "2026-10-25T01:10", "2026-10-25T01:30"),
    ],
)
def test_blackout_window_ends_at_its_local_time(window: str, now: str, until: str | None) -> None:
    found = blocked_until([parse(window)], datetime.fromisoformat(now).replace(tzinfo=UTC))
    assert found == (until and datetime.fromisoformat(until).replace(tzinfo=UTC))


def test_adjacent_windows_are_merged() -> None:
    windows = [parse("22:00-06:00 UTC"), parse("06:00-08:00 UTC")]
    assert blocked_until(windows, datetime(2026, 11, 20, 23, tzinfo=UTC)) == datetime(2026, 11, 21, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "22-06", "25:00-06:00", "22:00-06:00 someday", "22:00-06:00 Mars/Base", f"{NIGHT} mon UTC x"]
)
def test_malformed_window_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse(text)


def test_strictest_rule_applies() -> None:
    rule = strictest(
        [Rule(profile=RateProfile.AGGRESSIVE, at_once=2), Rule(profile=RateProfile.CONSERVATIVE), Rule(at_once=1)]
    )
    assert rule == Rule(profile=RateProfile.CONSERVATIVE, at_once=1)
    assert rule.on(HostLimits("h", profile=RateProfile.MAXIMUM, at_once=3)) == HostLimits("h", at_once=1)
    assert rule.on(HostLimits("h", at_once=1)).profile is RateProfile.CONSERVATIVE
    rare, often = HostLimits("h", every=2.0), HostLimits("h", every=0.01)
    assert (rule.on(rare).rate, rule.on(often).rate, Rule().on(often).rate) == (0.5, 10, 100)
    full = Rule(
        paused=True,
        why="a slow line",
        profile=RateProfile.MODERATE,
        at_once=1,
        per_hour=2,
        active=3,
        blackouts=(NIGHT,),
    )
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


def test_sources_with_one_login_share_a_key_that_hides_it() -> None:
    first, second = HostLimits("imap.example.org", "ada"), HostLimits("imap.example.org", "bob")
    assert first.key == HostLimits("imap.example.org", "ada", at_once=1).key != second.key
    assert "ada" not in first.key
    assert HostLimits("example.org").key == "example.org"


def test_copied_pace_is_independent() -> None:
    copy = pickle.loads(pickle.dumps(Pace()))
    with copy.intake(), copy.transfer(3) as transfer:
        assert transfer.cost == 3
