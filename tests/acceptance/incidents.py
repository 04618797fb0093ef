"""The incidents of a running system as commands, page, metrics and events show them; a mail account that can fail."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import httpx

from catchment.errors import TryAgain
from deployments.health.announcing import EVENT
from deployments.server.client import api
from deployments.server.running import Running
from tests.acceptance.person import Person
from tests.connectors.imap.dovecot import USER, Dovecot, serving
from tests.waiting import PATIENCE

_PAGE = 50


@contextmanager
def letters(person: Person) -> Iterator[Dovecot]:
    """A mail server with an account that is the source `letters`."""
    for server in serving():
        account = ("imap", f"{USER}@127.0.0.1:{server.port}", "--set", "security=none", "--consent")
        person("add", *account, "--name", "letters", "--secret", "password=env:MAIL_PASSWORD").ok()
        yield server
        person("sources", "remove", "letters", "--yes").ok()


def rows(person: Person, subject: str | None = None) -> list[dict[str, Any]]:
    """Return the incidents that the command lists, of one subject or of all."""
    found: list[dict[str, Any]] = person("incidents", "list", "--json").ok().json
    return [row for row in found if subject in (None, row["subject"])]


def open_reasons(person: Person, subject: str | None = None) -> list[str]:
    """Return the reason codes of the open incidents, as the command lists them."""
    return [row["reason"] for row in rows(person, subject) if row["state"] == "open"]


def page_reasons(person: Person) -> list[str]:
    """Return the reason codes of the open incidents, as the web process knows them."""
    return [row["reason"] for row in _get(person, "/api/v1/incidents", "web-token").json()["open"]]


def metric_reasons(person: Person) -> list[str]:
    """Return the reason codes with open incidents in `/metrics`, which may be five seconds old."""
    lines = _get(person, "/metrics", "metrics-token").text
    found = re.findall(r'^catchment_incidents_open\{reason="(.+)"\} (.+)$', lines, re.MULTILINE)
    return [reason for reason, number in found if float(number)]


def events(person: Person) -> set[tuple[str, str, int]]:
    """Return the events as (opened or closed, reason code, number); none while the server does not respond."""
    query = {"filter": {"event": {"prefix": [f"{EVENT}."]}}, "limit": _PAGE}
    try:
        with api(running(person)) as client:
            found = client.post("/events/filter", json=query).raise_for_status().json()["events"]
    except TryAgain:
        return set()
    for event in found:
        assert event["payload"].keys() == {"reason", "number"}
    return {
        (event["event"].removeprefix(f"{EVENT}."), event["payload"]["reason"], event["payload"]["number"])
        for event in found
    }


def running(person: Person) -> Running:
    """Return the record of the system of a home, which only the person's commands may see."""
    fields = json.loads(_read(person, "run/up.json"))
    del fields["identity"]
    started = datetime.fromisoformat(fields.pop("started")).astimezone(UTC)
    return Running(**fields, started=started, login=_read(person, "ui-login"))


def _get(person: Person, path: str, token_file: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {_read(person, token_file)}"}
    address = f"http://127.0.0.1:{running(person).page_port}{path}"
    return httpx.get(address, headers=headers, trust_env=False, timeout=PATIENCE).raise_for_status()


def _read(person: Person, file: str) -> str:
    words = [*person.before, "cat", str(person.home / file)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
