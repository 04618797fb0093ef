"""Where an address leads: every check whether a place is on this machine agrees with the driver."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
import pytest
from pydantic import ValidationError

import sinks
from catchment.errors import BadInput, CatchmentError, Refused
from catchment.ledger.db.connections import parse
from catchment.runtime import addresses
from catchment.search.meaning.choice import checked
from connectors.github.settings import GitHubSettings
from connectors.imap.settings import ImapSettings
from deployments.actions.hosts import joining
from sinks.postgresql import PostgreSQL

HERE, ELSEWHERE, INVALID = "here", "elsewhere", "invalid"

DATABASES = {
    "postgresql://me@localhost/l": HERE,
    "postgresql:///l": HERE,
    "postgresql+psycopg://me@/l?host=/var/run/postgresql": HERE,
    "postgresql://%2Fvar%2Frun/l": HERE,
    "postgresql://me@127.0.0.1:5433/l": HERE,
    "postgresql://[::1]/l": HERE,
    "postgresql://db.localhost,127.0.0.1/l": ELSEWHERE,
    "postgresql://me@db.example/l?hostaddr=127.0.0.1": HERE,
    "postgresql://203.0.113.9/l": ELSEWHERE,
    "postgresql:///l?host=203.0.113.9": ELSEWHERE,
    "postgresql://me@localhost/l?hostaddr=203.0.113.9": ELSEWHERE,
    "postgresql://me@localhost/l?host%61ddr=203.0.113.9": ELSEWHERE,
    "postgresql://localhost,203.0.113.9/l": ELSEWHERE,
    "postgresql://localhost:5432,evil.example:5432/l": ELSEWHERE,
    "postgresql:///l?host=localhost,evil.example": ELSEWHERE,
    "postgresql:///l?host=localhost,localhost&hostaddr=,203.0.113.9": ELSEWHERE,
    "postgresql://127.evil.example/l": ELSEWHERE,
    "postgresql://localhost.evil.example/l": ELSEWHERE,
    "postgresql://evillocalhost/l": ELSEWHERE,
    "postgresql://127.1/l": ELSEWHERE,
    "postgresql://a@evil.example@localhost/l": ELSEWHERE,
    "postgresql://me@localhost/l?host=203.0.113.9": INVALID,
    "postgresql:///l?host=evil.example&host=localhost": INVALID,
    "postgresql:///l?host=evil.example&h%6fst=localhost": INVALID,
    "postgresql://me@localhost/l?service=elsewhere": INVALID,
    "postgresql:///?service=elsewhere": INVALID,
    "postgresql://localhost/l?dbname=other": INVALID,
    "postgresql://localhost/l?unknown=1": INVALID,
}
SERVERS = {
    "localhost": HERE,
    "LOCALHOST": HERE,
    "notes.localhost": ELSEWHERE,
    "localhost.": ELSEWHERE,
    "127.0.0.1": HERE,
    "127.9.9.9": HERE,
    "[::1]": HERE,
    "127.evil.example": ELSEWHERE,
    "127.attacker.net": ELSEWHERE,
    "127.1": ELSEWHERE,
    "2130706433": ELSEWHERE,
    "localhost.evil.example": ELSEWHERE,
    "evil.example": ELSEWHERE,
    "203.0.113.9": ELSEWHERE,
    "[2001:db8::1]": ELSEWHERE,
    "evil.example\\@localhost": INVALID,
    "localhost\\.evil.example": INVALID,
    "localhost@evil.example@localhost": INVALID,
    "local host": INVALID,
    "[localhost]": INVALID,
}


def answer(decide: Callable[[], bool]) -> str:
    """Return the decision of a user of addresses as a word; `decide` returns whether the place is here."""
    try:
        return HERE if decide() else ELSEWHERE
    except (BadInput, ValidationError):
        return INVALID
    except Refused:
        return ELSEWHERE


def joins(url: str) -> bool:
    joining._protected(url, None)
    return True


DATABASE_USERS: Mapping[str, Callable[[str], bool]] = {
    "the sink": lambda url: sinks.host_elsewhere("postgresql", url) is None,
    "catchment join": joins,
}


@pytest.mark.parametrize("user", DATABASE_USERS)
@pytest.mark.parametrize("url", DATABASES)
def test_users_of_a_database_know_where_it_is(url: str, user: str) -> None:
    assert answer(lambda: DATABASE_USERS[user](url)) == DATABASES[url]


@pytest.mark.parametrize("url", DATABASES)
def test_ledger_connects_where_the_address_was_judged_to_lead(url: str) -> None:
    def is_here() -> bool:
        parsed = parse(url)
        _, options = parsed.get_dialect()().create_connect_args(parsed)
        return not addresses.elsewhere({name: str(value) for name, value in options.items()})

    assert answer(is_here) == DATABASES[url]


def model(host: str) -> bool:
    checked(f"ollama:nomic@http://{host}:11434")
    return True


def server(host: str) -> bool:
    joining._state(joining.JoinRequest(f"http://{host}:4200", ""), "a:b")
    return True


def github(host: str) -> bool:
    GitHubSettings(address=f"http://{host}:3000", repositories=("a/b",))  # type: ignore[call-arg]
    return True


def mail(host: str) -> bool:
    ImapSettings(host=host.strip("[]"), user="me", security="none", password="env:P")  # type: ignore[call-arg]
    return True


def tokens(host: str) -> bool:
    more = {"refresh_token": "env:P", "client_id": "me", "token_url": f"http://{host}:80/token"}
    ImapSettings(host="mail.example", user="me", **more)  # type: ignore[arg-type]
    return True


SERVER_USERS: Mapping[str, Callable[[str], bool]] = {
    "a graph": lambda host: sinks.host_elsewhere("neo4j", f"bolt://{host}:7687/neo4j") is None,
    "Chroma": lambda host: sinks.host_elsewhere("chroma", f"http://{host}:8000/library") is None,
    "a model": model,
    "the shared server": server,
    "GitHub": github,
    "mail": mail,
    "tokens of mail": tokens,
}


# Mail takes a host, not a URL, so its addresses have no brackets.
@pytest.mark.parametrize(
    ("host", "user"),
    [(host, user) for host in SERVERS for user in SERVER_USERS if (host, user) != ("[localhost]", "mail")],
)
def test_users_of_a_server_know_whether_it_is_here(host: str, user: str) -> None:
    # The others refuse both: other machines, and texts that are not addresses.
    found = answer(lambda: SERVER_USERS[user](host))
    if user in ("a graph", "Chroma"):
        assert found == SERVERS[host]
    else:
        assert (found == HERE) == (SERVERS[host] == HERE)


def test_environment_of_libpq_does_not_choose_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PGHOST": "203.0.113.9", "PGHOSTADDR": "203.0.113.9", "PGPORT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PGSERVICE", "elsewhere")
    monkeypatch.setenv("PGSERVICEFILE", "/nonexistent")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)
        port = listener.getsockname()[1]
        with pytest.raises(CatchmentError):
            PostgreSQL(f"postgresql://me@127.0.0.1:{port}/l?connect_timeout=2")
        listener.accept()[0].close()


def test_address_without_a_host_is_the_socket_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PGHOST", str(tmp_path))
    monkeypatch.setenv("PGDATABASE", "other")
    with pytest.raises(psycopg.OperationalError) as failed:
        psycopg.connect(**addresses.pinned(addresses.postgresql("postgresql://nobody@:1/l")))
    assert str(tmp_path) not in str(failed.value) and "other" not in str(failed.value)


@pytest.mark.parametrize("scheme", ["neo4j", "neo4j+s", "neo4j+ssc"])
def test_server_cannot_name_the_host_that_receives_the_graph(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neo4j.GraphDatabase.driver", lambda *_args, **_options: pytest.fail("connected"))
    with pytest.raises(BadInput, match="write bolt://"), sinks.opened("neo4j", f"{scheme}://localhost:7687/neo4j"):
        pass


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("chroma", "http://user:secret@127.0.0.1:1/library"),
        ("chroma", "http://secret@127.0.0.1:1/library"),
        ("neo4j", "bolt://me:secret@127.0.0.1:1/neo4j"),
        ("postgresql", "postgresql://me:secret@127.0.0.1:1/l"),
        ("postgresql", "postgresql://me@127.0.0.1:1/l?password=secret"),
        ("postgresql", "postgresql://me@127.0.0.1:1/l?sslpassword=secret"),
        ("postgresql", "postgresql://me@127.0.0.1:1/l?scram_client_key=secret"),
    ],
)
def test_password_in_the_address_of_a_sink_is_refused(kind: str, place: str) -> None:
    with pytest.raises(BadInput, match="has a password") as refusal, sinks.opened(kind, place):
        pass
    assert "secret=" not in str(refusal.value) and ":secret" not in str(refusal.value)


def test_short_name_of_a_collection_is_explained() -> None:
    with pytest.raises(BadInput, match="use 3 to"), sinks.opened("chroma", "http://127.0.0.1:1/l"):
        pass
