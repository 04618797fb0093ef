"""Ten questions to an assistant over a vault, a mailbox and a repository, answered by the tools alone: no model takes part.

`questions.yaml` has the calls and the texts of the last answer. A client of the SDK calls `catchment mcp` over stdio.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import pytest
import yaml
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult, TextContent

from tests.acceptance.person import COMMAND, PROJECT, Person, upright
from tests.connectors.github.proxy import Proxy
from tests.connectors.github.server import TOKEN, GitHubServer, serving_hub
from tests.connectors.imap.dovecot import PASSWORD, USER, Dovecot, serving
from tests.waiting import until

pytestmark = pytest.mark.acceptance

QUESTIONS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "questions.yaml").read_text(encoding="utf-8"))
LONG_AGO = time.time() - 60 * 86_400
ME = "Hanne Lindqvold <hanne@example.org>"
PLUMBER = "Installationen Brühl <office@plumber.example.org>"
MAIL: tuple[tuple[str, str, str, str, int, Mapping[str, str]], ...] = (
    ("Sent", ME, "Quote for the new pump", "Could you offer a new pump?", 10, {"Message-ID": "<ask@example.org>"}),
    ("INBOX", PLUMBER, "Re: Quote for the new pump", "The new pump costs 2340 in all.", 0, {"References": "<ask@example.org>"}),
    ("INBOX", "Dimitra <d@example.org>", "Salt for the dilution", "How much?", 20, {"Message-ID": "<salt@example.org>"}),
    ("Sent", ME, "Re: Salt for the dilution", "Twelve kilograms.", 19, {"References": "<salt@example.org>"}),
    ("INBOX", "News <news@example.org>", "Beekeepers' news", "Swarms came early.", 12, {"List-Id": "<news.example.org>"}),
    ("INBOX", "Zoé <zoe@example.org>", "Swarm in the pear tree", "Will you fetch it?", 15, {"X-Flag": "\\Answered"}),
    ("Sent", ME, "Key to the hut", "Who has the key?", 14, {}),
    ("INBOX", "Famke <famke@example.org>", "Lending the current meter", "May I have it in May?", 0, {}),
)  # fmt: skip
"""Folder, sender, subject, text, age in days, and further headers."""


@pytest.fixture(scope="module")
def hub() -> Iterator[GitHubServer]:
    """A repository with two open issues, a closed one, and an open pull request."""
    with serving_hub() as server:
        repo = server.repo("ada/weir")
        repo.open("The sluice sticks", "It has to be mended before the flood.")
        repo.open("The staff gauge is bent", "Since the ice.")
        repo.edit(2, state="closed")
        repo.open("The logger loses an hour in March", "Every year.", by="grace")
        repo.open("Grease the handle", "With tallow.", pull=True)
        yield server


@pytest.fixture(scope="module")
def dovecot() -> Iterator[Dovecot]:
    """A mailbox with a folder for sent messages."""
    for server in serving():
        with server.person() as client:
            client.create_folder("Sent")
            for number, (folder, *_, headers) in enumerate(MAIL):
                client.append(folder, _message(number), [headers["X-Flag"]] if "X-Flag" in headers else [])
        yield server


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory, dovecot: Dovecot, hub: GitHubServer) -> Iterator[Person]:
    """A user with five synced sources: assistants may use all but the diary. Eleven of twelve letters vanished."""
    folder = tmp_path_factory.mktemp("questions")
    shutil.copytree(PROJECT / "examples" / "vault", folder / "Vault")
    for name, texts in {"Diary": ["Loan"], "Letters": [f"letter {n}" for n in range(12)]}.items():
        (folder / name).mkdir()
        for text in texts:
            (folder / name / f"{text}.md").write_text(f"The {text}.")
    for age, path in enumerate(
        sorted(folder.rglob("*"), reverse=True)
    ):  # no two of the same second: the order of answers is known
        os.utime(path, (LONG_AGO - age, LONG_AGO - age))
    (folder / "Vault" / "Inbox" / "Frames.md").write_text("Order thirty frames before the swarms.")
    proxy = Proxy(hub.port)
    person = Person(folder / "home", variables={"MAIL_PASSWORD": PASSWORD, "HUB_TOKEN": TOKEN})
    with upright(person):
        add = ("add",)
        person(*add, "obsidian", folder / "Vault", "--name", "vault").ok()
        person("recognition", "off").ok()  # a job that brings recognized text would be one more that is held back
        person(*add, "local_files", folder / "Letters", "--name", "letters").ok()
        person(*add, "local_files", folder / "Diary", "--name", "diary", "--set", "assistants=false").ok()
        mail = ["--set", "security=none", "--set", "assistants=true", "--secret", "password=env:MAIL_PASSWORD"]
        person(*add, "imap", f"{USER}@127.0.0.1:{dovecot.port}", "--name", "mail", "--consent", *mail).ok()
        weir = ["--set", "include=[issues, pulls]", "--secret", "token=env:HUB_TOKEN"]
        person(*add, "github", f"{proxy.address}/ada/weir", "--name", "weir", "--consent", *weir).ok()
        for name in ("vault", "letters", "diary", "mail", "weir"):
            person("sync", name, "--wait").ok()
        for number in range(1, 12):
            (folder / "Letters" / f"letter {number}.md").unlink()
        person("sync", "letters", "--wait")
        until(lambda: person("search", "pump", "--explain", "--json").ok().json, _is_by_meaning, seconds=120)
        yield person
    proxy.close()
    assert person.left() == []


def _is_by_meaning(found: dict[str, Any]) -> bool:
    return not found["incomplete"] and not found["meaning_off"]


def _message(number: int) -> bytes:
    _, sender, subject, text, age, headers = MAIL[number]
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, "Someone <someone@example.org>", subject
    message["Date"] = format_datetime(datetime.now(UTC) - timedelta(days=age))
    for name, value in {"Message-ID": f"<{number}@example.org>", **headers}.items():
        message[name] = value
    message.set_content(text)
    return message.as_bytes()


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: asked["question"])
async def test_question_is_answered_with_an_address(person: Person, hub: GitHubServer, asked: dict[str, Any]) -> None:
    answer: dict[str, Any] = {}
    text = ""
    async with Client(StdioServerParameters(command=str(COMMAND), args=["mcp"], env=person.environment)) as assistant:
        for call in asked["calls"]:
            [(tool, given)] = call.items()
            numbers = {name: answer["hits"][0]["document"] for name, value in given.items() if value == "first"}
            result = await assistant.call_tool(tool, {**given, **numbers})
            answer, text = _read(result)
    for fact in asked["has"]:
        assert fact in text, text
    for other in asked.get("lacks", ()):
        assert other not in text, text
    assert answer["total"] == asked.get("total", answer["total"]), text
    rows = answer.get("hits", [answer])
    addresses = [row["untrusted"]["address"] for row in rows if row.get("untrusted", {}).get("address")]
    assert all(address in text for address in addresses)
    kinds = [_kind_of_opened(address, person, hub) for address in addresses]
    assert set(kinds[:1]) <= set(asked.get("from", ())) and bool(kinds) == ("from" in asked), text
    assert "1 source is kept from assistants" in text or list(asked["calls"][-1]) == ["read"]


def _read(result: CallToolResult) -> tuple[dict[str, Any], str]:
    [content] = result.content
    assert isinstance(content, TextContent) and not result.is_error, content
    assert result.structured_content is not None
    # Brackets mark the words of the query.
    return result.structured_content, content.text.replace("[", "").replace("]", "")


def _kind_of_opened(address: str, person: Person, hub: GitHubServer) -> str:
    """Open an address as a person's programs would; return where it leads."""
    if address.startswith(("file://", "obsidian://open?path=")):
        path = unquote(address.removeprefix("file://").removeprefix("obsidian://open?path="))
        assert Path(path).is_file(), address
        return urlsplit(address).scheme
    if address.startswith(hub.web):
        assert address in {issue["html_url"] for issue in hub.repos["ada/weir"].issues.values()}
        return "web"
    with httpx.Client(follow_redirects=True) as browser:
        browser.get(person("web", "--no-browser").ok().out.split()[-1]).raise_for_status()
        page = browser.get(address).raise_for_status()
        assert urlsplit(str(page.url)).path == urlsplit(address).path
    return "page"
