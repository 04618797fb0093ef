"""`catchment queue enqueue` and `import`, and the hosts of web sources, without a running system."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from catchment.errors import SkipReason
from catchment.ledger import Ledger
from catchment.model import HOST, Item, Skip
from catchment.pacing import HostLimits
from catchment.runtime.home import Home
from catchment.runtime.process import alive, identity
from connectors.web.marks import READ
from connectors.web.seeds import MOST_ADDRESSES
from connectors.web.settings import WebSettings
from console import session
from deployments.actions import inbox
from deployments.actions.desk import Timing
from tests.console.conftest import Cli
from web.__main__ import desk_of

PAGE = "https://example.org/article"
_FORMER = '[1,"2026-03-01T09:00:00+00:00","2026-03-01T09:15:00+00:00"]'
"""The record that earlier versions kept about a host that does not answer."""


def hosts(cli: Cli, name: str = "inbox") -> list[str]:
    """Return the hosts with consent."""
    rows = cli("consent", "list", "--json").json
    return [row["scope"] for row in rows if (row["source"], row["state"]) == (name, "given")]


def test_first_address_creates_the_inbox_with_consent_to_its_host(cli: Cli, state: Path) -> None:
    refused = cli("queue", "enqueue", PAGE)
    assert (refused.code, refused.out) == (5, "")
    assert "inbox: no consent to read example.org; pass --consent" in refused.err
    assert not (state / "sources.yaml").exists()

    added = cli("queue", "enqueue", PAGE, "--consent")
    assert (added.code, added.out.splitlines()[0]) == (0, "inbox: 1 added, 0 known")
    assert hosts(cli) == ["example.org"]
    source = cli("sources", "list", "--json").json[0]["standing"]
    assert (source["name"], source["kind"]) == ("inbox", "web")
    assert (state / "inbox.txt").stat().st_mode & 0o777 == 0o600


def test_addresses_are_counted_by_what_became_of_them(cli: Cli, state: Path) -> None:
    again = f"{PAGE}?utm_source=mail#top"
    said = cli(
        "queue", "enqueue", PAGE, again, "https://www.example.org/b", "example.org/c", "javascript:1", "--consent"
    )
    assert said.out.splitlines()[0] == "inbox: 2 added, 0 known, 2 refused: not an address"
    assert cli("queue", "enqueue", again, "https://example.org/d").out.splitlines()[0] == "inbox: 1 added, 1 known"
    assert (state / "inbox.txt").read_text().count("\n") == 3
    assert cli("queue", "enqueue", "ftp://example.org/").code == 2


def test_addresses_of_other_hosts_are_listed_and_not_allowed(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "list.jsonl"
    file.write_text("".join(json.dumps({"url": f"https://h{number}.example/p"}) + "\n" for number in range(30)))
    refused = cli("queue", "import", str(file))
    assert (refused.code, "h9.example and 20 more" in refused.err) == (5, True)
    said = cli("queue", "import", str(file), "--allow-host", "h3.example", "--allow-host", "nas.local:8080")
    assert said.out.splitlines()[:2] == [
        "inbox: 30 added, 0 known",
        "Not read without consent to their hosts: 29; see `catchment consent show inbox`",
    ]
    assert hosts(cli) == ["h3.example", "nas.local:8080"]
    assert cli("consent", "give", "inbox", "--allow-host", "h4.example").code == 0
    assert hosts(cli) == ["h3.example", "h4.example", "nas.local:8080"]


def test_a_withdrawn_host_is_not_given_again_with_another(cli: Cli) -> None:
    cli("queue", "enqueue", PAGE, "https://other.example/", "--consent")
    assert cli("consent", "revoke", "inbox", "--scope", "other.example", "--yes").code == 0
    assert cli("queue", "enqueue", "https://third.example/", "--consent").code == 0
    assert "other.example" not in hosts(cli)


def test_addresses_of_a_withdrawn_host_are_removed_unless_no_other_is_left(cli: Cli) -> None:
    cli("queue", "enqueue", PAGE, "--consent")
    desk = session.desk()

    def addresses() -> tuple[str, ...]:
        settings = desk.entries()["inbox"].settings
        assert isinstance(settings, WebSettings)
        return settings.addresses

    kept = [*addresses(), "https://b.example/feed"]
    both = {"addresses": [*kept, "https://www.a.example/1", "https://a.example/2"], "hosts": ["a.example"]}
    with desk.changing(desk.revised(desk.entries()["inbox"], both, Timing())):
        assert cli("consent", "give", "inbox").code == 0
    assert cli("consent", "revoke", "inbox", "--scope", "a.example", "--yes").code == 0
    assert (addresses(), "a.example" in hosts(cli)) == (tuple(kept), False)
    with desk.changing(desk.revised(desk.entries()["inbox"], {"addresses": kept[1:]}, Timing())):
        assert cli("consent", "give", "inbox").code == 0
    assert cli("consent", "revoke", "inbox", "--scope", "b.example", "--yes").code == 0
    assert addresses() == tuple(kept[1:])
    assert "inbox (b.example): consent withdrawn" in cli("sync", "inbox").err


def test_hosts_without_consent_are_listed_with_their_addresses(cli: Cli, state: Path) -> None:
    cli("queue", "enqueue", PAGE, "--consent")
    places = ["https://a.example/1", "https://a.example/2", "https://b.example/1", f"{PAGE}/forbidden"]
    with closing(Ledger.open(Home(state).database_url)) as ledger:
        sync = ledger.syncs.begin(
            ledger.sources.get("inbox").id, run=None, owner=identity(), code_version="1", alive=alive
        )
        skips = [Skip(Item(place, "", "v1"), SkipReason.EXCLUDED) for place in places]
        for _ in range(5):
            ledger.pacing.failed(HostLimits("d.example"), None, login=False)
        silent = "2026-03-02T09:00:00+00:00 cannot connect"
        ledger.intake.record(sync.id, skips, {"host:c.example": silent, "host:d.example": _FORMER})
        ledger.syncs.end(sync.id, "completed", {"away": 2})
    shown = cli("consent", "show", "inbox").out.splitlines()
    start = next(number for number, line in enumerate(shown) if line.split() == ["HOST", "ADDRESSES"])
    assert [line.split() for line in shown[start + 1 : start + 3]] == [["a.example", "2"], ["b.example", "1"]]
    assert shown[start + 3] == "To read them: catchment consent give inbox --allow-host a.example"
    source = cli("sources", "show", "inbox").out
    assert "Not read without consent: 2 hosts (3 addresses); see `catchment consent show inbox`" in source
    c_example, d_example = (line for line in source.splitlines() if line.startswith("Does not answer: "))
    assert re.fullmatch(
        r".* c\.example since 2026-03-02 \d\d:\d\d \(cannot connect\); asked again by the next sync", c_example
    )
    assert re.search(r" d\.example since .*; asked again at .*\d\d:\d\d$", d_example)
    assert "2 of its hosts did not answer" in source
    problem = "inbox: no answer for days from 2 hosts, such as c.example (cannot connect); "
    assert f"{problem}correct or remove the addresses there: catchment sources show inbox\n" in cli("status").out
    cli("consent", "give", "inbox", "--allow-host", "a.example", "--allow-host", "b.example")
    assert "HOST" not in cli("consent", "show", "inbox").out


def test_removed_inbox_takes_its_list_along(cli: Cli, state: Path) -> None:
    cli("queue", "enqueue", PAGE, "--consent")
    assert cli("sources", "remove", "inbox", "--yes").code == 0
    assert not (state / "inbox.txt").exists()


def test_another_source_of_this_name_is_left_alone(cli: Cli, vault: Path) -> None:
    cli("add", "local_files", str(vault), "--name", "inbox")
    said = cli("queue", "enqueue", PAGE, "--consent")
    assert (said.code, "another source has this name" in said.err) == (5, True)


def test_concurrent_calls_lose_no_address(cli: Cli, state: Path) -> None:
    cli("queue", "enqueue", PAGE, "--consent")
    desk = desk_of(Home(state))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: inbox.enqueue(desk, [f"{PAGE}/{number}"], "test"), range(16)))
    assert sorted((state / "inbox.txt").read_text().splitlines()) == sorted([PAGE, *(f"{PAGE}/{n}" for n in range(16))])


def test_hosts_of_a_file_are_proposed_and_more_can_be_allowed(cli: Cli, tmp_path: Path) -> None:
    opml = tmp_path / "feeds.opml"
    feeds = "".join(f'<outline xmlUrl="https://h{number}.example/feed"/>' for number in range(3))
    opml.write_text(f'<opml version="2.0"><body>{feeds}</body></opml>')
    words = ("add", "web", str(opml), "--name", "feeds", "--allow-host", "cdn.example")
    refused = cli(*words)
    assert (refused.code, "cdn.example, h0.example, h1.example, h2.example" in refused.err) == (5, True)
    wrong = cli("add", "local_files", str(tmp_path), "--name", "files", "--allow-host", "cdn.example")
    assert (wrong.code, "hosts: unknown setting" in wrong.err) == (2, True)


@pytest.mark.parametrize("host", ["https://example.org", "a b", "user@example.org"])
def test_what_is_no_host_is_refused(cli: Cli, host: str) -> None:
    cli("queue", "enqueue", PAGE, "--consent")
    before = hosts(cli)
    assert cli("consent", "give", "inbox", "--allow-host", host).code == 2
    assert hosts(cli) == before


def test_inbox_holds_no_more_addresses_than_are_read() -> None:
    assert inbox.MOST <= MOST_ADDRESSES


def test_lines_of_a_file_that_name_no_address_are_counted(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text(f"foo\n- [x]({PAGE})\nhttps://ada:secret@example.org/\n")
    said = cli("queue", "import", str(file), "--consent")
    assert said.out.splitlines()[0] == "inbox: 1 added, 0 known"
    assert "list.txt: 2 lines name no address: first line 1" in said.err and "secret" not in said.err


def test_why_tells_of_a_feed_that_is_read_or_waits(cli: Cli, state: Path) -> None:
    cli("queue", "enqueue", PAGE, "--consent")
    assert cli("why", "https://example.org/feed").code == 4
    with closing(Ledger.open(Home(state).database_url)) as ledger:
        source = ledger.sources.get("inbox").id
        sync = ledger.syncs.begin(source, run="run-1", owner=identity(), code_version="0.1.0", alive=alive)
        ledger.intake.record(sync.id, [], {f"{READ}https://example.org/feed": "feed 12"})
        assert "inbox: feed, read" in cli("why", "HTTPS://example.org/feed#top").out
        assert cli("why", "https://example.org/other").code == 4
        ledger.intake.record(sync.id, [], {f"{HOST}example.org": ledger.now().isoformat()})
    assert "inbox: not read yet; its host does not answer since 2" in cli("why", "https://example.org/other").out
    assert cli("why", "https://elsewhere.example/feed").code == 4
