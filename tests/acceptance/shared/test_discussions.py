"""GitHub discussions end to end: the installed command, its server and worker, and a fake GitHub API."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing

import pytest

from catchment.runtime.home import Home
from catchment.runtime.watch_status import Watching, read
from tests.acceptance.person import COMMAND, Person
from tests.connectors.github.proxy import Proxy
from tests.connectors.github.server import TOKEN, GitHubServer, Repo, serving_hub
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def hub() -> Iterator[GitHubServer]:
    """A server with a private repository in which three people discuss a weir."""
    with serving_hub() as server:
        repo = server.repo("ada/weir", private=True)
        sluice = repo.open("The sluice sticks", "It has to be \x1b[31mmended\x1b[0m before the flood, see #2.")
        repo.comment(sluice, "Forty turns of the handle, and no more.")
        repo.open("Grease the handle", "With tallow.", by="grace", pull=True)
        repo.release("v1.0", "The weir stands.")
        yield server


@pytest.fixture(scope="module")
def proxy(hub: GitHubServer) -> Iterator[Proxy]:
    made = Proxy(hub.port)
    yield made
    made.close()


@pytest.fixture(scope="module")
def person(person: Person, proxy: Proxy) -> Iterator[Person]:
    """A user after a sync of the repository as `weir`."""
    said = person(*adding(proxy, "weir"), "--secret", "token=env:HUB_TOKEN", "--watch").ok()
    assert "of 5000 requests remaining this hour" in said.out
    assert person.sync("weir")["succeeded"] == 4
    yield person
    person("sources", "remove", "weir", "--yes").ok()


@pytest.fixture
def repo(hub: GitHubServer) -> Repo:
    return hub.repos["ada/weir"]


def adding(proxy: Proxy, name: str) -> list[str]:
    parts = "include=[issues, pulls, releases]"
    return ["add", "github", f"{proxy.address}/ada/weir", "--name", name, "--set", parts, "--consent"]


def items(person: Person, words: str) -> list[str]:
    """Return the items that contain these words."""
    return [hit["item"] for hit in person.hits(words, "weir")]


def test_issues_comments_and_releases_are_found(person: Person, repo: Repo) -> None:
    (sluice,) = person.hits("mended", "weir")
    assert (sluice["item"], sluice["title"]) == ("ada/weir#1", "The sluice sticks #1")
    assert items(person, "tallow") == ["ada/weir#2"]
    assert items(person, "turns") == [f"ada/weir#1/comment/{min(repo.comments)}"]
    assert items(person, "stands") == ["ada/weir#release/v1.0"]
    assert "in the library as document" in person("why", "ada/weir#1").ok().out
    assert "\x1b" not in person("show", str(sluice["document"])).ok().out


def test_sync_without_changes_sends_three_free_requests(person: Person, proxy: Proxy) -> None:
    proxy.forget()
    done = person.sync("weir")
    assert (done["listed"], done.get("requests", 0)) == (0, 0)
    # The health page can request the repository and the remaining rate limit at any time.
    asked = {path for path in proxy.paths if not path.endswith("/rate_limit")}
    assert (len(asked), proxy.free) == (3, 3)


def test_remaining_hourly_rate_limit_is_shown(person: Person, proxy: Proxy) -> None:
    (host,) = [one for one in person("throttle", "show", "--json").ok().json["hosts"] if one["allowed"] == 5_000]
    assert 4_400 < host["left"] <= 4_500, "a tenth is left to others"
    assert TOKEN not in json.dumps(host)


def test_webhook_delivery_ingests_a_comment(person: Person, repo: Repo) -> None:
    command = [str(COMMAND), "webhook", "serve", "--secret", "env:HOOK", "--port", "0"]
    hook = subprocess.Popen(command, env=person.environment, stdout=subprocess.PIPE, text=True)
    try:
        assert hook.stdout is not None
        (port,) = re.findall(r"127\.0\.0\.1:(\d+)/github", hook.stdout.readline())
        told = until(
            lambda: (read(Home(person.home)) or {}).get("weir"),
            lambda one: one is not None and not one.reason,
        )
        assert told is not None and told.state is Watching.WATCHING
        repo.comment(1, "A swarm hangs in the old pear tree.")
        body = json.dumps({"action": "created", "repository": {"full_name": "ada/weir"}}).encode()
        signature = hmac.new(person.variables["HOOK"].encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "X-Hub-Signature-256": f"sha256={signature}",
            "X-GitHub-Delivery": "1",
            "X-GitHub-Event": "issue_comment",
        }
        with closing(http.client.HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE)) as connection:
            connection.request("POST", "/github", body, headers)
            assert connection.getresponse().status == 202
        assert until(lambda: items(person, "pear"), bool)
    finally:
        hook.send_signal(signal.SIGINT)
        assert hook.wait(PATIENCE) == 0
        assert hook.stdout is not None
        hook.stdout.close()


def test_requested_pause_is_respected_and_the_sync_does_not_fail(person: Person, proxy: Proxy, repo: Repo) -> None:
    repo.open("Later", "Moss grows on it.")
    proxy.harm = lambda exchange: exchange.respond(403, {"message": "secondary rate limit"}, Retry_After="8")
    try:
        said = person("sync", "weir", "--wait")
    finally:
        proxy.harm = None
    # The sync that the webhook started may receive the wait request instead.
    assert said.code == 0 or "requested by the host" in said.err
    assert person.source("weir")["state"] == "active"
    assert "FAILED" not in person.states_of("weir")
    assert until(lambda: items(person, "moss"), bool), "it goes on by itself when the time has come"


def test_revoked_token_pauses_the_source_and_names_the_remedy(person: Person, hub: GitHubServer) -> None:
    hub.tokens.clear()
    assert person("sync", "weir", "--wait").code != 0
    assert person.source("weir")["state"] == "held"
    person("sync", "weir").refused(10, "token rejected", "catchment login github")
    hub.tokens[TOKEN] = "ada"
    person("sources", "resume", "weir").ok()
    assert person.sync("weir")["listed"] == 0


def test_inaccessible_repository_is_not_added(person: Person, proxy: Proxy) -> None:
    person(*adding(proxy, "no")).refused(10, "ada/weir: not found at", "provide a token")
    person(*adding(proxy, "no"), "--secret", "token=env:NO_SUCH").refused(3, "NO_SUCH: variable not set")


def test_health_and_ledger_are_sound_and_the_token_is_not_stored(person: Person) -> None:
    person("ledger", "check", "--deep").ok()
    for path, held in person.files():
        assert TOKEN.encode() not in held, path
        assert person.variables["HOOK"].encode() not in held, path
